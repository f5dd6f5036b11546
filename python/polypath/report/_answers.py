"""What each application got: a table, a figure and a sentence for each kind that is not told by
goodput alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from polypath.analysis import Application, Metric, answers, applications_in
from polypath.plot import Figure, goodput_bars

from ._format import mean_ci, number, percent, share_of_paths
from ._material import label
from ._tables import Cell, Column, Table, reasons

BULK = "bulk"
_TITLES = {
    "stream": "Streams at a rate",
    "datagrams": "Datagrams",
    "requests": "Requests and responses",
    "transfer": "Transfers",
}


@dataclass(frozen=True, kw_only=True)
class AnswerView:
    """One kind of application in one experiment."""

    title: str
    headline: str
    table: Table
    # None where no engine told its main metric.
    bars: Figure | None


def views(name: str, title: str, rows: pd.DataFrame, names: Sequence[str]) -> list[AnswerView]:
    """A view a kind of application, of runs with limits; for those that only send as much as they
    can goodput says it all.
    """
    return [_view(name, title, rows[rows["application"] == kind.name], names, kind) for kind in applications_in(rows) if kind.name != BULK]


def _view(name: str, title: str, rows: pd.DataFrame, names: Sequence[str], kind: Application) -> AnswerView:
    cells = answers(rows, [*names, "flow"], kind)
    flows = rows["flow"].nunique()
    cells["label"] = [label(dict(row), names, flows) for _, row in cells.iterrows()]
    metrics = [metric for metric in kind.metrics if cells[metric.column].notna().any()]
    return AnswerView(
        title=_TITLES[kind.name],
        headline=_headline(f"{title}, {_TITLES[kind.name].lower()}" if title else _TITLES[kind.name], cells, names, kind),
        table=_table(cells, metrics),
        bars=_bars(name, cells, kind) if kind.main in metrics else None,
    )


def _table(cells: pd.DataFrame, metrics: Sequence[Metric]) -> Table:
    columns = [Column(title="Cell", numeric=False)]
    for metric in metrics:
        columns.append(
            Column(title=_capital(metric.head), unit=metric.unit, help=f"{_capital(metric.meaning)}. {_capital(metric.of_a_run)}")
        )
        if metric.best and metric.better == "lower":
            columns.append(Column(title="At best", unit=metric.unit, help="What the links allow with every other flow silent"))
    columns.append(Column(title="Of possible", help="What was reached of what the links and the application allow"))
    columns.append(Column(title="Limited by", help="From the endpoints’ counters", numeric=False))
    body = []
    for _, row in cells.iterrows():
        line = [Cell(text=row["label"], css="name")]
        for metric in metrics:
            mean, interval = (metric.scale * row[column] for column in (metric.column, f"{metric.column}_ci"))
            line.append(Cell(text=mean_ci(mean, interval, metric.digits)))
            if metric.best and metric.better == "lower":
                line.append(Cell(text=number(metric.scale * row[metric.best], metric.digits)))
        share = float(row["of_possible"])
        line.append(Cell(text=share_of_paths(percent(share), row["of_paths"]), meter=min(1.0, share) if math.isfinite(share) else None))
        line.append(Cell(text=str(row["limited_by"]), css="words"))
        body.append(line)
    return Table(columns=columns, rows=body, reasons=reasons(cells) if "why" in cells else ())


def _bars(name: str, cells: pd.DataFrame, kind: Application) -> Figure:
    """The metric that cells are compared by, beside the least there can be."""
    main = kind.main
    least = next((metric.best for metric in kind.metrics if metric.best and metric.better == main.better), "")
    drawn = pd.DataFrame(
        {
            "label": cells["label"],
            "goodput": main.scale * cells[main.column],
            "ci": main.scale * cells[f"{main.column}_ci"],
            "bound": main.scale * cells[least] if least else math.nan,
        }
    )
    title = f"{_TITLES[kind.name]}: {main.head}"
    return goodput_bars(f"{kind.name}-{name}", title, f"{_capital(main.meaning)}.", drawn, axis=f"{main.head}, {main.unit}")


_MOST_NAMED = 6
"""Flows of which a sentence tells."""


def _headline(title: str, cells: pd.DataFrame, names: Sequence[str], kind: Application) -> str:
    """Of each flow from its lowest cell to its highest: flows are not compared with one another."""
    main = kind.main
    cells = cells[cells[main.column].notna()].sort_values(main.column, kind="stable")
    if cells.empty:
        return f"{title}: {main.head} was not measured."
    flows = sorted(set(cells["flow"]))
    several = len(flows) > 1
    sentences = [_from_to(cells[cells["flow"] == flow], names, kind, f"of {flow} " if several else "") for flow in flows[:_MOST_NAMED]]
    more = f"; and {len(flows) - _MOST_NAMED} more flows" if len(flows) > _MOST_NAMED else ""
    return f"{title}: {main.head} {'; '.join(sentences)}{more}."


def _from_to(cells: pd.DataFrame, names: Sequence[str], kind: Application, whose: str) -> str:
    main = kind.main
    low, high = cells.iloc[0], cells.iloc[-1]
    least, most = (number(main.scale * row[main.column], main.digits) for row in (low, high))
    if least == most:
        return f"{whose}{most} {main.unit}"
    return f"{whose}from {least} ({label(dict(low), names, 1)}) to {most} {main.unit} ({label(dict(high), names, 1)})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
