"""The comparison of engines and kernels: its tables and figures, and the windows over one another where they differ most."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from polypath.analysis import PLATFORM, Comparison, Distance, Standing, compare, in_words
from polypath.plot import INK, Figure, deviations, over_time

from ._material import Material, label, with_limits
from ._tables import Cell, Column, Table
from ._timing import UNTRUSTED_MARK, warnings
from ._words import MISSING, count, number, percent

MOST_OVERLAYS = 12
"""Rows whose windows are drawn over one another, those that lie furthest apart first."""


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    summary: Sequence[str]
    tables: Sequence[tuple[str, Table]]
    """A title and a table an experiment."""
    figures: Sequence[Figure]


def comparison(material: Material, runs: Collection[str] | None = None, referee: str | None = None) -> Comparison | None:
    """Every platform of the results against the referee, by default the last one; None where there is only one.

    `runs` narrows it to the runs of these keys.
    """
    chosen = with_limits(material)
    chosen = chosen if runs is None else chosen[chosen["key"].isin(list(runs))]
    if chosen[PLATFORM].nunique() < 2:
        return None
    over = list(material.study.repeated)
    own = [name for name in material.parameters if name in material.runs and name not in over and name != "kernel"]
    spans = {
        (key, flow["name"]): (int(flow["window_ns"][0]) / 1e9, int(flow["window_ns"][1]) / 1e9)
        for key, scenario in material.scenarios.items()
        for flow in scenario["flows"]
    }
    return compare(
        chosen,
        material.subflows,
        material.living,
        spans,
        by=["experiment", *own, "flow"],
        repetitions=[*over, "seed"],
        referee=referee,
    )


def comparison_sentences(made: Comparison) -> list[str]:
    """A summary a platform: how many rows agree, and how many were not run on both."""
    found = []
    rows = made.rows
    for platform in made.judged:
        agree, of = made.count(platform)
        share = f" ({percent(agree / of, 0)})" if of else ""
        own = rows[rows[PLATFORM] == platform]
        alone = {name: int((rows.loc[rows[PLATFORM] == name, "runs"] == 0).sum()) for name in (platform, made.referee)}
        rest = "".join(f"; {n} of {len(own)} rows were not run on {name}" for name, n in alone.items() if n)
        found.append(f"{platform} agrees with {made.referee} in {agree} of {of} rows{share}{rest}")
        if distances := made.distances(platform):
            found.append(f"{platform} over many starts, against {made.referee} over the same: {in_words(distances)}")
    return found


def view(material: Material) -> ComparisonView | None:
    """The section of the page."""
    made = comparison(material)
    if made is None:
        return None
    parts = [(str(name), rows) for name, rows in made.rows.groupby("experiment", sort=False)]
    titles = {name: material.study.all_experiments[name].title or name for name, _ in parts}
    drawn = _overlays(made, material)
    return ComparisonView(
        summary=[*comparison_sentences(made), *warnings(material.runs, material.parameters)],
        tables=[(titles[name], _table(rows, made)) for name, rows in parts],
        figures=[*([_deviations(made)] if made.rows["deviation"].notna().any() else []), *drawn],
    )


def parameters_apart(rows: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The parameters that tell the rows of one experiment apart."""
    present = [name for name in by if name not in ("experiment", "flow") and bool(rows[name].notna().any())]
    return [name for name in present if rows[name].nunique(dropna=False) > 1] or present[:1]


def _title(row: Any, names: Sequence[str], flows: int) -> str:
    """A row of one experiment in a few words."""
    return label({**dict(row), **{name: MISSING for name in names if pd.isna(row[name])}}, names, flows)


