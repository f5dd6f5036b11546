"""Runs on the workers of a Dask scheduler."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polypath.engines import Engine
from polypath.study import Run, StudyError, Time

from ._abstract import Backend, State
from ._chunks import chunk_seconds
from ._finished import Failed, Finished
from ._handover import Handover
from ._ledger import Assignment, Ledger
from ._sweep import Sweep
from ._worker import Described, describe, work_at

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.security import Security

# Chunks at a thread: one that it does, one that waits, so that it is never idle.
DEPTH = 2
# For a first connection, and how long a scheduler may be away before the sweep gives up.
_CONNECT_S = 10.0
_PATIENCE_S = 600.0
# For a machine to say what it has: at first it loads Polypath.
_ANSWER_S = 60.0
# For a machine to build the kernels that it lacks.
_BUILD_S = 3600.0
# How often machines are counted.
_COUNT_S = 1.0
# A chunk this many times over its time, and at least so many seconds, is done once more elsewhere.
_OVERDUE = 10.0
_OVERDUE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Files of certificates by which client and scheduler know one another; None where Dask's own
    configuration names them.
    """

    files: Mapping[str, str] | None = None

    @classmethod
    def of(cls, folder: str | Path | None) -> Tls:
        """Those in a folder: ca.pem, cert.pem and key.pem. Raises `StudyError` naming the one that
        is not there.
        """
        if folder is None:
            return cls()
        files = {name: Path(folder) / f"{what}.pem" for name, what in (("ca_file", "ca"), ("client_cert", "cert"), ("client_key", "key"))}
        for file in files.values():
            if not file.is_file():
                raise StudyError(f"--certificates: there is no {file}; the folder needs ca.pem, cert.pem and key.pem")
        return cls(files={f"tls_{name}": str(file) for name, file in files.items()})

    def security(self) -> Security:
        """For a client of Dask's, which then speaks to nobody in clear."""
        from distributed.security import Security

        tls = Security(require_encryption=True, **(self.files or {}))
        if not (tls.tls_ca_file and tls.tls_client_cert and tls.tls_client_key):
            raise StudyError(
                "--on tls:// needs certificates: give --certificates FOLDER with ca.pem, cert.pem and key.pem, or name the files in "
                "Dask's configuration (distributed.comm.tls)"
            )
        try:
            tls.get_connection_args("client")
        except OSError as error:
            raise StudyError(f"--on tls://: these certificates cannot be used ({error}); give others") from None
        return tls


class DaskBackend(Backend):
    """The workers of a Dask scheduler; they may come and go."""

    def __init__(
        self,
        address: str,
        *,
        handover: str | None = None,
        patience_s: float = _PATIENCE_S,
        overdue_s: float = _OVERDUE_S,
        chunk_s: Callable[[int], float] = chunk_seconds,
        build_kernels: bool = False,
        tls: Tls | None = None,
    ) -> None:
        try:
            import distributed  # noqa: F401  # Said here, before anything else is looked at.
        except ImportError:
            raise StudyError("--on dask://... needs Dask: pip install distributed") from None
        self.name = f"{'dask' if tls is None else 'tls'}://{address}"
        self._security = None if tls is None else tls.security()
        self.address = address
        self.handover = None if handover is None else Handover(handover)
        self.patience_s = patience_s
        self.overdue_s = overdue_s
        # A chunk's work in seconds, by the number of threads.
        self.chunk_s = chunk_s
        self.build_kernels = build_kernels

    def carry_out(self, engine: Engine, runs: Iterable[Run], tell: Callable[[State], None]) -> Generator[Finished | Failed]:
        client = self._connected(_CONNECT_S)
        if client is None:
            known = "" if self._security is None else " with these certificates"
            raise StudyError(
                f"no Dask scheduler answers{known} at {self.address}: start one there (dask scheduler), or name another after --on"
            )
        sweep = _Sweep(self, client, engine, runs, tell)
        try:
            sweep.check()
            yield from sweep.results()
        finally:
            sweep.close()

    def _connected(self, seconds: float) -> Client | None:
        from distributed import Client

        try:
            kind = "tcp" if self._security is None else "tls"
            return Client(f"{kind}://{self.address}", timeout=seconds, set_as_default=False, name="polypath", security=self._security)
        except (OSError, TimeoutError):
            return None


