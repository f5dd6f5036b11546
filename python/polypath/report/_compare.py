"""The comparison of engines and kernels: its tables and figures, and the windows over one another
where they differ most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from polypath.analysis import LEVEL, PLATFORM, TOLERANCE, WITHIN, Comparison, Distance, Standing, bare, compare
from polypath.plot import INK, Figure, deviations, over_time

from ._format import MISSING, count, mean_ci, number, percent, several
from ._material import Material, label, with_limits
from ._tables import Cell, Column, Table
from ._timing import UNTRUSTED_MARK, warnings

MOST_OVERLAYS = 12
"""Rows whose windows are drawn over one another, those that lie furthest apart first."""


@dataclass(frozen=True, kw_only=True)
class ComparisonView:
    summary: Sequence[str]
    tables: Sequence[tuple[str, Table]]
    """A title and a table an experiment."""
    figures: Sequence[Figure]


def comparison(material: Material, runs: Collection[str] | None = None, reference: str | None = None) -> Comparison | None:
    """Every platform of the results against the reference, by default the last one; None where
    there is only one.

    `runs` narrows it to the runs of these keys.
    """
    chosen = with_limits(material)
    chosen = chosen if runs is None else chosen[chosen["key"].isin(list(runs))]
    if chosen[PLATFORM].nunique() < 2:
        return None
    over = list(material.study.repeated)
    parameters = [name for name in material.parameters if name in material.runs and name not in over and name != "kernel"]
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
        by=["experiment", *parameters, "flow"],
        repetitions=[*over, "seed"],
        reference=reference,
    )


def comparison_sentences(compared: Comparison) -> list[str]:
    """A sentence a platform: whether it agrees with the reference, and where it is significantly
    lower or higher all the same.
    """
    labels = _labels(compared)
    return [_sentence(compared, platform, labels) for platform in compared.judged]


def _sentence(compared: Comparison, platform: str, labels: Mapping[tuple[Any, ...], str]) -> str:
    rows = compared.rows[compared.rows[PLATFORM] == platform].to_dict("records")
    on_both = [row for row in rows if row[WITHIN] is not None]
    far = [row for row in on_both if not row[WITHIN]]
    agree, of = len(on_both) - len(far), len(on_both)

    def names(rows: Sequence[Mapping[Any, Any]]) -> str:
        return several([labels[_who(row, compared.by)] for row in rows]) if len(rows) <= _MOST_NAMED else f"{len(rows)} rows"

    if not of:
        said = f"no row ran on both {platform} and {compared.reference}"
    else:
        rest = "" if not far or not agree else f" (not for {names(far)})"
        said = f"{platform} agrees with {compared.reference} within {percent(TOLERANCE, 0)} in {agree} of {of} rows{rest}"
    judged = [row for row in rows if row["distance"] is not None]
    apart = [row for row in judged if row["distance"].standing is Standing.APART]
    parts = []
    for word, belongs in _WORDS.items():
        one_way = [row for row in apart if belongs(row["distance"].difference)]
        if one_way:
            parts.append(f"significantly {word} for {names(one_way)}{_span([row['distance'].difference for row in one_way])}")
    if parts:
        join = "yet" if any(row[WITHIN] for row in apart) else "and"
        chance = 2 * LEVEL * len(judged)
        luck = f"; chance alone tells up to {chance:.0f} of {len(judged)} rows apart" if chance >= 1 else ""
        said += f", {join} over the same starts it is {several(parts)}{luck}"
    alone = {name: int((compared.rows.loc[compared.rows[PLATFORM] == name, "runs"] == 0).sum()) for name in (platform, compared.reference)}
    return said + "".join(f"; {n} of {len(rows)} rows were not run on {name}" for name, n in alone.items() if n)


# Rows that a sentence names.
_MOST_NAMED = 4
_WORDS: Mapping[str, Callable[[float], bool]] = {
    "lower": lambda difference: difference < 0,
    "higher": lambda difference: difference > 0,
    # One of them never finished.
    "different": math.isnan,
}


def _span(differences: Sequence[float]) -> str:
    """(8 %), or (8 to 25 %); nothing where no share can be told."""
    finite = sorted(abs(difference) for difference in differences if math.isfinite(difference))
    if not finite:
        return ""
    least, most = percent(finite[0], 0), percent(finite[-1], 0)
    return f" ({most})" if least == most else f" ({least.removesuffix(' %')} to {most})"


def view(material: Material) -> ComparisonView | None:
    """The section of the page."""
    compared = comparison(material)
    if compared is None:
        return None
    parts = [(str(name), rows) for name, rows in compared.rows.groupby("experiment", sort=False)]
    titles = {name: material.study.all_experiments[name].title or name for name, _ in parts}
    drawn = _overlays(compared, material)
    return ComparisonView(
        summary=[*comparison_sentences(compared), *warnings(material.runs, material.parameters)],
        tables=[(titles[name], _table(rows, compared)) for name, rows in parts],
        figures=[*([_deviations(compared)] if compared.rows["deviation"].notna().any() else []), *drawn],
    )


def parameters_apart(rows: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The parameters that tell the rows of one experiment apart."""
    present = [name for name in by if name not in ("experiment", "flow") and bool(rows[name].notna().any())]
    return [name for name in present if rows[name].nunique(dropna=False) > 1] or present[:1]