def _table(rows: pd.DataFrame, made: Comparison) -> Table:
    names, flows = parameters_apart(rows, made.by), rows["flow"].nunique()
    spread = {platform for platform in made.judged if rows.loc[rows[PLATFORM] == platform, "distance"].notna().any()}
    columns = [Column(title="Cell", numeric=False)]
    columns += [
        Column(title=platform, help="Mean over the repetitions, and how far one of them lies from it") for platform in made.platforms
    ]
    for platform in made.judged:
        of = f" of {platform}" if len(made.judged) > 1 else ""
        columns += [
            Column(title=f"Deviation{of}", help=f"Of the mean, from {made.referee}"),
            Column(title="Verdict", help="Agrees within 10 % or the largest distance of a repetition of the referee", numeric=False),
            *(_SPREAD if platform in spread else ()),
            Column(title="Windows", help="Area between the congestion windows over the area under their mean; 0 is the same curve"),
            Column(title="RTT", help="Deviation of the mean smoothed round-trip time"),
        ]
    columns += [
        Column(title="Retransmissions", help="Segments sent again, in the order of the columns"),
        Column(title="Limited by", help="What held each below what was possible", numeric=False),
    ]
    body = []
    for _, cell in rows.groupby(list(made.by), sort=False, dropna=False):
        own = {str(row[PLATFORM]): row for _, row in cell.iterrows()}
        line = [Cell(text=_title(cell.iloc[0], names, flows), css="name")]
        line += [Cell(text=mean_and_spread(own[platform]), css="strong") for platform in made.platforms]
        for platform in made.judged:
            row = own[platform]
            verdict = verdict_of(row)
            line += [
                Cell(text=percent(row["deviation"], signed=True)),
                Cell(text=verdict, css={"agrees": "near", "differs": "far"}.get(verdict, "words")),
                *(_spread_cells(row["distance"]) if platform in spread else ()),
                Cell(text=number(row["window_area"])),
                Cell(text=percent(row["srtt_deviation"], 0, signed=True)),
            ]
        line.append(Cell(text=" / ".join(count(own[platform]["retransmissions"]) for platform in made.platforms)))
        line.append(Cell(text=limits_of(own, made.platforms), css="words limits"))
        body.append(line)
    metric = "seconds until everything was read" if (rows["metric"] == "completion_s").all() else "goodput in Mbit/s"
    return Table(columns=columns, rows=body, note=f"{metric[0].upper()}{metric[1:]}, read by the receiving application.")


_SPREAD = (
    Column(title="Over starts", help="Difference of the means over the same starts, with its 95 % interval", numeric=False),
    Column(title="p (means)", help="Student's paired test: how often means of one distribution differ as much"),
    Column(title="p (KS)", help="Kolmogorov and Smirnov: how often samples of one distribution differ as much"),
)


def _spread_cells(found: Distance | None) -> list[Cell]:
    if found is None:
        return [Cell(text=MISSING) for _ in _SPREAD]
    css = "far" if found.standing is Standing.APART else "near"
    return [Cell(text=str(found), css=css), *(Cell(text=f"{p:.3f}") for p in (found.p_mean, found.p_ks))]


def mean_and_spread(row: Any) -> str:
    """The mean, and the largest distance of a repetition from it."""
    if not row["runs"]:
        return "not run"
    if not row["n"]:
        return "not finished"
    digits = 3 if row["metric"] == "completion_s" else 2
    spread = float(row["spread"])
    mean = number(row["value"], digits) + (f" ± {number(spread, digits)}" if spread >= 0.5 * 10**-digits else "")
    return f"{mean} {UNTRUSTED_MARK}" if row["untrusted"] else mean


def verdict_of(row: Any) -> str:
    """agrees, differs, or nothing where there is nothing to compare."""
    return MISSING if row["agrees"] is None or pd.isna(row["agrees"]) else "agrees" if row["agrees"] else "differs"


def limits_of(own: Any, platforms: Sequence[str]) -> str:
    """What limited each; said once where it is the same for all that ran."""
    found = [str(own[platform]["limited_by"]) or MISSING for platform in platforms]
    said = set(found) - {MISSING}
    if len(said) == 1:
        return said.pop()
    return found[0] if len(set(found)) == 1 else " / ".join(found)


def _deviations(made: Comparison) -> Figure:
    rows = made.rows.loc[made.rows[PLATFORM] != made.referee, [name for name in made.rows.columns if name != "distance"]]
    labels = _labels(made)
    table = rows.assign(label=[labels[_who(row, made.by)] for _, row in rows.iterrows()])
    words = f"The band is what the rule allows: 10 % of {made.referee}, or the largest distance of one of its repetitions from its mean. "
    return deviations("compare-deviation", f"Deviation from {made.referee}", words + "Hollow: differs.", table, made.judged, _hues(made))


