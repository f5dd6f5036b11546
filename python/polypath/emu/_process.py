"""The emulator's process: an interpreter of its own that loads nothing but the compiled module."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from polypath import _native

from ._errors import EmuError

_PROGRAM = """
import importlib.util, sys
path, function = sys.argv[1:3]
spec = importlib.util.spec_from_file_location("_native", path)
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
try:
    print(getattr(native, function)(sys.stdin.read()) or "", end="")
except Exception as error:
    sys.exit(str(error))
"""


def start(function: str, specification: Mapping[str, Any], *, log: IO[bytes], mark: str) -> subprocess.Popen[bytes]:
    """Starts a function of the compiled module in the background, out of reach of this terminal's
    Ctrl-C; `marked` finds it again.
    """
    with tempfile.TemporaryFile() as input_file:
        input_file.write(json.dumps(specification).encode())
        input_file.seek(0)
        command = [*_command(function), mark]
        return subprocess.Popen(command, stdin=input_file, stdout=subprocess.DEVNULL, stderr=log, cwd="/", start_new_session=True)


def ask(function: str, specification: Mapping[str, Any]) -> Any:
    """Runs a function of the compiled module and gives back what it says."""
    done = subprocess.run(_command(function), input=json.dumps(specification), capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmuError(last_line(done.stderr) or f"the emulator ended with status {done.returncode}")
    return json.loads(done.stdout)


def begin(function: str) -> subprocess.Popen[str]:
    """Starts a function of the compiled module that waits for its specification; out of reach of
    this terminal's Ctrl-C.
    """
    pipe = subprocess.PIPE
    return subprocess.Popen(
        _command(function), stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace", cwd="/", start_new_session=True
    )


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _command(function: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _PROGRAM, _native.__file__, function]


def started_at(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was; None if there is none (any more),
    or it only waits to be reaped.
    """
    try:
        # The name, which may hold anything, ends with the last parenthesis.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else int(fields[18])


def end(pid: int, start: int | None, patience: float) -> None:
    """Ends a process: told first, killed after `patience` seconds. One that was started at another
    time is not meant.
    """
    for how, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        if start is None or started_at(pid) != start:
            return
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            return
        until = time.monotonic() + wait
        while started_at(pid) == start and time.monotonic() < until:
            time.sleep(0.01)


def inside(namespaces: set[int]) -> list[int]:
    """Processes in any of these network namespaces, by inode."""
    return _processes(lambda folder: (folder / "ns" / "net").stat().st_ino in namespaces)


def marked(function: str, mark: str) -> list[int]:
    """Processes that any call of `start` has started with this mark."""
    last = f"\0{function}\0{mark}\0".encode()
    return _processes(lambda folder: (folder / "cmdline").read_bytes().endswith(last))


def _processes(test: Callable[[Path], bool]) -> list[int]:
    processes = []
    for folder in Path("/proc").iterdir():
        # A process may end while we look at it.
        with suppress(OSError):
            if folder.name.isdigit() and test(folder):
                processes.append(int(folder.name))
    return processes
