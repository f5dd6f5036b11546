"""Recorded links: mahimahi's traces of chances to send, and tables of rate, delay and loss over
time.
"""

from __future__ import annotations

import csv
import itertools
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from polypath.errors import visible

from ._quantity import Rate, Share, Time

# Some minutes of the fastest links.
MOST_BYTES = 32_000_000
# Of a time in milliseconds: 30 years.
_MOST_DIGITS = 12
_LONGEST_CELL = 100

# Where the study file lies, while it is read; files of a study built in Python lie in the working
# folder.
FOLDER: ContextVar[Path | None] = ContextVar("FOLDER", default=None)
# The files beside study files that this process has looked at.
_read: set[Path] = set()


def files_read() -> list[Path]:
    """The files beside study files, such as recorded links, of all studies that this process has
    read.
    """
    return sorted(_read)


def checked_file(name: str) -> str:
    """The name of a file, if it stays within the folder of who names it."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f'"{name}" leads out of the study\'s folder; put the file into it and name it from there')
    return name


def inside(folder: Path, name: str) -> Path:
    """Where a file that a study in this folder names is. Raises ValueError if it is not there, or
    elsewhere.
    """
    file = folder / checked_file(name)
    if not file.is_file():
        raise ValueError(f'there is no file "{name}" beside the study file')
    if not file.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f'"{name}" is a link that leads out of the study\'s folder; put the file itself into it')
    _read.add(file.resolve())
    return file


def _text(name: str, encoding: str) -> str:
    file = inside(FOLDER.get() or Path(), name)
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"{name} has {file.stat().st_size:,} bytes; a recorded link has at most {MOST_BYTES:,}")
    return file.read_text(encoding=encoding, errors="replace")


def chances(name: str) -> tuple[int, ...]:
    """The times of a mahimahi trace, ms: a line a chance to send, after the last of which they
    begin anew.
    """
    times: list[int] = []
    for number, line in enumerate(_text(name, "ascii").split("\n"), 1):
        text = line.strip()
        if text and not (text.isdigit() and len(text) <= _MOST_DIGITS):
            shown = visible(text[:20])
            raise ValueError(f'{name}:{number}: "{shown}" is no time; each line of a mahimahi trace is a whole number of milliseconds')
        if text:
            times.append(int(text))
        if len(times) > 1 and times[-1] < times[-2]:
            raise ValueError(f"{name}:{number}: the time {text} stands after a later one; the times of a trace ascend")
    if not times or times[-1] == 0:
        raise ValueError(f"{name}: a trace has at least one chance to send, and lasts longer than 0 ms")
    return tuple(times)


# A row of a table: from this time on; what a table has no column for is None.
Row = tuple[Time, Rate | None, Time | None, Share | None]
_COLUMNS: dict[str, type] = {"time": Time, "rate": Rate, "delay": Time, "loss": Share}


def table(name: str) -> tuple[Row, ...]:
    """The rows of a CSV file with the columns time and rate, delay or loss; each cell has its unit."""
    try:
        lines = list(csv.reader(_text(name, "utf-8-sig").splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"{name} is no table: {error}") from None
    header = [column.strip() for column in lines[0]] if lines else []
    unknown = [column for column in header if column not in _COLUMNS]
    if unknown or "time" not in header or len(header) < 2 or len(set(header)) < len(header):
        shown = visible(", ".join(header)[:100]) or "none"
        must = "there must be `time`, and of rate, delay and loss some"
        raise ValueError(f"{name}:1: the columns are {shown}; {must}; polypath trace {name} --out NAME.csv makes that")
    rows: list[Row] = []
    for number, line in enumerate(lines[1:], 2):
        if not any(line):
            continue
        if len(line) != len(header):
            raise ValueError(f"{name}:{number}: the row has {len(line)} cells, and the table {len(header)} columns")
        cells: dict[str, Any] = {}
        for column, cell in zip(header, line, strict=True):
            try:
                cells[column] = _COLUMNS[column](visible(cell.strip()[:_LONGEST_CELL]))
            except ValueError as error:
                raise ValueError(f"{name}:{number}: {column}: {error}") from None
        rate = cells.get("rate")
        if rate is not None and int(rate) == 0:
            raise ValueError(f"{name}:{number}: a rate of zero lets nothing pass; write a loss of 100%")
        rows.append((cells["time"], rate, cells.get("delay"), cells.get("loss")))
    if not rows:
        raise ValueError(f"{name}:1: the table has no row; one of the time 0s is the least")
    if int(rows[0][0]) != 0:
        raise ValueError(f"{name}:2: the first row is of the time {rows[0][0]}; a table begins at 0s")
    for number, (before, after) in enumerate(itertools.pairwise(rows), 3):
        if after[0] <= before[0]:
            raise ValueError(f"{name}:{number}: the time {after[0]} does not come after the one before it")
    return tuple(rows)
