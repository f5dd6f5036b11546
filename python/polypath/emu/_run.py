"""Runs in real time: a process for each, which has the network, its links and its flows, and with
which all of it ends.

Runs of several programs would share the processors and spoil one another, so they wait for each
other; those of one program do not.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from . import _process
from ._errors import EmuError, require_root
from ._run_files import lock_file

_LOCK = "host.lock"
# Seconds that setting up and ending may take in all: a machine that needs longer cannot keep real
# time.
_PATIENCE = 60.0

_running: set[subprocess.Popen[str]] = set()
_stopped = threading.Event()
_lock = threading.Lock()
_log = logging.getLogger("polypath")


def run(specification: Mapping[str, Any], results: Path, *, rehearsal: bool = False) -> dict[str, Any]:
    """Carries out the plan of a specification (see `carried`); what came of it
    (crates/emu/src/run.rs). Files go to `results`.

    A rehearsal only builds everything and takes it down again.
    """
    require_root()
    request = json.dumps({"spec": {**specification, "with_parent": True}, "results": str(results), "rehearsal": rehearsal})
    with contextlib.nullcontext() if rehearsal else _turn():
        said = _carried_out(request, specification["plan"]["duration_ns"] / 1e9)
    ran: dict[str, Any] = json.loads(said)
    return ran


def stop() -> None:
    """Ends all runs of this program, and starts no more."""
    with _lock:
        _stopped.set()
        for process in _running:
            process.terminate()


def _carried_out(request: str, seconds: float) -> str:
    with _lock:
        if _stopped.is_set():
            raise EmuError("the run was not started, since the study was interrupted")
        process = _process.begin("run_emulated")
        _running.add(process)
    try:
        said, wrong = process.communicate(request, timeout=_PATIENCE + seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise EmuError(f"the run did not end {_PATIENCE:.0f} s after its time, so it was killed") from None
    finally:
        with _lock:
            _running.discard(process)
    if process.returncode:
        raise EmuError(_process.last_line(wrong) or f"the run's process ended with status {process.returncode}")
    return said


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """Waits until no other program carries out a run. The turn ends with this program's last run,
    or with the program.
    """
    with _turns.lock:
        if not _turns.runs:
            _turns.place = _take_turn()
        _turns.runs += 1
    try:
        yield
    finally:
        with _turns.lock:
            _turns.runs -= 1
            if not _turns.runs and _turns.place is not None:
                _turns.place.close()
                _turns.place = None


class _Turns:
    """How many runs of this program go on, and what keeps other programs from theirs meanwhile."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.runs = 0
        self.place: IO[str] | None = None


_turns = _Turns()


def _take_turn() -> IO[str]:
    lock = lock_file(_LOCK)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.warning("waiting until another program's run in real time is over")
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock
