"""The same cells on several engines or kernels: row by row how far apart, within 10 % or not, and
over the same starts.

A *platform* is an engine with its kernel, such as "sim" or "linux 6.12". One of them is the
reference; every other is judged against it. docs/guide/compare.md defines each figure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from polypath.study import FEWEST_STARTS

from ._distribution import Distance, distance
from ._limits import limits_of_cells
from ._statistics import half_width

PLATFORM = "platform"
WITHIN = "within_10_percent"
"""Whether a mean lies within `TOLERANCE` of the reference's; None where one of them did not run."""
GOODPUT, COMPLETION = "goodput_receiver_mbps", "completion_s"
TOLERANCE = 0.10
"""Share of the reference's mean within which two means agree."""
GRID_S = 0.1
"""Distance of the points at which congestion windows are compared."""
HELD_S = 1.0
"""A sample speaks for the time after it, at most this long (or two of the series' own intervals): a
subflow that is gone has no window.
"""
ROUNDING = 1e-9
"""What decimal fractions may lose."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """`rows` has a row a cell, flow and platform; `windows` a row a cell, flow, subflow and judged
    platform.
    """

    platforms: Sequence[str]
    reference: str
    by: Sequence[str]
    """Columns that tell the cells apart, the flow last."""
    rows: pd.DataFrame
    windows: pd.DataFrame

    @property
    def judged(self) -> list[str]:
        """Every platform but the reference."""
        return [platform for platform in self.platforms if platform != self.reference]

    def count(self, platform: str) -> tuple[int, int]:
        """How many rows of a platform agree with the reference, and how many there are on both."""
        within = self.rows.loc[(self.rows[PLATFORM] == platform) & self.rows[WITHIN].notna(), WITHIN]
        return int(within.astype(bool).sum()), len(within)

    def distances(self, platform: str) -> list[Distance]:
        """Of a platform's rows that have enough repetitions to be judged as distributions."""
        return [distance for distance in self.rows.loc[self.rows[PLATFORM] == platform, "distance"] if distance is not None]


def platform_names(table: pd.DataFrame) -> pd.Series[str]:
    """What ran each row: its engine, with the kernel where the engine has one."""
    engines = table["engine"].astype(str)
    if "kernel" not in table:
        return engines
    # A study may vary the kernel as a parameter, which then has a value on the simulator too. Only
    # beside other engines is that a part of its name: there the parameter itself is not told.
    modelled = engines == "sim"
    is_one = modelled.all() or table.loc[modelled, "kernel"].nunique() < 2
    named = table["kernel"].notna() & (~modelled if is_one else True)
    return engines.where(~named, engines + " " + table["kernel"].astype(str))


def platforms_in_order(names: Iterable[str]) -> list[str]:
    """The simulator first, real kernels last, older ones before newer ones: the last is the
    reference.
    """
    return sorted(dict.fromkeys(names), key=lambda name: (not name.startswith("sim"), name.startswith("linux"), _version(name), name))


def compare(
    runs: pd.DataFrame,
    subflows: pd.DataFrame,
    series: pd.DataFrame,
    spans: Mapping[tuple[str, str], tuple[float, float]],
    *,
    by: Sequence[str],
    repetitions: Sequence[str] = ("seed",),
    reference: str | None = None,
) -> Comparison:
    """Judges every platform of `runs` against the `reference`, by default the last one.

    `runs` is the runs table with what `limits` found; `by` names the columns that tell cells apart,
    `flow` last; `repetitions` those that tell the repetitions of a cell apart. `spans` has the
    window of each run's flow, (key, flow) -> seconds since the connection stood.
    """
    runs = runs.assign(**{PLATFORM: platform_names(runs)})
    # A run that several cells of a varied kernel share stands once for each platform.
    runs = runs.drop_duplicates([PLATFORM, "key", *by, *repetitions])
    platforms = platforms_in_order(runs[PLATFORM])
    reference = reference or platforms[-1]
    ends = _ends(subflows)
    rows: list[dict[str, Any]] = []
    windows: list[dict[str, Any]] = []
    lines = _Lines(series, ends, spans, runs)
    for values, cell in runs.groupby(list(by), sort=False, dropna=False):
        who = dict(zip(by, values if isinstance(values, tuple) else (values,), strict=True))
        shared = _shared(cell, platforms, repetitions)
        limited = limits_of_cells(shared, [PLATFORM]).set_index(PLATFORM) if len(shared) else pd.DataFrame()
        metric = COMPLETION if bool(cell[COMPLETION].notna().any()) else GOODPUT
        measured = {platform: _measured(shared[shared[PLATFORM] == platform], metric) for platform in platforms}
        for platform in platforms:
            row = {**who, PLATFORM: platform, "metric": metric, **measured[platform]}
            row |= {name: limited.at[platform, name] if platform in limited.index else "" for name in ("limited_by", "why")}
            judged = platform != reference
            row |= _judged(measured[platform], measured[reference]) if judged else _judged({}, {})
            pairs = _pairs(shared, platform, reference, repetitions) if judged else []
            row["distance"] = _distance(shared, pairs, metric)
            areas = [{**who, PLATFORM: platform, **area} for area in lines.areas(str(who["flow"]), pairs)]
            windows += areas
            row["window_area"] = _ratio(sum(a["between"] for a in areas), sum(a["mean"] for a in areas))
            rows.append(row)
    shape = [*by, PLATFORM, *_COLUMNS]
    return Comparison(
        platforms=platforms,
        reference=reference,
        by=tuple(by),
        rows=pd.DataFrame(rows, columns=shape),
        windows=pd.DataFrame(windows, columns=[*by, PLATFORM, "source", "destination", "between", "mean", "area"]),
    )