def _title(row: Any, names: Sequence[str], flows: int) -> str:
    """A row of one experiment in a few words."""
    return label({**dict(row), **{name: MISSING for name in names if pd.isna(row[name])}}, names, flows)


def _table(rows: pd.DataFrame, compared: Comparison) -> Table:
    names, flows = parameters_apart(rows, compared.by), rows["flow"].nunique()
    spread = {platform for platform in compared.judged if rows.loc[rows[PLATFORM] == platform, "distance"].notna().any()}
    columns = [Column(title="Cell", numeric=False)]
    columns += [Column(title=platform, help="Mean over the repetitions ± its 95 % interval") for platform in compared.platforms]
    for platform in compared.judged:
        of = f" of {platform}" if len(compared.judged) > 1 else ""
        columns += [
            Column(title=f"Deviation{of}", help=f"Of the mean, from {compared.reference}"),
            Column(title="Within 10 %", help=f"Whether the mean lies within 10 % of that of {compared.reference}", numeric=False),
            *(_SPREAD if platform in spread else ()),
            Column(title="Windows", help="Area between the congestion windows over the area under their mean; 0 is the same curve"),
            Column(title="RTT", help="Deviation of the mean smoothed round-trip time"),
        ]
    columns += [
        Column(title="Retransmissions", help="Segments sent again, in the order of the columns"),
        Column(title="Limited by", help="What held each below what was possible", numeric=False),
    ]
    body = []
    for _, cell in rows.groupby(list(compared.by), sort=False, dropna=False):
        row_of = {str(row[PLATFORM]): row for _, row in cell.iterrows()}
        line = [Cell(text=_title(cell.iloc[0], names, flows), css="name")]
        line += [Cell(text=mean_and_interval(row_of[platform]), css="strong") for platform in compared.platforms]
        for platform in compared.judged:
            row = row_of[platform]
            within = within_of(row)
            line += [
                Cell(text=percent(row["deviation"], signed=True)),
                Cell(text=within, css={"yes": "near", "no": "far"}.get(within, "words")),
                *(_spread_cells(row["distance"]) if platform in spread else ()),
                Cell(text=number(row["window_area"])),
                Cell(text=percent(row["srtt_deviation"], 0, signed=True)),
            ]
        line.append(Cell(text=" / ".join(count(row_of[platform]["retransmissions"]) for platform in compared.platforms)))
        line.append(Cell(text=limits_of(row_of, compared.platforms), css="words limits"))
        body.append(line)
    metric = "seconds until everything was read" if (rows["metric"] == "completion_s").all() else "goodput in Mbit/s"
    return Table(columns=columns, rows=body, note=f"{metric[0].upper()}{metric[1:]}, read by the receiving application.")


_SPREAD = (
    Column(title="Over the same starts", help="Difference of the means over the same starts, with its 95 % interval", numeric=False),
    Column(title="p (means)", help="Student's paired test: how often means of one distribution differ as much"),
    Column(title="p (KS)", help="Kolmogorov and Smirnov: how often samples of one distribution differ as much"),
)


def _spread_cells(distance: Distance | None) -> list[Cell]:
    if distance is None:
        return [Cell(text=MISSING) for _ in _SPREAD]
    css = "far" if distance.standing is Standing.APART else "near"
    return [Cell(text=str(distance), css=css), *(Cell(text=f"{p:.3f}") for p in (distance.p_mean, distance.p_ks))]


def mean_and_interval(row: Any) -> str:
    """The mean with its 95 % interval, as everywhere."""
    if not row["runs"]:
        return "not run"
    if not row["n"]:
        return "not finished"
    mean = mean_ci(row["value"], row["value_ci"], 3 if row["metric"] == "completion_s" else 2)
    return f"{mean} {UNTRUSTED_MARK}" if row["untrusted"] else mean


def within_of(row: Any) -> str:
    """Whether a row is within 10 % of the reference's: yes, no, or nothing where one of them did
    not run.
    """
    return MISSING if row[WITHIN] is None or pd.isna(row[WITHIN]) else "yes" if row[WITHIN] else "no"


def limits_of(row_of: Any, platforms: Sequence[str]) -> str:
    """What limited each; said once where it is the same for all that ran."""
    limits = [str(row_of[platform]["limited_by"]) or MISSING for platform in platforms]
    said = set(limits) - {MISSING}
    if len(said) == 1:
        return said.pop()
    return limits[0] if len(set(limits)) == 1 else " / ".join(limits)


