"""Looks for what the list names, and runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from polypath.errors import PolypathError

from ._list import THINGS, Thing

# Not on the PATH of ordinary users.
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_PROGRAMS = {thing.name: thing for thing in THINGS if thing.kind == "program"}
_RUST = "Rust 1.85 or later from https://rustup.rs"


class ProgramError(PolypathError, RuntimeError):
    """A program is not there; the text is one sentence that says what to install."""


def find(name: str) -> str | None:
    """Where a program of the list is; None if it is not there."""
    _of_the_list(name)
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_SBIN)))


def need(name: str) -> str:
    """Where a program of the list is; raises `ProgramError` if it is not there."""
    path = find(name)
    if path is None:
        raise ProgramError(lacks(name))
    return path


def lacks(name: str) -> str:
    """The sentence to say of a program that is not there."""
    package = _of_the_list(name).package
    return f"{name} is missing: install {_RUST if package == '-' else f'the Debian package {package}'}"


def not_built(program: str) -> str:
    """The sentence to say of a program of Polypath's own that is not there."""
    source = Path(__file__).parents[3]
    if (source / "Makefile").is_file():
        return f"the program {program} was not built: run `make setup-all` in {source}"
    return f"the program {program} is not in this installation: install a wheel that `make wheel` made, which has it"


def run(
    program: str | Path,
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
    show_errors: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, one of the list or by its path; what it said, in English, and its
    exit status. `text` is what it reads.

    With `show_errors` what it writes to stderr goes where ours does, as it comes.
    """
    return subprocess.run(
        [program if isinstance(program, Path) else need(program), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C", **(env or {})},
        input=text or "",
        stdout=subprocess.PIPE,
        stderr=None if show_errors else subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )


def missing(*uses: str) -> list[Thing]:
    """What is not there of the things with any of these uses."""
    return [thing for thing in THINGS if thing.uses & {*uses} and not _is_there(thing)]


def packages(things: list[Thing]) -> list[str]:
    """The Debian packages that have them."""
    return list(dict.fromkeys(thing.package for thing in things if thing.package != "-"))


def _of_the_list(name: str) -> Thing:
    if name not in _PROGRAMS:
        raise ValueError(f"{name} is used, and python/polypath/programs/list.tsv does not name it: add its line")
    return _PROGRAMS[name]


def _is_there(thing: Thing) -> bool:
    match thing.kind:
        case "program":
            return find(thing.name) is not None
        case "header":
            # Debian keeps what differs between processors in a folder of each.
            places = (Path("/usr/include"), *Path("/usr/include").glob("*-linux-gnu"))
            return any((folder / thing.name).exists() for folder in places)
        case "library":
            # The compiler answers with the bare name if it does not find the file.
            return find("cc") is not None and Path(run("cc", f"-print-file-name={thing.name}").stdout.strip()).is_absolute()
        case "module":
            return find_spec(thing.name) is not None
        case "file":
            return Path(thing.name).exists()
