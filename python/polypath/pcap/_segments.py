"""Captures segment by segment; crates/capture does the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polypath import _native

from ._analyse import PcapError


@dataclass(frozen=True)
class Listed:
    """A TCP segment: when it passed (ns), the file by its place among those read, who sent it and
    for whom (address and port), and what it says, without what each run draws by chance.
    """

    time_ns: int
    file: int
    source: tuple[str, int]
    destination: tuple[str, int]
    text: str


def segments(files: Sequence[Path]) -> list[Listed]:
    """The TCP segments in these files, in the order of their times.

    Raises PcapError if a file cannot be opened.
    """
    try:
        return [Listed(*one) for one in _native.list_segments([str(file) for file in files])]
    except _native.CallerError as error:
        raise PcapError(str(error)) from error
