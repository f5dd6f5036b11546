"""Reads a summary.csv of measured runs into cells: the repeats of one run name, by flow."""

import csv
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from polypath.study import MODELLED
from polypath.validate._ids import Setup, UnknownRunError, parse

NEEDED = ("platform", "id", "group", "flow", "cc", "goodput_mbps")


LONGEST_S = 3600
"""No measured run is longer."""


class TableError(ValueError):
    """The file is no summary.csv; the message is one sentence for the person who named it."""


@dataclass(frozen=True, kw_only=True)
class Subflow:
    """What Linux measured of one subflow: Mbit/s acknowledged, milliseconds, packets. None where
    the file has no figure.
    """

    source: str
    acked_mbps: float | None
    retransmissions: float | None
    srtt_ms: float | None
    cwnd: float | None
    max_cwnd: float | None
    min_rtt_ms: float | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One row: one flow of one repeat."""

    repeat: int
    mbps: float
    completion_s: float | None
    retransmissions: float | None
    subflows: tuple[Subflow, ...]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """All repeats of one flow of one run. `setups` holds a set-up a repeat, or nothing and `why`
    says what is not understood.
    """

    platform: str
    id: str
    group: str
    flow: str
    cc: str
    rows: tuple[Measured, ...]
    setups: tuple[Setup, ...]
    why: str | None

    @property
    def mbps(self) -> float:
        return fmean(row.mbps for row in self.rows)

    @property
    def spread(self) -> float:
        """The largest distance of a repeat from the mean."""
        return max(abs(row.mbps - self.mbps) for row in self.rows)


def kernel_of(file: Path) -> str | None:
    """The kernel whose runs a table has, by its name or its folder's ("linux-6.1.csv",
    "linux-6.1/summary.csv"); None: nothing is said.
    """
    named = next((match for name in (file.stem, file.resolve().parent.name) if (match := re.fullmatch(r"linux-(\d+\.\d+)", name))), None)
    return None if named is None else named[1]


def read(file: Path, *, platform: str | None = None, kernel: str | None = None) -> list[Cell]:
    """The cells of a file in its order. Of several platforms the one asked for, or `uml`, or the
    file's first.

    `kernel` is simulated; by default the one of the table's runs.
    """
    kernel = kernel or kernel_of(file)
    if kernel is not None and kernel not in MODELLED:
        raise TableError(f"the simulator has no kernel {kernel}: it has {', '.join(MODELLED)}.")
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            columns = reader.fieldnames or []
            missing = [name for name in NEEDED if name not in columns]
            if missing:
                raise TableError(
                    f"{file} is no summary.csv of measured runs: it lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}"
                    f"{'; commas part columns, not semicolons' * (';' in ''.join(columns))}."
                )
            rows = []
            for row in reader:
                if None in row or any(row[name] is None for name in NEEDED):
                    many = f"{'more' if None in row else 'fewer'} fields than the first line"
                    raise TableError(f"{file}:{reader.line_num}: it has {many}; decimals have a point.")
                rows.append(row)
    except OSError as error:
        raise TableError(f"{file} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error):
        raise TableError(f"{file} is no CSV file.") from None
    if not rows:
        raise TableError(f"{file} has no rows.")
    platforms = list(dict.fromkeys(row["platform"] for row in rows))
    chosen = platform or ("uml" if "uml" in platforms else platforms[0])
    if chosen not in platforms:
        raise TableError(f"{file} has no rows of platform {chosen}: it has {', '.join(platforms)}.")
    return _cells([row for row in rows if row["platform"] == chosen], file, kernel)


def _cells(rows: list[dict[str, str]], file: Path, kernel: str | None) -> list[Cell]:
    groups: dict[tuple[str, str], list[tuple[dict[str, str], Setup | None, str | None]]] = {}
    seen: set[tuple[str, str]] = set()
    for row in rows:
        setup, why = None, None
        try:
            setup = _window(parse(row["id"]), row, file)
            if kernel is not None and not setup.out_of_tree:
                setup = replace(setup, kernel=kernel)
            if row["cc"] and row["cc"] not in (setup.cc, *(sender.cc for sender in setup.flows)):
                raise TableError(f"{file}: cc of {row['id']} is {row['cc']!r}, and by its name it is {setup.cc!r}: mend one of them.")
        except UnknownRunError as error:
            why = str(error)
        again = (row["id"], row["flow"])
        if again in seen:
            raise TableError(f"{file}: the flow {row['flow']} of {row['id']} stands there twice; repeats end in _r1, _r2 and so on.")
        seen.add(again)
        groups.setdefault((setup.id if setup else row["id"], row["flow"]), []).append((row, setup, why))
    cells = []
    for (name, flow), members in groups.items():
        first, setup, why = members[0][0], members[0][1], next((m[2] for m in members if m[2]), None)
        names = _flow_names(setup) if setup else [flow]
        if setup and flow not in names:
            why = f"the set-up has the flows {', '.join(names)}, not {flow}"
        cells.append(
            Cell(
                platform=first["platform"],
                id=name,
                group=setup.group if setup else first["group"],
                flow=flow,
                cc=setup.cc if setup else first["cc"],
                rows=tuple(_measured(row, setup.repeat if setup else 1, file) for row, setup, _ in members),
                setups=() if why else tuple(setup for _, setup, _ in members if setup),
                why=why,
            )
        )
    return cells


def _window(setup: Setup, row: dict[str, str], file: Path) -> Setup:
    """The row's own length and window where it has them ("30", "5-30", seconds): a run of a known
    set-up may have been longer.
    """
    try:
        length = float(row.get("dur") or setup.duration_s)
        begin, end = map(float, row["win"].split("-")) if row.get("win") else setup.window_s
        if not (0 <= begin < end and 0 < length <= LONGEST_S):
            raise ValueError
    except ValueError:
        said = f"{row.get('dur')!r} and {row.get('win')!r}, not like '30' and '5-30' (seconds, at most {LONGEST_S})"
        raise TableError(f"{file}: dur and win of {row['id']} are {said}.") from None
    return replace(setup, duration_s=length, window_s=(begin, end))


def _flow_names(setup: Setup) -> list[str]:
    return ["c"] if setup.shape != "dumbbell" else [f"c{i}" for i in range(1, len(setup.flows) + 1)]


def _measured(row: dict[str, str], repeat: int, file: Path) -> Measured:
    def number(name: str) -> float | None:
        text = row.get(name) or ""
        if not text:
            return None
        try:
            value = float(text)
            if not 0 <= value < math.inf:
                raise ValueError
        except ValueError:
            raise TableError(f"{file}: {name} of {row['id']} is {text!r}, not a number from 0 on.") from None
        return value

    mbps = number("goodput_mbps")
    if mbps is None:
        raise TableError(f"{file}: {row['id']}, flow {row['flow']}, has no goodput_mbps.")
    subflows = tuple(
        Subflow(
            source=row[f"sf{i}_src"],
            acked_mbps=number(f"sf{i}_acked_mbps"),
            retransmissions=number(f"sf{i}_retrans"),
            srtt_ms=number(f"sf{i}_mean_srtt_ms"),
            cwnd=number(f"sf{i}_mean_cwnd"),
            max_cwnd=number(f"sf{i}_max_cwnd"),
            min_rtt_ms=number(f"sf{i}_min_rtt_ms"),
        )
        for i in (1, 2)
        if row.get(f"sf{i}_src")
    )
    return Measured(repeat=repeat, mbps=mbps, completion_s=number("completion_s"), retransmissions=number("retrans"), subflows=subflows)
