"""The table printed after a run: each cell's goodput beside what the links allow."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table

from polypath.results import Results

_RECEIVER, _SENDER = "goodput_receiver_mbps", "goodput_sender_mbps"


def summary(results: Results) -> RenderableType:
    """A table for each experiment."""
    runs = _with_bounds(results)
    return Group(*(_table(str(name), rows, results) for name, rows in runs.groupby("experiment", sort=False)))


def _with_bounds(results: Results) -> pd.DataFrame:
    from polypath.analysis import flow_bounds  # scipy takes longer to load than most commands take to run.

    bounds = [flow_bounds(results.scenario(key)).assign(key=key) for key in dict.fromkeys(results.runs["key"])]
    if not bounds:
        return results.runs.assign(share=math.nan)
    runs = results.runs.merge(pd.concat(bounds), on=["key", "flow"], how="left")
    return runs.assign(share=runs[_RECEIVER] / runs["bound_mbps"])


def _table(name: str, rows: pd.DataFrame, results: Results) -> Table:
    from polypath.analysis import summarise

    parameters = [p for p in parameter_columns(results) if rows[p].notna().any()]
    several = [p for p in parameters if rows[p].nunique() > 1] or parameters[:1]
    by = ["engine"] * (rows["engine"].nunique() > 1) + several + ["flow"] * (rows["flow"].nunique() > 1 or not several)
    transfers = bool(rows["completion_s"].notna().any())
    metrics = [_RECEIVER, _SENDER, "share", "retransmissions", "srtt_ms", *["completion_s"] * transfers]
    experiment = results.study.all_experiments.get(name) if results.study is not None else None
    title = experiment.title if experiment is not None and experiment.title else name
    table = Table(title=title, title_justify="left")
    for column in by:
        table.add_column(column)
    for title in ("runs", "receiver Mbit/s", "sender Mbit/s", "of possible", "retransmissions", "srtt ms", *["completion s"] * transfers):
        table.add_column(title, justify="right")
    for _, row in summarise(rows, by, metrics).iterrows():
        table.add_row(
            *(str(row[column]) for column in by),
            str(row["n"]),
            _figure(row, _RECEIVER, 2),
            _figure(row, _SENDER, 2),
            "" if _missing(row["share"]) else f"{100 * row['share']:.1f} %",
            _figure(row, "retransmissions", 0),
            _figure(row, "srtt_ms", 1),
            *([_figure(row, "completion_s", 2)] if transfers else []),
        )
    return table


def parameter_columns(results: Results) -> list[str]:
    """The parameters' columns: those between `seed` and `flow`."""
    columns = list(results.runs.columns)
    return columns[columns.index("seed") + 1 : columns.index("flow")]


def _figure(row: pd.Series[Any], metric: str, digits: int) -> str:
    if _missing(row[metric]):
        return ""
    spread = row[f"{metric}_ci"]
    return f"{row[metric]:.{digits}f}" + ("" if _missing(spread) or not spread else f" ± {spread:.{digits}f}")


def _missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))