class _Sweep(Sweep):
    """One study's runs on one scheduler."""

    def __init__(self, backend: DaskBackend, client: Client, engine: Engine, runs: Iterable[Run], tell: Callable[[State], None]) -> None:
        # Dask itself gives a chunk whose worker died to others, and then blames all chunks that
        # were there.
        there = () if backend.handover is None else backend.handover.keys()
        super().__init__(backend, engine, Ledger(runs, there=there, isolated=False, deaths=1), tell)
        self._backend = backend
        self._client = client
        # Chunks on their way, and the numbers of those that ended.
        self._futures: dict[int, Future] = {}
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._threads = 1
        self._machines = 0
        self._counted = -math.inf

    def check(self) -> None:
        """Raises `StudyError` naming the machine that differs."""
        self._wait_for_machines()
        engines = self._described(self._workers(), seconds=_ANSWER_S)
        lacking = [address for address, each in engines.items() if isinstance(each, Described) and each.lacks]
        if lacking and self._build_kernels and self._kernels:
            self._state(f"{len(lacking)} of {len(engines)} workers build kernel {' and '.join(self._kernels)}")
            engines |= self._described(lacking, seconds=_BUILD_S, build=True)
        for address, described in engines.items():
            if isinstance(described, BaseException):
                raise StudyError(f"the worker {address} has no Polypath like this one ({described}): install the same version there")
            self._check(f"{described.machine} ({address})", described)

    def _described(self, workers: Iterable[str], *, seconds: float, build: bool = False) -> dict[str, Described | BaseException]:
        """What each machine says of itself. One that does not answer in time may hang: others are
        sent its chunks later.
        """
        custom = list(self._custom.values())
        asked = {
            address: self._client.submit(describe, self._engine.name, self._kernels, custom, build, pure=False, workers=[address])
            for address in workers
        }
        until = time.monotonic() + seconds
        while time.monotonic() < until and not all(future.done() for future in asked.values()):
            time.sleep(0.05)
        answered = {address: future for address, future in asked.items() if future.done()}
        if not answered:
            raise StudyError(f"no worker of the Dask scheduler at {self._backend.address} answers within {Time.about(seconds)}")
        return {address: future.exception() or future.result() for address, future in answered.items()}

    def results(self) -> Iterator[Finished | Failed]:
        while self._ledger:
            yield from self._taken(self._ledger.lying())
            try:
                self._look_around()
                self._hand_out()
            except OSError:
                # The scheduler does not answer; Dask notices by itself, but later.
                self._connect_again()
                continue
            if self._ledger.idle:
                # All that came last lay at the handover.
                continue
            try:
                number = self._ended.get(timeout=1.0)
            except queue.Empty:
                continue
            if (future := self._futures.pop(number, None)) is not None:
                yield from self._whole(self._ends(number, future))

    def close(self) -> None:
        """Takes back what was handed out."""
        with suppress(Exception):
            self._client.cancel(list(self._futures.values()), force=True)
        with suppress(Exception):
            self._client.close(timeout=2)

    def _wait_for_machines(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_S)
        except TimeoutError:
            where = self._backend.address
            raise StudyError(f"the Dask scheduler at {where} has no workers: start some (dask worker {where})") from None

    def _look_around(self) -> None:
        """Once a second: who is there, and which chunks must go elsewhere. Raises OSError where the
        scheduler does not answer.
        """
        if self._client.status != "running":
            raise OSError("the client lost its scheduler")
        if time.monotonic() < self._counted + _COUNT_S:
            return
        self._counted = time.monotonic()
        workers = self._workers()
        self._machines = len(workers)
        self._threads = max(sum(worker["nthreads"] for worker in workers.values()), 1)
        self._ledger.queue.machines(self._threads, self._backend.chunk_s(self._threads))
        self._state("" if workers else "the scheduler has no workers; waiting for some")
        if taken := self._ledger.take_back(workers):
            self._client.cancel([self._futures.pop(number) for number in taken], force=True)
        self._repeat_overdue(workers)

    def _workers(self) -> Mapping[str, Any]:
        workers: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def _state(self, note: str) -> None:
        self._tell(State(machines=self._machines, threads=self._threads, active=self._ledger.active, note=note))

    def _hand_out(self) -> None:
        while assigned := self._ledger.next(time.monotonic(), DEPTH * self._threads, self._workers):
            self._send(assigned)

    def _send(self, assigned: Assignment) -> None:
        number = assigned.number
        among = None if assigned.among is None else sorted(assigned.among)
        key = f"polypath-{id(self)}-{number}"
        future = self._futures[number] = self._client.submit(work_at, self._chunk(assigned.runs), pure=False, key=key, workers=among)
        future.add_done_callback(lambda _: self._ended.put(number))

    def _ends(self, number: int, future: Future) -> Sequence[Finished | Failed]:
        """What a chunk gave; a run that finished elsewhere meanwhile is given once."""
        try:
            address, results = future.result(timeout=_CONNECT_S)
        except Exception as error:  # Whatever Dask says of a chunk that it could not do.
            if type(error).__name__ == "KilledWorker":
                return self._ledger.died(number)
            if future.status == "error":
                return self._ledger.raised(number, f"a worker cannot begin it: {type(error).__name__}: {error}")
            # The scheduler went, or took it back.
            self._ledger.back(number)
            return ()
        return self._ledger.ended(number, address, results)

    def _repeat_overdue(self, workers: Collection[str]) -> None:
        """A machine that hangs, holds its chunks for ever: they are done once more elsewhere, and
        whoever is first counts.
        """
        if late := self._ledger.overdue(time.monotonic(), self._backend.overdue_s, _OVERDUE * DEPTH):
            processing = self._client.processing()
            for number in late:
                holders = [address for address, keys in processing.items() if self._futures[number].key in keys]
                self._ledger.repeat(number, holders, workers)

    def _connect_again(self) -> None:
        """Waits for a scheduler that went, and hands out anew what it had."""
        self.close()
        self._futures.clear()
        self._ledger.all_back()
        until = time.monotonic() + self._backend.patience_s
        while time.monotonic() < until:
            self._state(f"the scheduler at {self._backend.address} does not answer; trying again")
            client = self._backend._connected(5.0)
            if client is not None:
                self._client = client
                self._wait_for_machines()
                return
        raise StudyError(
            f"the Dask scheduler at {self._backend.address} went and did not come back within {Time.about(self._backend.patience_s)}; "
            "what is finished is kept: start it, and run this again"
        )
