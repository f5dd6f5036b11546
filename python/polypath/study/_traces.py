"""Recorded links: mahimahi's traces of chances to send, and tables of rate, delay and loss over time."""

from __future__ import annotations

import csv
import itertools
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ._quantity import Rate, Share, Time

# Where the study file lies, while it is read; files of a study built in Python lie in the working folder.
FOLDER: ContextVar[Path | None] = ContextVar("FOLDER", default=None)


def place(name: str) -> Path:
    """Where a file that a study names is. Raises ValueError if it is not there."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(f'"{name}" leads out of the study\'s folder; put the file into it and name it from there')
    file = (FOLDER.get() or Path()) / name
    if not file.is_file():
        raise ValueError(f'there is no file "{name}" beside the study file')
    return file


def chances(name: str) -> tuple[int, ...]:
    """The times of a mahimahi trace, ms: a line a chance to send, after the last of which they begin anew."""
    found: list[int] = []
    for number, line in enumerate(place(name).read_text(encoding="ascii", errors="replace").split("\n"), 1):
        text = line.strip()
        if text and not text.isdigit():
            raise ValueError(f'{name}:{number}: "{text[:20]}" is no time; each line of a mahimahi trace is a whole number of milliseconds')
        if text:
            found.append(int(text))
        if len(found) > 1 and found[-1] < found[-2]:
            raise ValueError(f"{name}:{number}: the time {text} stands after a later one; the times of a trace ascend")
    if not found or found[-1] == 0:
        raise ValueError(f"{name}: a trace has at least one chance to send, and lasts longer than 0 ms")
    return tuple(found)


# A row of a table: from this time on; what a table has no column for is None.
Row = tuple[Time, Rate | None, Time | None, Share | None]
_COLUMNS: dict[str, type] = {"time": Time, "rate": Rate, "delay": Time, "loss": Share}


def table(name: str) -> tuple[Row, ...]:
    """The rows of a CSV file with the columns time and rate, delay or loss; each cell has its unit."""
    with place(name).open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, skipinitialspace=True))
        header = [*(lines[0] if lines else [])]
    unknown = [column for column in header if column not in _COLUMNS]
    if unknown or "time" not in header or len(header) < 2:
        raise ValueError(f"{name}:1: the columns are {', '.join(header) or 'none'}; there must be `time`, and of rate, delay and loss some")
    rows: list[Row] = []
    for number, line in enumerate(lines, 2):
        cells: dict[str, Any] = {}
        for column in header:
            try:
                cells[column] = _COLUMNS[column]((line[column] or "").strip())
            except ValueError as error:
                raise ValueError(f"{name}:{number}: {column}: {error}") from None
        rate = cells.get("rate")
        if rate is not None and int(rate) == 0:
            raise ValueError(f"{name}:{number}: a rate of zero lets nothing pass; write a loss of 100%")
        rows.append((cells["time"], rate, cells.get("delay"), cells.get("loss")))
    if int(rows[0][0]) != 0:
        raise ValueError(f"{name}:2: the first row is of the time {rows[0][0]}; a table begins at 0s")
    for number, (before, after) in enumerate(itertools.pairwise(rows), 3):
        if after[0] <= before[0]:
            raise ValueError(f"{name}:{number}: the time {after[0]} does not come after the one before it")
    return tuple(rows)
