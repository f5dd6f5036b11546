"""The same run again, while all around it is otherwise: what a machine leaves must be equal to the
byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polypath import linux, programs

from . import _machine
from ._errors import EngineError
from ._linux import output, plan_of

# What is otherwise, by name.
CONDITIONS = {
    "plain": "nothing",
    "busy": "two busy processes on each core",
    "stopped": "all of its processes stopped and continued at random moments",
    "folder": "another folder, on disk, with a longer name",
    "core": "one core of its own, each in turn",
    "user": "another user, without privileges",
}
_NOBODY = 65534
# Seconds between two stops, and how long one lasts.
_BETWEEN_S, _STOPPED_S = (0.005, 0.25), (0.0, 0.05)
_PATIENCE_S = 600.0


@dataclass(frozen=True)
class Replay:
    condition: str
    # Of all files that the machine wrote.
    digest: str
    # What it says of its flows and links.
    outcome: Mapping[str, Any]
    # How often its processes were stopped.
    stops: int = 0


def conditions() -> list[str]:
    """Those that can be had here: only root may become another user."""
    return [name for name in CONDITIONS if name != "user" or os.geteuid() == 0]


def replay(scenario: Mapping[str, Any], condition: str, *, kernel: linux.Kernel, number: int = 0, timeout_s: float = _PATIENCE_S) -> Replay:
    """Runs a scenario in a machine under a condition; `number` chooses the core and the moments of
    the stops.
    """
    planned = plan_of(scenario, kernel)
    with contextlib.ExitStack() as stack:
        where = stack.enter_context(_folder(condition))
        (where / "plan.json").write_text(json.dumps(planned.plan), encoding="ascii")
        _machine.lay_out(where)
        if condition == "busy":
            stack.enter_context(_busy())
        words, starter, file = [], _machine.STARTER, kernel.file
        if condition == "user":
            starter, file = (Path(shutil.copy(source, where)) for source in (starter, file))
            words = [programs.need("setpriv"), f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
            for path in (where, *where.rglob("*")):
                os.chown(path, _NOBODY, _NOBODY)
        words += _machine.command(where, kernel=file, seed=scenario["seed"], timeout_s=timeout_s, starter=starter)
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if condition == "core":
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(process.pid, {cores[number % len(cores)]})
        with _stopping(process.pid, number) if condition == "stopped" else contextlib.nullcontext([0]) as stops:
            _, said = process.communicate()
        if process.returncode:
            raise EngineError(_machine.last_words(where, said))
        return Replay(condition, _digest(where / "results"), output(scenario, planned, where).outcome, stops[0])


@contextlib.contextmanager
def _folder(condition: str) -> Iterator[Path]:
    if condition != "folder":
        with _machine.folder() as where:
            yield where
    else:
        with tempfile.TemporaryDirectory(prefix="another folder with a name that is rather long ") as name:
            yield Path(name)


@contextlib.contextmanager
def _busy() -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _stopping(process: int, number: int) -> Iterator[list[int]]:
    """Stops and continues a process with all that descends from it until the end; counts how often."""
    ended = threading.Event()
    moments = random.Random(number)
    stops = [0]

    def work() -> None:
        while not ended.wait(moments.uniform(*_BETWEEN_S)):
            every = [process, *_descendants(process)]
            moments.shuffle(every)
            stops[0] += sum(_send(process, signal.SIGSTOP) for process in every) > 1
            time.sleep(moments.uniform(*_STOPPED_S))
            for number in every:
                _send(number, signal.SIGCONT)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield stops
    finally:
        ended.set()
        thread.join()


def _send(process: int, signal_number: signal.Signals) -> bool:
    try:
        os.kill(process, signal_number)
    except ProcessLookupError:
        return False
    return True


def _descendants(process: int) -> list[int]:
    processes: list[int] = []
    waiting = [process]
    while waiting:
        for file in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = [int(word) for word in file.read_text(encoding="ascii").split()]
                processes += children
                waiting += children
    return processes


def _digest(results: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(results.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(results)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return digest.hexdigest()
