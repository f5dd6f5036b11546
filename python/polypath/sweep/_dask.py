"""Runs on the workers of a Dask scheduler."""

from __future__ import annotations

import itertools
import math
import queue
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polypath.engines import Engine
from polypath.study import Run, StudyError

from ._abstract import Place, State
from ._chunks import Chunk, chunk_seconds, own_of, task_of
from ._finished import DIED, Failed, Fault, Finished
from ._handover import Handover
from ._ledger import Ledger
from ._worker import Described, describe, differs, work_at

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
# A machine that fails at so many runs in a row gets no more while there are others: a full disk fails fast, and would get them all.
_FAULTS = 3
_OVERDUE_S = 60.0


@dataclass(kw_only=True)
class _Sent:
    """A chunk on its way."""

    future: Future
    runs: Sequence[Run]
    at: float
    expected: float | None
    # The workers that may do it; None: all.
    among: frozenset[str] | None
    # Workers that hold the same runs in other chunks, and have for too long.
    held_by: frozenset[str]
    # Whether it was sent once more since.
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Files of certificates by which client and scheduler know one another; None where Dask's own configuration names them."""

    files: Mapping[str, str] | None = None

    @classmethod
    def of(cls, folder: str | Path | None) -> Tls:
        """Those in a folder: ca.pem, cert.pem and key.pem. Raises `StudyError` naming the one that is not there."""
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

        made = Security(require_encryption=True, **(self.files or {}))
        if not (made.tls_ca_file and made.tls_client_cert and made.tls_client_key):
            raise StudyError(
                "--on tls:// needs certificates: give --certificates FOLDER with ca.pem, cert.pem and key.pem, or name the files in "
                "Dask's configuration (distributed.comm.tls)"
            )
        try:
            made.get_connection_args("client")
        except OSError as error:
            raise StudyError(f"--on tls://: these certificates cannot be used ({error}); give others") from None
        return made


class DaskPlace(Place):
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


