"""A study that is run again with nothing to do: what was printed of it is printed again, and nothing
is planned, loaded or drawn.

A small file in the folder of results holds what was printed and the hashes of all that it depends
on: the words of the command, the study's files, this package, and every file of the results. Where
one of them is otherwise, the study is run as ever.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polypath.study import files_read, find_file

from . import _console, _studies

if TYPE_CHECKING:
    from polypath.results import Plan

# Hidden: it names a folder of this machine, and two results folders compare.
_FILE = ".unchanged.json"
_PACKAGE = Path(__file__).parents[1]
# Written after the tables were read, by the command itself.
_OURS = ("report.html", "figures")
# A study is looked for by its name before it is read; one that is named otherwise is run as ever.
_NAME = re.compile(rb"^name: *([\w.-]+) *$", flags=re.M)


@dataclass
class Printed:
    """Prints on standard output, and keeps what it printed."""

    text: str = ""

    def print(self, *what: Any, **how: Any) -> None:
        with _console.out.capture() as captured:
            _console.out.print(*what, **how)
        self.text += captured.get()
        _console.out.file.write(captured.get())
        _console.out.file.flush()


@dataclass(frozen=True, kw_only=True)
class Command:
    """The words of a command, and what else decides how its text looks."""

    studies: Sequence[str]
    short: bool
    out_folder: Path | None
    options: Mapping[str, Any]
    _begun_ns: int = field(default_factory=time.time_ns)

    def unchanged(self) -> list[dict[str, Any]] | None:
        """What is to be printed of each study; None where any of them has to be run."""
        records = []
        for argument in self.studies:
            record = self._record(argument)
            if record is None or record["command"] != self._words() or record["build"] != _build() or not _stands(record):
                return None
            records.append(record)
        return records

    def keep(self, work: Plan, head: str, printed: str, read_ns: int) -> None:
        """Keeps what was printed of a study, if the same command would print it again.

        `head` is said before; `read_ns` is when the tables had been written and were read.
        """
        sure = not work.notes and not work.store.cautions() and not work.large and not work.again
        if not sure or work.engine.name != "sim" or work.study.file is None:
            return
        folder, beside = work.folder.resolve(), work.study.file.resolve().parent
        # Other studies have theirs elsewhere, and the copies among the results count with these.
        sources = [file for file in files_read() if file.is_relative_to(beside) and not file.is_relative_to(folder)]
        sources.append(work.study.file)
        record = {
            "command": self._words(),
            "build": _build(),
            "sources": {str(file.resolve()): _digest(file) for file in sources},
            "folder": str(folder),
            "results": _digest_of_folder(work.folder),
            "computed": _ledgers(),
            "head": [*(f"{work.study.name}: {line}" for line in work.left_out), head],
            "name": work.study.name,
            "printed": printed,
        }
        # What was written while the command read it may be what it did not read.
        late = any(_changed_ns(file) >= self._begun_ns for file in sources)
        ours = {work.folder / name for name in (*_OURS, _FILE)}
        late |= any(_changed_ns(file) > read_ns for file in _files(work.folder) if not ours & {file, *file.parents})
        if late:
            return
        from polypath.results import replace_file

        replace_file(work.folder / _FILE, json.dumps(record).encode())

    def _record(self, argument: str) -> dict[str, Any] | None:
        try:
            file = find_file(_studies.path(argument))
            name = _NAME.search(file.read_bytes())
            if name is None:
                return None
            called = name[1].decode() + ("-short" if self.short else "")
            out = _studies.out_beside(file.parent, called) if self.out_folder is None else self.out_folder
            record: dict[str, Any] = json.loads((out / called / _FILE).read_bytes())
            same = record["folder"] == str((out / called).resolve()) and str(file.resolve()) in record["sources"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return record if same else None

    def _words(self) -> dict[str, Any]:
        consoles = [
            [console.is_terminal, console.width, console.color_system, console.encoding, console.no_color, console.quiet]
            for console in (_console.out, _console.err)
        ]
        words = {"studies": [*self.studies], "short": self.short, "out": None if self.out_folder is None else str(self.out_folder)}
        return {**words, **self.options, "in": str(Path.cwd()), "consoles": consoles}


def tell(record: Mapping[str, Any]) -> None:
    """Prints what was printed."""
    for line in record["head"]:
        _console.err.print(line, soft_wrap=True)
    if not _console.out.quiet:
        _console.out.file.write(record["printed"])
        _console.out.file.flush()
    _console.err.print(f"{record['name']}: nothing has changed since then", soft_wrap=True)


def _stands(record: Mapping[str, Any]) -> bool:
    """Whether everything that it was made from is as it was."""
    try:
        return (
            {*record["computed"]} <= {*_ledgers_here()}
            and all(_digest(Path(file)) == digest for file, digest in record["sources"].items())
            and all(_begins_with(Path(file), *known) for file, known in record["computed"].items())
            and _digest_of_folder(Path(record["folder"])) == record["results"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


@functools.cache
def _build() -> str:
    """The package, and what it is installed with."""
    # What this user may not look into holds nothing for them; Path.is_dir would raise.
    places = [Path(place) for place in sys.path if os.path.isdir(place)]  # noqa: PTH112
    installed = sorted(each.name for place in places for each in place.glob("*.dist-info"))
    return f"{_digest_of_folder(_PACKAGE)} {hashlib.sha256(json.dumps([sys.version, installed]).encode()).hexdigest()}"


def _ledgers_here() -> list[str]:
    from polypath.results import ledgers

    return [str(file) for file in ledgers()]


def _ledgers() -> dict[str, tuple[int, str]]:
    """The ledgers of what was computed here, which only grow: how long each is, and its hash."""
    known = {}
    for file in _ledgers_here():
        content = Path(file).read_bytes()
        known[file] = (len(content), hashlib.sha256(content).hexdigest())
    return known


def _begins_with(file: Path, size: int, digest: str) -> bool:
    with file.open("rb") as stream:
        return hashlib.sha256(stream.read(size)).hexdigest() == digest


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest_of_folder(root: Path) -> str:
    """Of the names and the content of all files of a folder."""
    seen = hashlib.sha256()
    for file in _files(root):
        seen.update(f"{os.fsencode(file.relative_to(root)).hex()} {_digest(file)}\n".encode())
    return seen.hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(folder, name) for name in sorted(names) if name != _FILE)


def _changed_ns(file: Path) -> int:
    return file.stat().st_ctime_ns
