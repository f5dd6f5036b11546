"""How far the runs of a study are, in a file of its results folder while they run:
`polypath status` reads it in another terminal.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Sized
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from polypath.sweep import State

from ._store import lives, replace_file

# Hidden, and gone once the runs have ended: it names a machine and a time, and two results folders
# compare.
_FILE = ".progress.json"
_EVERY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a study is. Times are seconds since 1970."""

    study: str
    engine: str
    # Runs to do, and what became of them.
    runs: int
    finished: int = 0
    failed: int = 0
    begun: float
    updated: float
    # Who runs it: a process of this host, and the machines that it uses.
    host: str
    process: int
    machines: int = 1
    threads: int = 1
    active: int = 0
    note: str = ""

    @property
    def per_second(self) -> float:
        """Runs that ended each second."""
        return (self.finished + self.failed) / max(self.updated - self.begun, 1e-3)

    @property
    def left_s(self) -> float | None:
        """Seconds until the last run ends, if it goes on like this; None before the first one
        ended.
        """
        left = self.runs - self.finished - self.failed
        return left / self.per_second if self.finished + self.failed else None

    @property
    def stopped(self) -> bool:
        """Whether its process is there no more; of another host it cannot be known."""
        return self.host == socket.gethostname() and not lives(self.process)


class ProgressFile:
    """Keeps the file up to date while runs end; use it as a context."""

    def __init__(self, folder: Path, study: str, engine: str, runs: int, threads: int) -> None:
        now = time.time()
        self._file = folder / _FILE
        self._written = 0.0
        self.progress = Progress(
            study=study, engine=engine, runs=runs, begun=now, updated=now, host=socket.gethostname(), process=os.getpid(), threads=threads
        )

    def __enter__(self) -> ProgressFile:
        self._write()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.unlink(missing_ok=True)

    def ended(self, failures: Sized) -> None:
        """One more run has finished; `failures` are those that failed until now."""
        self.progress = replace(self.progress, finished=self.progress.finished + 1, failed=len(failures))
        self._soon()

    def machines(self, state: State) -> None:
        self.progress = replace(self.progress, machines=state.machines, threads=state.threads, active=state.active, note=state.note)
        self._soon()

    def _soon(self) -> None:
        if time.monotonic() >= self._written + _EVERY_S:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self.progress = replace(self.progress, updated=time.time())
        replace_file(self._file, json.dumps(asdict(self.progress)).encode())


def progress_of(folder: Path) -> Progress | None:
    """How far the runs are whose results go to this folder; None if nothing runs."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Progress(**json.loads((folder / _FILE).read_bytes()))
    return None
