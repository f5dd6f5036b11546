"""The list, read."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple, cast

Kind = Literal["program", "header", "library", "module", "file"]
FILE = Path(__file__).with_name("list.tsv")
# Installs packages.
DEBIAN = Path(__file__).with_name("debian.sh")


class Thing(NamedTuple):
    """A line of the list, whose head says what each column means."""

    kind: Kind
    name: str
    package: str
    uses: frozenset[str]
    what_for: str


def _read() -> tuple[Thing, ...]:
    lines = [line.split("\t") for line in FILE.read_text(encoding="ascii").splitlines() if not line.startswith("#")]
    return tuple(Thing(cast(Kind, kind), name, package, frozenset(use.split(",")), purpose) for kind, name, package, use, purpose in lines)


THINGS = _read()