_COLUMNS = (
    "metric",
    "runs",
    "n",
    "untrusted",
    "value",
    "value_ci",
    "srtt_ms",
    "retransmissions",
    "limited_by",
    "why",
    "deviation",
    WITHIN,
    "srtt_deviation",
    "window_area",
    "distance",
)


def area_between(left: tuple[Array, Array], right: tuple[Array, Array], start: float, end: float) -> tuple[float, float]:
    """The integrals of |left - right| and of their mean from `start` to `end`, on a grid of 100 ms.

    A curve is its times, ascending, and its values; each value holds until the next one.
    """
    steps = max(0, math.ceil((end - start) / GRID_S - ROUNDING))
    grid: Array = start + GRID_S * np.arange(steps, dtype=np.float64)
    a, b = _held(*left, grid), _held(*right, grid)
    return float(np.abs(a - b).sum()) * GRID_S, float((a + b).sum()) / 2 * GRID_S


def _held(times: Array, values: Array, grid: Array) -> Array:
    """The curve on the grid: 0 before its first sample and after its last."""
    if len(times) == 0:
        return np.zeros(len(grid))
    # A sample counts for the point of the grid that it falls on, whatever a division has done to
    # its last digit.
    last = np.searchsorted(times, grid + ROUNDING, side="right") - 1
    interval = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    fresh = (last >= 0) & (grid - times[np.maximum(last, 0)] <= max(HELD_S, 2 * interval))
    return np.where(fresh, values[np.maximum(last, 0)], 0.0)