def _deviations(compared: Comparison) -> Figure:
    rows = compared.rows.loc[compared.rows[PLATFORM] != compared.reference, [name for name in compared.rows.columns if name != "distance"]]
    labels = _labels(compared)
    table = rows.assign(label=[labels[_who(row, compared.by)] for _, row in rows.iterrows()])
    words = f"The band is 10 % of {compared.reference}. Hollow: outside."
    return deviations(
        "compare-deviation", f"Deviation from {compared.reference}", words, table, compared.judged, _hues(compared), TOLERANCE, WITHIN
    )


def _overlays(compared: Comparison, material: Material) -> list[Figure]:
    """The windows of the rows that lie furthest apart, the first repetition that all platforms
    have.
    """
    judged = compared.rows[(compared.rows[PLATFORM] != compared.reference) & compared.rows["window_area"].notna()]
    if judged.empty or material.series.empty:
        return []
    labels = _labels(compared)
    furthest = judged.sort_values("window_area", ascending=False, kind="stable").drop_duplicates(list(compared.by))[:MOST_OVERLAYS]
    parts = [_curves(row, labels[_who(row, compared.by)], compared, material) for _, row in furthest.iterrows()]
    curves = pd.concat(parts)
    curves = curves[curves["line"].isin(compared.platforms)]
    note = f"One repetition of {len(furthest)} of {judged[list(compared.by)].drop_duplicates().shape[0]} rows, the furthest apart first; "
    return [
        over_time(
            "compare-cwnd",
            "Congestion windows over one another",
            note + "the number is the area between the curves over the area under their mean, of all repetitions.",
            curves,
            "cwnd",
            "packets",
            colours=[*_hues(compared), INK],
            lines=compared.platforms,
        )
    ]


def _hues(compared: Comparison) -> list[str]:
    return [_HUES[index % len(_HUES)] for index in range(len(compared.judged))]


_HUES = ("#e07b28", "#2767b0", "#2f9271", "#a5499b", "#3aa0c9")
"""Of the judged platforms; the reference is drawn in the colour of the page's ink."""


def _curves(row: Any, title: str, compared: Comparison, material: Material) -> pd.DataFrame:
    """label, line (the platform), time_s and cwnd of each subflow of a row."""
    runs = material.runs
    for name in compared.by:
        runs = runs[runs[name].isna()] if pd.isna(row[name]) else runs[runs[name] == row[name]]
    over = [*material.study.repeated, "seed"]
    by_repetition = [repetition for _, repetition in runs.groupby(over, sort=False, dropna=False) if repetition[PLATFORM].nunique() > 1]
    if not by_repetition:
        return pd.DataFrame(columns=["label", "line", "time_s", "cwnd"])
    first = by_repetition[0].drop_duplicates(PLATFORM)
    areas = compared.windows[compared.windows[PLATFORM] == row[PLATFORM]]
    for name in compared.by:
        areas = areas[areas[name].isna()] if pd.isna(row[name]) else areas[areas[name] == row[name]]
    series, subflows = material.living, material.subflows
    alone = areas["source"].is_unique
    parts = []
    for _, run in first.iterrows():
        samples = series[(series["key"] == run["key"]) & (series["flow"] == run["flow"])]
        met: Counter[tuple[str, str]] = Counter()
        for _, subflow in subflows[(subflows["key"] == run["key"]) & (subflows["flow"] == run["flow"])].iterrows():
            ends = bare(subflow["source"]), bare(subflow["destination"])
            # Several subflows may have the same addresses: they are told apart by their order.
            number_of, met[ends] = met[ends], met[ends] + 1
            name = f"from {ends[0]}" if alone else " → ".join(ends) + f", {number_of + 1}" * bool(number_of)
            same = areas.loc[(areas["source"] == ends[0]) & (areas["destination"] == ends[1]), "area"].iloc[number_of : number_of + 1]
            words = f"{title}, {name}" if len(areas) > 1 else title
            words += f" ({number(same.iloc[0])})" if len(same) and math.isfinite(float(same.iloc[0])) else ""
            curve = samples.loc[samples["subflow"] == subflow["subflow"], ["time_s", "cwnd"]]
            parts.append(curve.assign(label=words, line=run[PLATFORM]))
    return pd.concat(parts) if parts else pd.DataFrame(columns=["label", "line", "time_s", "cwnd"])


def _who(row: Any, by: Sequence[str]) -> tuple[Any, ...]:
    return tuple(None if pd.isna(row[name]) else row[name] for name in by)


def _labels(compared: Comparison) -> dict[tuple[Any, ...], str]:
    """Every row of the comparison in a few words, with its experiment where there are several."""
    several = compared.rows["experiment"].nunique() > 1
    labels = {}
    for experiment, rows in compared.rows.groupby("experiment", sort=False):
        names, flows = parameters_apart(rows, compared.by), rows["flow"].nunique()
        for _, row in rows.drop_duplicates(list(compared.by)).iterrows():
            words = _title(row, names, flows)
            labels[_who(row, compared.by)] = f"{experiment}: {words}" if several else words
    return labels
