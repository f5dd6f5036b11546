"""Tables of measurement campaigns: which column is what, in which unit."""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from polypath.errors import visible
from polypath.study import Rate, Share, Time

from ._errors import TraceError
from ._samples import MOST_SAMPLES, Measurement, Sample, measurement

KINDS = ("time", "rate", "delay", "rtt", "loss")
"""What a column may be; of a round trip half is the delay."""
# Words in the heads of columns, in small letters.
_WORDS = {
    "time": ("time", "timestamp", "ts", "t", "date", "datetime", "seconds", "time_s", "time_ms", "elapsed"),
    "rate": ("rate", "bitrate", "bandwidth", "throughput", "goodput", "capacity", "speedtest", "mbps", "kbps", "mbit", "kbit", "gbps"),
    "delay": ("delay", "owd"),
    "rtt": ("rtt", "ping", "latency", "pingavg"),
    "loss": ("loss", "lossrate", "pingloss", "plr"),
}
_RATES = {"bit": 1.0, "bps": 1.0, "bits": 1.0, "kbit": 1e3, "kbps": 1e3, "mbit": 1e6, "mbps": 1e6, "gbit": 1e9, "gbps": 1e9}
# With a large B they are bytes.
_BYTES = {"B": 8.0, "kB": 8e3, "KB": 8e3, "MB": 8e6, "GB": 8e9}
_DELAYS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
# "min" in the head of a delay is the least one.
_TIMES = _DELAYS | {"min": 60.0, "h": 3600.0}
_LOSSES = {"%": 0.01, "share": 1.0}
_UNITS: Mapping[str, Mapping[str, float]] = {
    "time": _TIMES,
    "rate": _RATES | _BYTES,
    "delay": _DELAYS,
    "rtt": _DELAYS,
    "loss": _LOSSES,
}
# Cells of what was not measured.
_NOTHING = {"", "-", "--", "nan", "na", "n/a", "none", "null", "?"}
_LONGEST = 200
# Beyond these a unit may be another one: bit/s; seconds.
_FASTEST, _SLOWEST = 1e12, 1e5
_SELDOM_S, _DAY_S = 600.0, 86400.0
# Times since 1970 that are larger are no longer in the unit before: no measurement was so late.
_SINCE_1970 = {"s": 1e11, "ms": 1e14, "us": 1e17, "ns": math.inf}


class _Column(NamedTuple):
    place: int
    name: str
    # In base units; None where each cell says its own.
    unit: float | None
    spoken: str


def measured(file: Path, text: str, columns: Mapping[str, tuple[str, str]]) -> Measurement:
    """What a table says over time. `columns`: what a column is -> its name and unit, "" where its head
    or cells say it. Raises `TraceError` with file and line.
    """
    first = next((line for line in text.splitlines() if line.strip()), "")
    separator = max(",;\t", key=first.count)
    if separator not in first:
        raise TraceError(
            f"{file}:1: this is no measurement that is read: the output of iperf3 or ping, a capture, or a table with time and rate"
        )
    try:
        rows = list(csv.reader(text.splitlines(), delimiter=separator, skipinitialspace=True))
    except csv.Error as error:
        raise TraceError(f"{file}: this is no table: {error}") from None
    lines = [(number, [cell.strip() for cell in row]) for number, row in enumerate(rows, 1) if any(cell.strip() for cell in row)]
    if len(lines) > MOST_SAMPLES:
        raise TraceError(f"{file}: more than {MOST_SAMPLES:,} rows are too many; measure less often, or cut the file")
    head = lines[0][1]
    words: list[str] = []
    if all(_is_number(cell) for cell in head):
        if columns or len(head) != 2:
            raise TraceError(f"{file}:1: the first line should name the columns; without names two are read, the time in s and Mbit/s")
        by_role = {"time": _Column(0, "1", 1.0, "s"), "rate": _Column(1, "2", 1e6, "Mbit/s")}
        body = lines
    else:
        by_role = _found(file, head, columns, [row for _, row in lines[1:]], words)
        body = lines[1:]
    said = [f"{kind} = column {column.name} ({column.spoken})" for kind, column in by_role.items()]
    if not body:
        raise TraceError(f"{file}: the table has no row")
    for number, row in body:
        if any(row[len(head) :]):
            raise TraceError(f"{file}:{number}: {len(row)} cells stand here, and {len(head)} in the first line: write numbers like 1234.5")
    whole = measurement(str(file), _samples(file, body, by_role), [*said, *words])
    return replace(whole, said=(*whole.said, *_doubts(whole, by_role)))


