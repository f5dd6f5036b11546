"""What happens on a machine: it says what it has, and does chunks. Everything here is called by
name from elsewhere.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial

# `engines` loads an engine when it is asked for one, which only a machine that carries out runs
# does.
from polypath import customcc, engines, linux
from polypath.engines import Engine, EngineError
from polypath.errors import PolypathError

from ._chunks import Chunk, CustomSource, Task
from ._finished import Failed, Fault, Finished, files_of
from ._handover import Handover


@dataclass(frozen=True, kw_only=True)
class Described:
    """What a machine has of what a study needs."""

    machine: str
    # Version by kernel, "" for an engine that has none.
    versions: dict[str, str]
    # Why something is missing, in a sentence.
    lacks: str = ""


def describe(engine: str, kernels: Sequence[str], custom: Sequence[CustomSource], build: bool = False) -> Described:
    """The engine's version on this machine with each of the kernels; compiles the algorithms `own`,
    and with `build` kernels it lacks.
    """
    machine = socket.gethostname()
    try:
        _compiled(tuple((each.name, each.hash, tuple(each.sources.items())) for each in custom))
        local_engine = _engine(engine)
        return Described(machine=machine, versions={kernel: _version(local_engine, kernel, build) for kernel in kernels or ("",)})
    except (PolypathError, OSError) as error:
        return Described(machine=machine, versions={}, lacks=str(error))


def work(chunk: Chunk, threads: int = 1) -> list[Finished | Failed]:
    """Does all runs of a chunk, `threads` at once. A run that fails does not keep the others from
    running.
    """
    try:
        _compiled(tuple((each.name, each.hash, tuple(each.sources.items())) for each in chunk.custom))
    except (PolypathError, OSError) as error:
        return [Failed(key=task.key, fault=Fault.MACHINE, sentence=str(error), machine=_machine()) for task in chunk.tasks]
    handover = None if chunk.handover is None else Handover(chunk.handover)
    done = partial(_done, handover=handover, build=chunk.build)
    if threads == 1:
        return [done(task) for task in chunk.tasks]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(done, chunk.tasks))


def work_at(chunk: Chunk) -> tuple[str, list[Finished | Failed]]:
    """Does a chunk on a worker of Dask's, and says on which."""
    from distributed import get_worker

    return get_worker().address, work(chunk)


def work_on(chunk: Chunk, threads: int) -> tuple[str, list[Finished | Failed]]:
    """As `work`, with the node of Slurm that did it."""
    return _machine(), work(chunk, threads)


def _machine() -> str:
    """The name of this machine; under Slurm that by which Slurm knows it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def _done(task: Task, handover: Handover | None, build: bool) -> Finished | Failed:
    machine = _machine()

    def failed(fault: Fault, error: object) -> Failed:
        return Failed(key=task.key, fault=fault, sentence=str(error), machine=machine)

    try:
        engine = _engine(task.engine)
        have = _version(engine, task.kernel or "", build)
        if have != task.version:
            return failed(Fault.MACHINE, differs(machine, task.engine, have, task.version))
        begun = time.perf_counter()
        scenario = json.loads(task.scenario)
        output = engine.run(scenario)
        files = {name: bytes(content) for name, content in files_of(task.key, task.engine, task.version, scenario, output).items()}
        with ExitStack() as stack:
            captures = {name: stack.enter_context(stream).read() for name, stream in output.captures.items()}
        run = Finished(key=task.key, files=files, captures=captures, seconds=time.perf_counter() - begun)
        if handover is None:
            return run
        handover.put(run)
        return Finished(key=run.key, files={}, seconds=run.seconds)
    except EngineError as error:
        return failed(Fault.ENGINE, error)
    except ValueError as error:
        return failed(Fault.STUDY, error)
    except (OSError, MemoryError, PolypathError) as error:
        # A full disk, no memory, a kernel that somebody removed: another machine may do it.
        return failed(Fault.MACHINE, error)
    except Exception as error:  # A fault of Polypath's own: told with the run, and the others go on.
        return failed(Fault.ENGINE, f"{type(error).__name__}: {error}")


def differs(machine: str, engine: str, have: str, wanted: str) -> str:
    """One sentence: which machine has another version than the study was planned with."""
    return f"the machine {machine} has version {have} of the engine {engine}, here it is {wanted}: install the same Polypath there"


@cache
def _engine(name: str) -> Engine:
    return engines.find(name)


def _version(engine: Engine, kernel: str, build: bool) -> str:
    """The engine's version with this kernel; with `build` a kernel that is not there is built
    first.
    """
    version = engine.versions(kernel or None)
    if isinstance(version, str):
        return version
    try:
        return version(kernel)
    except linux.KernelError:
        if not build:
            raise
    _build(kernel)
    return version(kernel)


# Of this process only one thread builds. Other processes of this user wait for it, too, and then
# take what it built.
_building = threading.Lock()


def _build(kernel: str) -> None:
    with _building:
        linux.build(kernel, prove=engines.prove, say=lambda text: print(f"polypath: kernel {kernel}: {text}", file=sys.stderr, flush=True))


@cache
def _compiled(custom: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]) -> None:
    """Makes custom algorithms known to this process; raises `CustomCcError` where one does not
    compile here.
    """
    for name, digest, sources in custom:
        known = customcc.used().get(name)
        if known is not None and known.hash == digest:
            continue
        compiled = customcc.use_sent(name, digest, dict(sources))
        if compiled.hash != digest:
            sentence = f"{socket.gethostname()} has other headers of Polypath for {name}.c than this machine"
            raise customcc.CustomCcError(f"{sentence}: install the same Polypath there")