class _Lines:
    """The congestion windows of each run and flow, by the addresses of the subflows."""

    def __init__(
        self, series: pd.DataFrame, ends: pd.DataFrame, spans: Mapping[tuple[str, str], tuple[float, float]], runs: pd.DataFrame
    ) -> None:
        self._spans = spans
        stood = runs[["key", "flow", "established_s"]].drop_duplicates(["key", "flow"])
        self._stood = {(str(key), str(flow)): float(at) for key, flow, at in stood.itertuples(index=False)}
        self._curves: dict[tuple[str, str], dict[tuple[Any, ...], tuple[Array, Array]]] = {}
        if series.empty:
            return
        told = series[series["cwnd"].notna()]
        named = told[["key", "flow", "subflow", "time_s", "cwnd"]].merge(ends, on=["key", "flow", "subflow"], how="inner")
        for (key, flow, *name), samples in named.groupby(["key", "flow", "source", "destination", "order"], sort=False):
            curve = (samples["time_s"].to_numpy(dtype=np.float64), samples["cwnd"].to_numpy(dtype=np.float64))
            self._curves.setdefault((str(key), str(flow)), {})[tuple(name)] = curve

    def areas(self, flow: str, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """A row a subflow: the area between its windows and under their mean, over all pairs of
        runs (platform's, reference's).
        """
        nothing = (np.zeros(0), np.zeros(0))
        sums: dict[Any, list[float]] = {}
        for pair in pairs:
            edges = [self._span(key, flow) for key in pair]
            start, end = max(edge[0] for edge in edges), min(edge[1] for edge in edges)
            ours, theirs = (self._curves.get((key, flow), {}) for key in pair)
            if not ours or not theirs or not end > start:
                continue
            if ours.keys().isdisjoint(theirs):
                # Addresses of a measurement are none of the study's: its subflows are those of the
                # same number, or which one is unknown.
                if len(ours) != len(theirs):
                    continue
                ours = dict(zip(theirs, ours.values(), strict=True))
            for name in [*theirs, *(name for name in ours if name not in theirs)]:
                between, mean = area_between(ours.get(name, nothing), theirs.get(name, nothing), start, end)
                areas_of = sums.setdefault(name, [0.0, 0.0])
                areas_of[0] += between
                areas_of[1] += mean
        return [
            {"source": name[0], "destination": name[1], "between": areas_of[0], "mean": areas_of[1], "area": _ratio(*areas_of)}
            for name, areas_of in sums.items()
        ]

    def _span(self, key: str, flow: str) -> tuple[float, float]:
        start, end = self._spans.get((key, flow), (math.nan, math.nan))
        stood = self._stood.get((key, flow), math.nan)
        return stood + start, stood + end


def _ends(subflows: pd.DataFrame) -> pd.DataFrame:
    """key, flow, subflow -> its addresses and, where several subflows have the same, their order."""
    table = subflows[["key", "flow", "subflow"]].assign(source=subflows["source"].map(_address))
    table["destination"] = subflows["destination"].map(_address)
    table["order"] = table.groupby(["key", "flow", "source", "destination"], sort=False).cumcount()
    return table


def _address(end: Any) -> str:
    """Without the port: that of a client differs between engines."""
    return re.sub(r":\d+$", "", str(end))


def _shared(cell: pd.DataFrame, platforms: Sequence[str], repetitions: Sequence[str]) -> pd.DataFrame:
    """The runs of the repetitions that every platform has which ran this cell at all."""
    names = _repetition(cell, repetitions)
    there = [set(names[cell[PLATFORM] == platform]) for platform in platforms]
    common = set.intersection(*(there_names for there_names in there if there_names))
    return cell[names.isin(common)]


def _repetition(cell: pd.DataFrame, repetitions: Sequence[str]) -> pd.Series[Any]:
    columns = [cell[name].astype(str) for name in repetitions]
    return pd.Series([tuple(values) for values in zip(*columns, strict=True)], index=cell.index, dtype=object)


def _pairs(shared: pd.DataFrame, platform: str, reference: str, repetitions: Sequence[str]) -> list[tuple[str, str]]:
    """Keys of the runs of the same repetition on both."""
    names = _repetition(shared, repetitions)
    rows = [shared[PLATFORM] == name for name in (platform, reference)]
    keys = [dict(zip(names[chosen], shared.loc[chosen, "key"], strict=True)) for chosen in rows]
    return [(keys[0][name], keys[1][name]) for name in keys[1] if name in keys[0]]


def _measured(cell: pd.DataFrame, metric: str) -> dict[str, Any]:
    """Mean over the repetitions, with half the width of its 95 % interval."""
    values = [float(value) for value in cell[metric].dropna()]
    mean = sum(values) / len(values) if values else math.nan
    return {
        "runs": len(cell),
        "n": len(values),
        # Runs in real time that were late.
        "untrusted": int(cell["trusted"].eq(False).sum()),
        "value": mean,
        "value_ci": half_width(values),
        "srtt_ms": float(cell["srtt_ms"].mean()) if len(cell) else math.nan,
        "retransmissions": float(cell["retransmissions"].mean()) if len(cell) else math.nan,
    }


def _judged(platform: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, Any]:
    """How far a mean lies from the reference's."""
    if not platform or not platform["runs"] or not reference["runs"]:
        return {"deviation": math.nan, WITHIN: None, "srtt_deviation": math.nan}
    if not platform["n"] or not reference["n"]:
        # A transfer that one of them never finished.
        return {"deviation": math.nan, WITHIN: False, "srtt_deviation": math.nan}
    apart, mean = platform["value"] - reference["value"], reference["value"]
    return {
        "deviation": _ratio(apart, mean) if mean else (0.0 if apart == 0 else math.inf),
        WITHIN: abs(apart) <= TOLERANCE * abs(mean) + ROUNDING,
        "srtt_deviation": _ratio(platform["srtt_ms"] - reference["srtt_ms"], reference["srtt_ms"]),
    }


def _distance(shared: pd.DataFrame, pairs: Sequence[tuple[str, str]], metric: str) -> Distance | None:
    """Between the distributions over the repetitions that both have, where there are enough of
    them.
    """
    if len(pairs) < FEWEST_STARTS:
        return None
    # A transfer that never finished took infinitely long, and what was never established received
    # nothing.
    values = shared.drop_duplicates("key").set_index("key")[metric].astype(float).fillna(math.inf if metric == COMPLETION else 0.0)
    return distance([float(values[ours]) for ours, _ in pairs], [float(values[theirs]) for _, theirs in pairs])


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", name))
