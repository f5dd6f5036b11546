"""A machine: the folder of one run, and the process that starts the kernel in it. Nothing of it
stays, however the run ends.

The folder's name says whose it is, so that what a killed process left is found and removed by the
next one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from polypath import programs
from polypath import tunnel as tunnels

from ._errors import EngineError, NotBuiltError
from ._variation import VARIED

PREFIX = "polypath-machine"
PROGRAMS = Path(__file__).parent / "bin"
GUEST, STARTER = PROGRAMS / "polypath-guest", PROGRAMS / "polypath-machine"
# Tables and limits of TCP follow from the memory, so this is part of what a run is; only what is
# used is taken from the host.
MEMORY = "1000M"
# What all sockets may hold before the kernel narrows their windows: three quarters of it, in pages.
# Its own limit, some 180 MB, ends below what large buffers of a study hold.
TCP_MEMORY = ("proc/sys/net/ipv4/tcp_mem", "192000 192000 192000")
# What a machine's memory file and results may take of a file system in memory.
ROOM = 1 << 30
# A machine hangs that takes more processor time, or none for this long: seconds to start, and for
# each simulated one.
PATIENCE_S, PATIENCE_PER_S = 120.0, 30.0
MOUNT_POINTS = ("dev", "proc", "sys", "tmp", "run")
LAST_LINES = 5
# What a machine has of its own when it runs a script on the host's files, which it hides.
HIDDEN = frozenset(map(Path, ("/dev", "/proc", "/run", "/sys", "/tmp")))

_running: set[subprocess.Popen[str]] = set()
_stopped = threading.Event()
_lock = threading.Lock()


def programs_are_there() -> None:
    """Raises `NotBuiltError` if they were not built."""
    for program in (GUEST, STARTER):
        if not program.is_file():
            raise NotBuiltError(programs.not_built(program.name))


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """The folder of one run, removed at the end."""
    work = _place() / f"{PREFIX}.{os.getpid()}.{_born(os.getpid())}.{secrets.token_hex(6)}"
    work.mkdir(mode=0o700)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run_plan(where: Path, plan: dict[str, Any], *, kernel: Path, seed: int, vary: str = "") -> None:
    """Has a machine carry out a plan in a folder. `vary` says what varies in it (cc/kernel/vary.c)."""
    put_variation(where, vary)
    programs = {tunnel["program"]: tunnels.program() for tunnel in plan["tunnels"]}
    machine = [*plan.get("machine", ()), TCP_MEMORY]
    (where / "plan.json").write_text(json.dumps({**plan, "machine": machine}), encoding="ascii")
    start(where, kernel=kernel, seed=seed, timeout_s=PATIENCE_S + PATIENCE_PER_S * plan["duration_ns"] / 1e9, programs=programs)


def put_variation(where: Path, vary: str) -> None:
    """Tells a machine of this folder what varies in its run; nothing without words."""
    if vary:
        (where / "vary").write_text(vary, encoding="ascii")


def hand_in(where: Path, folders: Iterable[Path]) -> None:
    """Has a script in this folder's machine see these folders of the host at their own places,
    read-only, also where they are hidden.
    """
    links = where / "handed-in"
    links.mkdir()
    hidden = {path for folder in folders if not HIDDEN.isdisjoint((path := folder.resolve()).parents)}
    for number, path in enumerate(sorted(hidden)):
        (links / f"{number}").symlink_to(path)


def lay_out(where: Path, programs: Mapping[str, Path] = MappingProxyType({})) -> None:
    """Puts what a machine needs into its folder; `programs` are further ones, by their places in
    it.
    """
    (where / "root").mkdir()
    for name in MOUNT_POINTS:
        (where / "root" / name).mkdir()
    shutil.copy(GUEST, where / "root" / "init")
    for target, program in programs.items():
        shutil.copy(program, where / "root" / target.removeprefix("/"))
    (where / "results").mkdir()


def command(where: Path, *, kernel: Path, seed: int, timeout_s: float, starter: Path | None = None) -> list[str]:
    """What starts a machine in its folder."""
    words = [starter or STARTER, "--dir", where, "--kernel", kernel, "--seed", seed, "--memory", MEMORY, "--timeout", round(timeout_s)]
    return list(map(str, words))


def start(
    where: Path,
    *,
    kernel: Path,
    seed: int,
    timeout_s: float,
    programs: Mapping[str, Path] = MappingProxyType({}),
    left_open: Sequence[int] = (),
) -> None:
    """Starts a machine in a folder and waits until it has powered off. Raises `EngineError` with
    its last words if it died.

    `programs` are further ones, by their places in it; `left_open` are descriptors that it gets.
    """
    lay_out(where, programs)
    with _lock:
        if _stopped.is_set():
            raise EngineError("the machine was not started, since the study was interrupted")
        process = subprocess.Popen(
            command(where, kernel=kernel, seed=seed, timeout_s=timeout_s),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            pass_fds=tuple(left_open),
        )
        _running.add(process)
    try:
        _, said = process.communicate()
    finally:
        with _lock:
            _running.discard(process)
    if process.returncode:
        raise EngineError(last_words(where, said))
    if (where / "vary").is_file() and not (where / "results" / VARIED).is_file():
        raise EngineError("nothing varies on this kernel, which has no list of events: take a release from 5.7 on, or leave --vary out")


def stop() -> None:
    """Ends all machines of this process, and starts no more."""
    with _lock:
        _stopped.set()
        for process in _running:
            process.terminate()


def clean() -> None:
    """Removes the folders of processes that are gone."""
    for shared in {Path("/dev/shm"), Path(tempfile.gettempdir())}:
        for left in shared.glob(f"{PREFIX}.*.*.*"):
            _, owner, born, _ = left.name.rsplit(".", 3)
            if owner.isdigit() and _born(int(owner)) != born:
                shutil.rmtree(left, ignore_errors=True)


@functools.cache
def clean_once() -> None:
    """The same, the first time that this process asks."""
    clean()


def _place() -> Path:
    """In memory where there is room, since a machine writes its memory there; else with other
    temporary files.
    """
    memory = Path("/dev/shm")
    with contextlib.suppress(OSError):
        status = os.statvfs(memory)
        executable = not status.f_flag & os.ST_NOEXEC
        if executable and os.access(memory, os.W_OK | os.X_OK) and status.f_bavail * status.f_frsize >= ROOM:
            return memory
    return Path(tempfile.gettempdir())


def _born(process: int) -> str:
    """When a process began, in clock ticks since the host did: two processes of one number differ
    in it.
    """
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "gone"
    return text.rpartition(")")[2].split()[19]


def last_words(where: Path, said: str) -> str:
    """How it died, with the end of its log."""
    log = where / "log"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    ends = [line.strip() for line in lines if line.strip()][-LAST_LINES:]
    how = said.strip().splitlines()[-1] if said.strip() else "the machine died without a word"
    return how if not ends else f"{how}; its log ends: {' | '.join(ends)}"
