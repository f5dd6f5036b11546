"""One value of a parameter against the others, in sentences, a table and a figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from polypath.analysis import PLATFORM, REFERENCE, Metric, PairStanding, metric_of, platform_names
from polypath.plot import Figure, differences

from ._format import mean_ci, number, percent, several
from ._material import Material, label
from ._tables import Cell, Column, Table

MOST_DRAWN = 60
"""Rows of a figure; more could not be read."""


@dataclass(frozen=True, kw_only=True)
class AgainstView:
    title: str
    sentences: Sequence[str]
    table: Table
    figures: Sequence[Figure]


def against_view(material: Material, *, drawn: bool) -> AgainstView | None:
    """None where no `against` was given; with its figures if they are to be `drawn`."""
    if material.against.empty:
        return None
    table = _by_platform(material.against)
    parameter, reference = str(table.columns[0]), str(table[REFERENCE].iloc[0])
    title = f"Against {_named(parameter, reference)}"
    return AgainstView(
        title=title,
        sentences=_sentences(table),
        table=_table(table, parameter, reference),
        figures=[
            _figure(f"against-{kind}" if table["application"].nunique() > 1 else "against", title, rows, parameter)
            for kind, rows in table.groupby("application", sort=False)
            if drawn and len(rows) <= MOST_DRAWN and rows["difference"].notna().any()
        ],
    )


def _by_platform(table: pd.DataFrame) -> pd.DataFrame:
    """Engine and kernel in one word, as all of the report has them."""
    if table.columns[0] in ("engine", "kernel"):
        return table
    at = list(table.columns).index("engine")
    named = table.drop(columns=["engine", "kernel"])
    named.insert(at, PLATFORM, platform_names(table))
    return named


def _sentences(table: pd.DataFrame) -> list[str]:
    """One for each flow and metric; of a matrix over further parameters one for each other value."""
    parameter, reference = str(table.columns[0]), str(table[REFERENCE].iloc[0])
    flows = table["flow"].nunique()
    sentences = []
    for (flow, _), rows in table.groupby(["flow", "metric"], sort=False):
        whose = f"{flow}: " if flows > 1 else ""
        answers = _over_cells(rows, parameter, reference) if _conditions(table) else [_at_once(rows, parameter, reference)]
        sentences += [whose + sentence for sentence in answers]
    return [*sentences, *_unfinished(table, parameter, reference)]


def _note(table: pd.DataFrame) -> str:
    """How the figures came about."""
    rows, equal, pairs = len(table), int(table["equal"].sum()), int(table["n"].sum())
    level = "" if rows > 1 else " of 95 %"
    sentences = [f"Differences are paired, run by run with the same seed; ± is half of each interval{level}."]
    sentences += [f"All {rows} intervals hold together with 95 %, and p is adjusted for {rows} comparisons (Bonferroni)."] * (rows > 1)
    sentences += [f"{equal} of {pairs} pairs have equal figures."] * (equal > 0)
    return " ".join(sentences)


def _at_once(rows: pd.DataFrame, parameter: str, reference: str) -> str:
    metric = _metric(rows)
    parts = []
    apart = rows[rows["standing"].isin(_APART)].sort_values("difference", ascending=False, kind="stable")
    for index, (_, row) in enumerate(apart.iterrows()):
        word = "higher" if row["difference"] > 0 else "lower"
        unit = f" {metric.unit}" if index == 0 and metric.unit else ""
        size = mean_ci(abs(metric.scale * row["difference"]), metric.scale * row["ci"], metric.digits)
        exact = " with every seed" if math.isnan(row["ci"]) else ""
        relative = f" ({percent(row['relative'], signed=True)})" if math.isfinite(row["relative"]) else ""
        head = f"the {metric.head} of " if index == 0 else ""
        parts.append(f"{head}{_named(parameter, row[parameter])} is {size}{unit} {word}{exact}{relative}")
    alike = rows[rows["standing"] == PairStanding.ALIKE]
    if len(alike):
        sizes = [_signed(row, metric) for _, row in alike.iterrows()]
        verb = "is" if len(alike) == 1 else "are"
        unit = f" {metric.unit}" if metric.unit else ""
        head = "" if parts else f"in {metric.head} "
        parts.append(f"{head}{several(_names(alike, parameter))} {verb} not told apart from it ({several(sizes)}{unit})")
    equal = rows[rows["standing"] == PairStanding.EQUAL]
    if len(equal):
        parts.append(f"{several(_names(equal, parameter))} {'gives' if len(equal) == 1 else 'give'} the same {metric.head}")
    single = rows[rows["standing"] == PairStanding.UNKNOWN]
    measured = single[single["n"] > 0]
    if len(measured):
        sizes = [f"{_named(parameter, row[parameter])} {_signed(row, metric)} {metric.unit}".rstrip() for _, row in measured.iterrows()]
        parts.append(f"{metric.head} {several(sizes)} in one pair of runs, which proves nothing: run more seeds")
    pairs = sorted(set(rows["n"]))
    many = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}"
    over = f", over the same {many} seeds" if pairs[-1] > 1 else ""
    return f"Against {_named(parameter, reference)}{over}: {'; '.join(parts) or 'nothing finished on both sides'}."


def _over_cells(rows: pd.DataFrame, parameter: str, reference: str) -> list[str]:
    metric, sentences = _metric(rows), []
    names = _conditions(rows)
    for value, cells in rows.groupby(parameter, sort=False):
        parts = []
        for standing, some in sorted(
            cells.groupby("standing", sort=False), key=lambda pair: [*PairStanding].index(PairStanding(str(pair[0])))
        ):
            example = ""
            if standing in _APART and some["relative"].notna().any():
                most = some.iloc[int(some["relative"].abs().argmax())]
                where = ", ".join(str(most[name]) if name == PLATFORM else f"{name} {most[name]}" for name in names)
                example = f" ({'at most ' * (len(some) > 1)}{percent(most['relative'], signed=True)} at {where})"
            parts.append(f"{standing} in {len(some)} of {len(cells)} cells{example}")
        sentences.append(f"{_named(parameter, value)} against {_named(parameter, reference)}, {metric.head}: {', '.join(parts)}.")
    return sentences


_APART = [PairStanding.BETTER, PairStanding.WORSE, PairStanding.HIGHER, PairStanding.LOWER]


def _unfinished(table: pd.DataFrame, parameter: str, reference: str) -> list[str]:
    """Pairs that have no difference, since one side never finished."""
    sentences = []
    for value, rows in table.groupby(parameter, sort=False):
        ours, theirs = int(rows["unfinished"].sum()), int(rows["against_unfinished"].sum())
        if ours or theirs:
            sentences.append(
                f"Beware: {ours} runs of {_named(parameter, value)} and {theirs} of {_named(parameter, reference)} never finished, "
                "and their pairs are in no difference."
            )
    return sentences


def _table(table: pd.DataFrame, parameter: str, reference: str) -> Table:
    names, flows = [*_conditions(table)], table["flow"].nunique()
    columns = [
        Column(title="Cell", numeric=False),
        Column(title="Compared", numeric=False),
        Column(title="Pairs", help="Repetitions that both have, and finished in both"),
        Column(title=_named(parameter, reference), help="Its mean over the pairs"),
        Column(title="This", help="The cell's mean over the pairs"),
        Column(title="Difference", help="Of the means, paired run by run, ± half of the simultaneous 95 % interval"),
        Column(title="Relative", help=f"To the mean of {_named(parameter, reference)}"),
        Column(title="p", help="Student’s paired test, times the number of rows (Bonferroni)"),
        Column(title="Standing", help="“Not told apart”: zero lies in the interval", numeric=False),
    ]
    body = []
    for _, row in table.iterrows():
        metric = _metric(row.to_frame().T)
        ours, theirs = (number(metric.scale * row[name], metric.digits) for name in ("mean", "against_mean"))
        body.append(
            [
                Cell(text=label(dict(row), [parameter, *names], flows), css="name"),
                Cell(text=f"{metric.head}, {metric.unit}" if metric.unit else metric.head, css="words"),
                Cell(text=str(row["n"])),
                Cell(text=theirs),
                Cell(text=ours),
                Cell(text=_signed(row, metric), css="strong"),
                Cell(text=percent(row["relative"], signed=True)),
                Cell(text=_p(row["p"])),
                Cell(text=str(row["standing"]), css="words"),
            ]
        )
    return Table(columns=columns, rows=body, note=_note(table))


def _figure(name: str, title: str, rows: pd.DataFrame, parameter: str) -> Figure:
    metric, names, flows = _metric(rows), _conditions(rows), rows["flow"].nunique()
    # Cells of other conditions have other scales.
    by_share = bool(names)
    drawn = pd.DataFrame({"label": [label(dict(row), [parameter, *names], flows) for _, row in rows.iterrows()]})
    scale = (100 / rows["against_mean"].abs() if by_share else pd.Series(metric.scale, index=rows.index)).to_numpy()
    drawn["difference"] = rows["difference"].to_numpy() * scale
    drawn["ci"] = rows["ci"].to_numpy() * scale
    drawn["standing"] = [str(standing) for standing in rows["standing"]]
    digits = 1 if by_share else metric.digits
    drawn["text"] = [_sign(value, digits) for value in drawn["difference"]]
    unit = "%" if by_share else metric.unit
    axis = f"difference in {metric.head}" + (f", {unit}" if unit else "")
    caption = f"Zero is {title.partition(' ')[2]}; a line is an interval of 95 % that holds together with all others of the table."
    return differences(name, f"{title}: {metric.head}", caption, drawn, axis)


def _conditions(table: pd.DataFrame) -> list[str]:
    """The other columns that tell cells apart."""
    end = list(table.columns).index("flow")
    return [str(name) for name in table.columns[2:end] if table[name].nunique(dropna=False) > 1]


def _metric(rows: pd.DataFrame) -> Metric:
    row = rows.iloc[0]
    column = str(row["metric"])
    return metric_of(dict(row)) or Metric(column=column, head=column, unit="", meaning="", of_a_run="")


def _named(parameter: str, value: Any) -> str:
    return label({parameter: value}, [parameter], 1)


def _names(rows: pd.DataFrame, parameter: str) -> list[str]:
    return [_named(parameter, value) for value in rows[parameter]]


def _signed(row: Mapping[str, Any] | pd.Series[Any], metric: Metric) -> str:
    value, half = metric.scale * row["difference"], metric.scale * row["ci"]
    spread = f" ± {number(half, metric.digits)}" if math.isfinite(half) else ""
    return f"{_sign(value, metric.digits)}{spread}" if math.isfinite(value) else "–"


def _sign(value: float, digits: int) -> str:
    return f"{value:+,.{digits}f}".replace("-", "−") if math.isfinite(value) else ""


def _p(value: float) -> str:
    return "–" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"
