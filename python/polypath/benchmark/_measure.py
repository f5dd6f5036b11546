"""Runs an algorithm in the set, and makes a figure of every run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from polypath.analysis import fair_shares, possible
from polypath.results import Results, execute, plan
from polypath.study import Run

from ._score import LEAST, figure
from ._set import UNTOLD_ON_LINUX, Family, Half, Kind, families, half, tenth, write_study

RESULTS = "results"
SUBJECT = "subject"
_PAUSE_S = 0.5
# Where less of what was sent has arrived, its p95 is not known.
_MOST = 0.95
_COLUMNS = (
    "goodput_receiver_mbps",
    "responses",
    "byte_delay_p95_ms",
    "delay_p95_ms",
    "datagram_loss",
)

Row = Mapping[str, Any]


def measure(
    kind: Kind,
    name: str,
    draws: int,
    folder: Path,
    *,
    only: Half | None = None,
    engine: str = "sim",
    workers: int | None = None,
    progress: Callable[[Run], None] | None = None,
) -> dict[str, dict[int, float]]:
    """The figure of each family and draw; with the engine linux of a tenth of the draws, and of
    what a kernel tells.
    """
    wanted = [draw for draw in range(1, draws + 1) if only in (None, half(draw))]
    asked = [*families(kind)]
    if engine != "sim":
        wanted = tenth(wanted)
        asked = [family for family in asked if family.name not in UNTOLD_ON_LINUX]
    study = write_study(kind, name, draws, folder)
    chosen: dict[str, list[str]] = {}
    if len(wanted) < draws:
        chosen["draw"] = [str(draw) for draw in wanted]
    if len(asked) < len(families(kind)):
        chosen["experiment"] = [*dict.fromkeys(family.experiment for family in asked)]
    work = plan(study, engine=engine, out=folder / RESULTS, only=chosen)
    results = execute(work, workers=workers, progress=progress)
    rows = _rows(results, engine)
    figures: dict[str, dict[int, float]] = {family.name: {} for family in asked}
    for run in work.every():
        draw = int(str(run.parameters["draw"]))
        for family in (family for family in asked if family.experiment == run.experiment):
            figures[family.name][draw] = _rounded(_figure(family, rows.get(run.key, {}), run))
    return figures


def _rows(results: Results, engine: str) -> dict[str, dict[str, Row]]:
    """By key, and in it by flow."""
    table = results.table("runs").select(["key", "engine", "flow", *_COLUMNS]).to_pylist()
    rows: dict[str, dict[str, Row]] = {}
    for row in table:
        if row["engine"] == engine:
            rows.setdefault(row["key"], {})[row["flow"]] = row
    return rows


def _figure(family: Family, rows: Mapping[str, Row], run: Run) -> float:
    flow = "call" if family.figure == "call" else SUBJECT
    if flow not in rows:
        return LEAST
    if family.figure == "fair":
        shares = fair_shares(run.scenario).to_dict("records")
        return min(figure(_number(rows.get(share["flow"], {}), "goodput_receiver_mbps"), share["fair_mbps"]) for share in shares)
    best = next(row for row in possible(run.scenario).to_dict("records") if row["flow"] == flow)
    row = rows[flow]
    goodput = figure(_number(row, "goodput_receiver_mbps"), best["possible_mbps"])
    if family.figure == "goodput":
        return goodput
    if family.figure == "response":
        answers = _number(row, "responses")
        begin, end = next(each["window_ns"] for each in run.scenario["flows"] if each["name"] == flow)
        mean_ms = 1e3 * ((end - begin) / 1e9 / answers - _PAUSE_S) if answers > 0 else math.inf
        return _inverted(best["least_response_ms"], mean_ms)
    if family.figure == "call":
        arrived = 1 - _number(row, "datagram_loss")
        return _inverted(best["least_delay_ms"], _number(row, "delay_p95_ms")) if arrived >= _MOST else LEAST
    return _inverted(best["least_delay_ms"], _number(row, "byte_delay_p95_ms")) if goodput >= _MOST else LEAST


def _number(row: Row, column: str) -> float:
    value = row.get(column)
    return math.nan if value is None else float(value)


def _inverted(least: float, value: float) -> float:
    """Of a time, which is better when lower."""
    return figure(1 / value, 1 / least) if value > 0 and least > 0 else LEAST


def _rounded(value: float) -> float:
    # What a file holds is what is scored.
    return float(f"{value:.4g}")