def _overlays(made: Comparison, material: Material) -> list[Figure]:
    """The windows of the rows that lie furthest apart, the first repetition that all platforms have."""
    known = made.rows[(made.rows[PLATFORM] != made.referee) & made.rows["window_area"].notna()]
    if known.empty or material.series.empty:
        return []
    labels = _labels(made)
    furthest = known.sort_values("window_area", ascending=False, kind="stable").drop_duplicates(list(made.by))[:MOST_OVERLAYS]
    parts = [_curves(row, labels[_who(row, made.by)], made, material) for _, row in furthest.iterrows()]
    curves = pd.concat(parts)
    curves = curves[curves["line"].isin(made.platforms)]
    note = f"One repetition of {len(furthest)} of {known[list(made.by)].drop_duplicates().shape[0]} rows, the furthest apart first; "
    return [
        over_time(
            "compare-cwnd",
            "Congestion windows over one another",
            note + "the number is the area between the curves over the area under their mean, of all repetitions. "
            "Each panel has its own y-axis.",
            curves,
            "cwnd",
            "packets",
            colours=[*_hues(made), INK],
            lines=made.platforms,
        )
    ]


def _hues(made: Comparison) -> list[str]:
    return [_HUES[index % len(_HUES)] for index in range(len(made.judged))]


_HUES = ("#e07b28", "#2767b0", "#2f9271", "#a5499b", "#3aa0c9")
"""Of the judged platforms; the referee is drawn in the colour of the page's ink."""


def _curves(row: Any, title: str, made: Comparison, material: Material) -> pd.DataFrame:
    """label, line (the platform), time_s and cwnd of each subflow of a row."""
    runs = material.runs
    for name in made.by:
        runs = runs[runs[name].isna()] if pd.isna(row[name]) else runs[runs[name] == row[name]]
    over = [*material.study.repeated, "seed"]
    by_repetition = [own for _, own in runs.groupby(over, sort=False, dropna=False) if own[PLATFORM].nunique() > 1]
    if not by_repetition:
        return pd.DataFrame(columns=["label", "line", "time_s", "cwnd"])
    first = by_repetition[0].drop_duplicates(PLATFORM)
    areas = made.windows[made.windows[PLATFORM] == row[PLATFORM]]
    for name in made.by:
        areas = areas[areas[name].isna()] if pd.isna(row[name]) else areas[areas[name] == row[name]]
    series, ends = material.living, material.subflows
    parts = []
    for _, run in first.iterrows():
        own = series[(series["key"] == run["key"]) & (series["flow"] == run["flow"])]
        for _, end in ends[(ends["key"] == run["key"]) & (ends["flow"] == run["flow"])].iterrows():
            source = str(end["source"]).rsplit(":", 1)[0]
            area = areas.loc[areas["source"] == source, "area"]
            words = f"{title}, from {source}" if len(areas) > 1 else title
            words += f" ({number(area.iloc[0])})" if len(area) and math.isfinite(float(area.iloc[0])) else ""
            curve = own.loc[own["subflow"] == end["subflow"], ["time_s", "cwnd"]]
            parts.append(curve.assign(label=words, line=run[PLATFORM]))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["label", "line", "time_s", "cwnd"])


def _who(row: Any, by: Sequence[str]) -> tuple[Any, ...]:
    return tuple(None if pd.isna(row[name]) else row[name] for name in by)


def _labels(made: Comparison) -> dict[tuple[Any, ...], str]:
    """Every row of the comparison in a few words, with its experiment where there are several."""
    several = made.rows["experiment"].nunique() > 1
    found = {}
    for experiment, rows in made.rows.groupby("experiment", sort=False):
        names, flows = parameters_apart(rows, made.by), rows["flow"].nunique()
        for _, row in rows.drop_duplicates(list(made.by)).iterrows():
            words = _title(row, names, flows)
            found[_who(row, made.by)] = f"{experiment}: {words}" if several else words
    return found