def _doubts(whole: Measurement, columns: Mapping[str, _Column]) -> Iterator[str]:
    """Figures that suggest another unit."""
    if rates := whole.values("rate"):
        name = columns["rate"].name
        if max(rates) > _FASTEST:
            most = f"no link carries {max(rates) / 1e12:.3g} Tbit/s"
            yield f"{most}; if the figures of {name} are bit/s, write {_example('rate', name, 'bit')}"
        elif max(rates) < _SLOWEST:
            yield f"all rates are below 100 kbit/s; if the figures of {name} are Mbit/s, write {_example('rate', name)}"
    step = whole.length / len(whole.samples)
    time = columns["time"]
    if time.unit == 1.0 and len(whole.samples) > 1 and (step >= _SELDOM_S or whole.length > _DAY_S):
        lasts = f"it lasts {whole.length / 3600:.3g} hours, with a sample each {step:.4g} s"
        yield f"{lasts}; if the times of {time.name} are ms, write {_example('time', time.name)}"


def _found(
    file: Path, head: Sequence[str], columns: Mapping[str, tuple[str, str]], body: Sequence[Sequence[str]], words: list[str]
) -> dict[str, _Column]:
    listed = ", ".join(visible(name[:40]) for name in head)
    by_role: dict[str, _Column] = {}
    for kind, (name, unit) in columns.items():
        if head.count(name) > 1:
            raise TraceError(f'{file}:1: {head.count(name)} columns are called "{name}": give the one that is meant a name of its own')
        if name not in head:
            raise TraceError(f'{file}:1: there is no column "{name}"; there are {listed}')
        if unit and unit not in _UNITS[kind]:
            raise TraceError(f'--column {kind}={name}:{unit}: a {kind} has no unit "{unit}"; there are {", ".join(_UNITS[kind])}')
        by_role[kind] = _column(head.index(name), name, kind, unit, body)
        if by_role[kind].unit is None and by_role[kind].spoken == "":
            raise TraceError(f"{file}:1: nothing says the unit of {name}: write {_example(kind, name)}")
    for kind in KINDS:
        if kind in by_role or (kind in ("delay", "rtt") and {"delay", "rtt"} & set(by_role)):
            continue
        near = [
            index for index, name in enumerate(head) if _is_called(name, kind) and index not in {each.place for each in by_role.values()}
        ]
        candidates = [_column(index, head[index], kind, "", body) for index in near]
        clear = [each for each in candidates if each.unit is not None or each.spoken]
        if kind == "time" and near:
            by_role[kind] = candidates[0]
        elif len(near) == 1 and clear:
            by_role[kind] = clear[0]
        elif near and kind == "rate":
            choices = " or ".join(_example(kind, head[index]) for index in near[:4])
            why = "several columns may be the rate" if len(near) > 1 else f"nothing says the unit of {head[near[0]]}"
            raise TraceError(f"{file}:1: {why}: write {choices}")
        elif near:
            words.append(f"{head[near[0]]} may be a {kind}, and is left out: {_example(kind, head[near[0]])} takes it")
    if "time" not in by_role:
        raise TraceError(f"{file}:1: no column is called as a time; say which is: --column time=NAME; there are {listed}")
    if len(by_role) == 1:
        raise TraceError(
            f"{file}:1: no column is called as a rate, delay or loss: --column rate=NAME:mbit says which is; there are {listed}"
        )
    return dict(sorted(by_role.items(), key=lambda item: KINDS.index(item[0])))


def _example(kind: str, name: str, unit: str = "") -> str:
    return "--column " + shlex.quote(f"{kind}={name}:" + (unit or {"rate": "mbit", "loss": "%"}.get(kind, "ms")))


def _is_called(name: str, kind: str) -> bool:
    parts = set(re.split(r"[^a-zµ]+", name.lower())) | {name.lower()}
    is_bytes = kind == "rate" and any(part.removesuffix("ps") in _BYTES for part in re.split(r"[^A-Za-z]+", name) if part != "B")
    is_bits = kind == "rate" and re.search(r"(?<![a-z])(bits?/s|bps)(?![a-z])", name.lower()) is not None
    return bool(parts & set(_WORDS[kind])) or is_bytes or is_bits


