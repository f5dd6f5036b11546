"""Runs the tools that build kernels. The one place that starts processes here: it checks their
status and keeps what they say.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from polypath import programs

from ._errors import KernelError

# Lines of a tool's output that a person is shown.
_SHOWN = 20


def run(
    *command: str | Path, cwd: Path, purpose: str, env: Mapping[str, str] | None = None, on_line: Callable[[str], None] | None = None
) -> str:
    """Runs a command; its standard output. `purpose` says what failed if it fails."""
    # The words of compilers and of apt are read and shown: in one language.
    environment = {**os.environ, "LC_ALL": "C", **(env or {})}
    # Settings of an outer make would reach the kernel's.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        environment.pop(name, None)
    words = [str(word) for word in command]
    # The program's own name stays: gcc looks beside it for its parts.
    program = words[0] if isinstance(command[0], Path) else programs.find(words[0])
    if program is None:
        raise KernelError(f"{purpose}: {programs.lacks(words[0])}")
    process = subprocess.Popen(
        words, executable=program, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if on_line else subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    with process:
        try:
            if on_line:
                assert process.stdout is not None
                lines = []
                for line in process.stdout:
                    lines.append(line)
                    on_line(line.rstrip())
                out, said = "".join(lines), "".join(lines)
                process.wait()
            else:
                out, said = process.communicate()
        except BaseException:
            # make passes this on to its compilers; a kill would leave them behind.
            process.terminate()
            raise
    if process.returncode:
        raise KernelError(f"{purpose} failed:\n{_essence(said or out)}")
    return out


def _essence(said: str) -> str:
    """The lines that name an error, or else the last ones."""
    lines = said.strip().splitlines()
    wrong = re.compile(r"\berror\b|\*\*\*|undefined reference|No space left|can't open", re.IGNORECASE)
    errors = [i for i, line in enumerate(lines) if wrong.search(line)]
    # The compiler says in which function before it says what is wrong.
    first = max(0, errors[0] - 1 if errors else len(lines) - _SHOWN)
    return "\n".join(lines[first : first + _SHOWN])


def apt_get(*words: str, purpose: str, say: Callable[[str], None], cwd: Path = Path("/")) -> None:
    """Runs apt-get; if another program holds its locks, says so and waits for some minutes."""
    run(programs.DEBIAN, "apt-get", *words, cwd=cwd, purpose=purpose, on_line=lambda line: say(line.removeprefix("polypath: ")))


def install(*packages: str, purpose: str, say: Callable[[str], None]) -> None:
    """Installs Debian packages; only root may."""
    apt_get("install", "-y", "--no-install-recommends", *packages, purpose=purpose, say=say)


@contextmanager
def locked(file: Path, on_wait: Callable[[], None] = lambda: None, *, remove: bool = False) -> Iterator[None]:
    """Holds a lock on this file; it ends with the process, however that dies. With `remove` it goes
    then: ask so always or never. `on_wait` is called if another process holds it.
    """
    while True:
        with file.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
                fcntl.flock(handle, fcntl.LOCK_EX)
            if remove and not _is(file, handle.fileno()):
                # Whom we waited for has removed it: others may hold a new one.
                continue
            try:
                yield
            finally:
                if remove:
                    file.unlink(missing_ok=True)
            return


def _is(file: Path, descriptor: int) -> bool:
    try:
        there, opened = file.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (opened.st_dev, opened.st_ino)