class _Sweep:
    """One study's runs on one scheduler, from the client's side."""

    def __init__(self, place: DaskPlace, client: Client, engine: Engine, runs: Iterable[Run], tell: Callable[[State], None]) -> None:
        self._place = place
        self._client = client
        self._engine = engine
        self._tell = tell
        self._ledger = Ledger(runs, handover=place.handover)
        # What the first runs ask for; each machine looks again at each run.
        first = list(self._ledger.runs.values())
        self._own = {each.name: each for each in own_of(name for run in first for name in run.own)}
        self._kernels = sorted({run.kernel for run in first if run.kernel})
        self._versions = {run.kernel or "": run.version for run in first}
        # By a number: chunks on their way, and the numbers of those that ended.
        self._sent: dict[int, _Sent] = {}
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._numbers = itertools.count()
        # By worker: runs in a row that failed by its fault. By run: workers that failed at it.
        self._faults: Counter[str] = Counter()
        self._failed_at: defaultdict[str, set[str]] = defaultdict(set)
        # Runs that machines died of, or that were there beside such ones, since Dask blames all: each is done once more, alone, when
        # nothing else is left. And the keys of those that were alone.
        self._suspects: dict[str, Run] = {}
        self._alone: set[str] = set()
        self._threads = 1
        self._machines = 0
        self._counted = -math.inf

    def check(self) -> None:
        """Raises `StudyError` naming the machine that differs."""
        self._wait_for_machines()
        found = self._described(self._workers(), seconds=_ANSWER_S)
        lacking = [address for address, each in found.items() if isinstance(each, Described) and each.lacks]
        if lacking and self._place.build_kernels and self._kernels:
            self._state(f"{len(lacking)} of {len(found)} workers build kernel {' and '.join(self._kernels)}")
            found |= self._described(lacking, seconds=_BUILD_S, build=True)
        for address, described in found.items():
            if isinstance(described, BaseException):
                raise StudyError(f"the worker {address} has no Polypath like this one ({described}): install the same version there")
            if described.lacks:
                raise StudyError(f"the machine {described.machine} ({address}): {described.lacks}")
            for kernel, wanted in self._versions.items():
                if described.versions[kernel] != wanted:
                    raise StudyError(differs(f"{described.machine} ({address})", self._engine.name, described.versions[kernel], wanted))

    def _described(self, workers: Iterable[str], *, seconds: float, build: bool = False) -> dict[str, Described | BaseException]:
        """What each machine says of itself. One that does not answer in time may hang: others are sent its chunks later."""
        own = list(self._own.values())
        asked = {
            address: self._client.submit(describe, self._engine.name, self._kernels, own, build, pure=False, workers=[address])
            for address in workers
        }
        until = time.monotonic() + seconds
        while time.monotonic() < until and not all(future.done() for future in asked.values()):
            time.sleep(0.05)
        answered = {address: future for address, future in asked.items() if future.done()}
        if not answered:
            raise StudyError(f"no worker of the Dask scheduler at {self._place.address} answers within {seconds:.0f} s")
        return {address: future.exception() or future.result() for address, future in answered.items()}

    def results(self) -> Iterator[Finished | Failed]:
        while self._ledger:
            yield from self._ledger.lying()
            try:
                self._look_around()
                self._hand_out()
            except OSError:
                # The scheduler does not answer; Dask notices by itself, but later.
                self._connect_again()
                continue
            if not self._sent:
                # All that came last lay at the handover, or is under suspicion.
                if self._suspects:
                    key, run = self._suspects.popitem()
                    self._alone.add(key)
                    self._send([run])
                continue
            try:
                number = self._ended.get(timeout=1.0)
            except queue.Empty:
                continue
            sent = self._sent.pop(number, None)
            if sent is not None:
                yield from self._taken(sent)

    def close(self) -> None:
        """Takes back what was handed out."""
        with suppress(Exception):
            self._client.cancel([sent.future for sent in self._sent.values()], force=True)
        with suppress(Exception):
            self._client.close(timeout=2)

    def _wait_for_machines(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_CONNECT_S)
        except TimeoutError:
            where = self._place.address
            raise StudyError(f"the Dask scheduler at {where} has no workers: start some (dask worker {where})") from None

    def _look_around(self) -> None:
        """Once a second: who is there, and which chunks must go elsewhere. Raises OSError where the scheduler does not answer."""
        if self._client.status != "running":
            raise OSError("the client lost its scheduler")
        if time.monotonic() < self._counted + _COUNT_S:
            return
        self._counted = time.monotonic()
        workers = self._workers()
        self._machines = len(workers)
        self._threads = max(sum(worker["nthreads"] for worker in workers.values()), 1)
        self._ledger.queue.machines(self._threads, self._place.chunk_s(self._threads))
        self._state("" if workers else "the scheduler has no workers; waiting for some")
        self._take_back()
        self._send_overdue_again()

    def _workers(self) -> Mapping[str, Any]:
        workers: Mapping[str, Any] = self._client.scheduler_info(n_workers=-1)["workers"]
        return workers

    def _state(self, note: str) -> None:
        active = sum(len(sent.runs) for sent in self._sent.values())
        self._tell(State(machines=self._machines, threads=self._threads, active=active, note=note))

    def _hand_out(self) -> None:
        while len(self._sent) < DEPTH * self._threads and (runs := self._ledger.queue.next()):
            self._send(runs)

    def _send(self, runs: Sequence[Run], *, away_from: Collection[str] = (), held_by: frozenset[str] = frozenset()) -> None:
        number = next(self._numbers)
        names = sorted({name for run in runs for name in run.own})
        self._own |= {each.name: each for each in own_of(name for name in names if name not in self._own)}
        own = [self._own[name] for name in names]
        handover = None if self._place.handover is None else self._place.handover.url
        chunk = Chunk(tasks=[task_of(run) for run in runs], own=own, handover=handover, build=self._place.build_kernels)
        away_from = {*away_from, *held_by, *(address for address, faults in self._faults.items() if faults >= _FAULTS)}
        # Where there are no others, these.
        others = ([address for address in self._workers() if address not in away_from] or None) if away_from else None
        expected = [self._ledger.queue.costs.expected(self._ledger.queue.weight(run.key)) for run in runs]
        future = self._client.submit(work_at, chunk, pure=False, key=f"polypath-{id(self)}-{number}", workers=others)
        known = None if None in expected else sum(each for each in expected if each is not None)
        among = None if others is None else frozenset(others)
        self._sent[number] = _Sent(future=future, runs=runs, at=time.monotonic(), expected=known, among=among, held_by=held_by)
        future.add_done_callback(lambda _, number=number: self._ended.put(number))

    def _taken(self, sent: _Sent) -> Iterator[Finished | Failed]:
        """What a chunk gave; a run that finished elsewhere meanwhile is given once."""
        try:
            address, results = sent.future.result(timeout=_CONNECT_S)
        except Exception as error:  # Whatever Dask says of a chunk that it could not do.
            yield from self._lost(sent, error)
            return
        for each in results:
            faulty = isinstance(each, Failed) and each.fault is Fault.MACHINE
            self._faults[address] = self._faults[address] + 1 if faulty else 0
            if faulty and (run := self._ledger.another_try(each.key)):
                self._failed_at[run.key].add(address)
                self._send([run], away_from=self._failed_at[run.key])
                continue
            end = self._ledger.ended(each)
            if end is not None:
                self._suspects.pop(each.key, None)
                yield end

    def _lost(self, sent: _Sent, error: Exception) -> Iterator[Failed]:
        """A chunk that came back without results: its workers died, or the scheduler went."""
        runs = self._ledger.open(sent.runs)
        if type(error).__name__ != "KilledWorker":
            # The scheduler went, or took it back: nothing is known of the runs.
            self._ledger.queue.back(reversed(runs))
            return
        for run in runs:
            if run.key not in self._alone:
                self._suspects[run.key] = run
                continue
            end = self._ledger.ended(Failed(key=run.key, fault=Fault.ENGINE, sentence=DIED))
            if isinstance(end, Failed):
                yield end

    def _take_back(self) -> None:
        """Takes back chunks that would keep the sweep from its end. Dask keeps a chunk for the workers that may do it, even when these
        are gone and others came. And a worker that hangs keeps a chunk of whose runs each has ended elsewhere, or waits to be done alone.
        """
        workers = self._workers().keys()
        awaited = {
            number: [run for run in self._ledger.open(sent.runs) if run.key not in self._suspects] for number, sent in self._sent.items()
        }
        gone = [number for number, sent in self._sent.items() if sent.among is not None and workers.isdisjoint(sent.among)]
        for number in gone if any(awaited.values()) else list(self._sent):
            self._client.cancel([self._sent.pop(number).future], force=True)
            self._ledger.queue.back(reversed(awaited[number]))

    def _send_overdue_again(self) -> None:
        """A machine that hangs, holds its chunks for ever: they are done once more elsewhere, and whoever is first counts."""
        now = time.monotonic()

        def overdue(sent: _Sent) -> bool:
            return not sent.repeated and now - sent.at >= max(self._place.overdue_s, _OVERDUE * DEPTH * (sent.expected or 0.0))

        late = [sent for sent in self._sent.values() if overdue(sent)]
        if not late:
            return
        workers, processing = self._workers().keys(), self._client.processing()
        for sent in late:
            held_by = sent.held_by.union(address for address, keys in processing.items() if sent.future.key in keys)
            if workers <= held_by or not (runs := self._ledger.open(sent.runs)):
                continue
            sent.repeated = True
            self._send(runs, held_by=held_by)

    def _connect_again(self) -> None:
        """Waits for a scheduler that went, and hands out anew what it had."""
        self.close()
        lost = self._ledger.open(run for sent in self._sent.values() for run in sent.runs)
        self._sent.clear()
        self._ledger.queue.back(reversed(list({run.key: run for run in lost}.values())))
        until = time.monotonic() + self._place.patience_s
        while time.monotonic() < until:
            self._state(f"the scheduler at {self._place.address} does not answer; trying again")
            client = self._place._connected(5.0)
            if client is not None:
                self._client = client
                self._wait_for_machines()
                return
        raise StudyError(
            f"the Dask scheduler at {self._place.address} went and did not come back within {self._place.patience_s:.0f} s; "
            "what is finished is kept: start it, and run this again"
        )