def _column(index: int, name: str, kind: str, unit: str, body: Sequence[Sequence[str]]) -> _Column:
    """A column with its unit: as said, as its head says, or as its cells do."""
    if unit:
        return _Column(index, name, _UNITS[kind][unit], unit)
    units: dict[float, str] = {}
    for part in re.split(r"[^A-Za-zµ%]+", name):
        size = (_BYTES if kind == "rate" else {}).get(part.removesuffix("ps"), _UNITS[kind].get(part.lower()))
        if size is not None:
            units[size] = part
    # A head with several units, such as bit_rate_mbps, says none.
    if len(units) == 1:
        return _Column(index, name, *units.popitem())
    cells = [row[index] for row in body if index < len(row) and row[index].lower() not in _NOTHING]
    if kind == "time":
        if cells and not _is_number(cells[0]):
            return _Column(index, name, None, "as its cells say")
        own = next(unit for unit, most in _SINCE_1970.items() if not cells or float(cells[0]) <= most)
        return _Column(index, name, _TIMES[own], own if own == "s" else f"{own} since 1970")
    if cells and not _is_number(cells[0]):
        return _Column(index, name, None, "as its cells say")
    if kind == "rtt" and "ping" in name.lower():
        return _Column(index, name, 1e-3, "ms, as ping has it")
    return _Column(index, name, None, "")


def _samples(file: Path, body: Sequence[tuple[int, Sequence[str]]], columns: Mapping[str, _Column]) -> Iterator[Sample]:
    days, before = 0.0, -math.inf
    for number, row in body:
        values: dict[str, float | None] = {}
        for kind, column in columns.items():
            cell = row[column.place] if column.place < len(row) else ""
            try:
                values[kind] = None if cell.lower() in _NOTHING else _value(kind, cell[:_LONGEST], column.unit)
            except ValueError as error:
                raise TraceError(f"{file}:{number}: {column.name}: {error}") from None
        if values["time"] is None:
            raise TraceError(f"{file}:{number}: {columns['time'].name}: the row has no time")
        # A time of day that goes back by half a day or more has passed midnight.
        if re.fullmatch(r"\d+:\d\d:\d\d(\.\d+)?", row[columns["time"].place]) and values["time"] + days <= before - _DAY_S / 2:
            days += _DAY_S
        before = values["time"] = values["time"] + days
        rtt = values.get("rtt")
        delay = values.get("delay") if rtt is None else rtt / 2
        loss = values.get("loss")
        if loss is not None and loss > 1:
            raise TraceError(f"{file}:{number}: {columns['loss'].name}: a loss of {100 * loss:g} % is more than all packets")
        yield Sample(at=values["time"], rate=values.get("rate"), delay=delay, loss=loss)


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", cell) is not None


def _value(kind: str, cell: str, unit: float | None) -> float:
    if _is_number(cell):
        if unit is None:
            raise ValueError(f'"{cell}" has no unit, as others in this column have')
        value = float(cell) * unit
        if kind != "time" and not 0 <= value < 1e15:
            raise ValueError(f'"{cell}" is no {kind} that can be')
        return value
    if kind == "time":
        return _moment(cell)
    written: Callable[[str], float] = {"rate": Rate, "loss": Share}.get(kind, Time)
    number = float(written(visible(cell)))
    return number / 1e9 if kind in ("delay", "rtt") else number


# As campaigns write moments beside ISO 8601.
_MOMENTS = ("%Y.%m.%d_%H.%M.%S", "%Y-%m-%d_%H-%M-%S", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%H:%M:%S", "%H:%M:%S.%f")


def _moment(cell: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?\s*(ns|us|µs|ms|s|min|h)", cell):
        return float(Time(cell)) / 1e9
    try:
        return datetime.fromisoformat(cell).timestamp()
    except ValueError:
        pass
    for form in _MOMENTS:
        try:
            return datetime.strptime(cell, form).replace(year=max(datetime.strptime(cell, form).year, 1971)).timestamp()
        except ValueError:
            continue
    raise ValueError(f'"{visible(cell[:40])}" is no time: write seconds, or a date and time such as 2020-01-31T10:00:00')
