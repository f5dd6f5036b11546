"""The figures of the page, made from the tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from polypath.analysis import gains, groups, hops, matches, rates
from polypath.plot import Figure, goodput_bars, over_time, topology
from polypath.study import NUMBER_OF_DRAW

from . import _events
from ._material import GOODPUT, Material, label, living, published_rows

MOST_PICTURES = 12
"""Cells of one experiment whose series are drawn; more would not be looked at."""
FEW_PACKETS = 5
"""A queue that never holds as many is not drawn."""


def drawing(material: Material) -> Figure:
    """The topology of the first run."""
    key = str(material.runs["key"].iloc[0])
    return topology(material.scenarios[key], name="topology", title=f"Topology of {material.study.name}")


def bars(name: str, rows: pd.DataFrame, table: pd.DataFrame, names: Sequence[str], material: Material) -> Figure:
    """Goodput of each cell (of `cells`) beside the bound, plain TCP and the published value that is
    compared with it.
    """
    baselines = material.baselines[material.baselines["experiment"] == name] if not material.baselines.empty else material.baselines
    single = gains(rows, baselines, names)[[*names, "flow", "best_single"]]
    table = table.merge(single, on=[*names, "flow"], how="left")
    drawn = pd.DataFrame(
        {
            "label": table["label"],
            "goodput": table[GOODPUT],
            "ci": table[f"{GOODPUT}_ci"],
            "bound": table["bound_mbps"],
            "single": table["best_single"],
        }
    )
    said = _published(name, table, names, material)
    if said is not None:
        drawn["published"] = said
    return goodput_bars(f"goodput-{name}", "Goodput of each cell", "Read by the receiving application over the window.", drawn)


def _published(name: str, table: pd.DataFrame, names: Sequence[str], material: Material) -> list[float] | None:
    """The first published column of the receiver's goodput, for the experiment that it is compared
    with.
    """
    said = material.study.published
    if said is None or material.published is None:
        return None
    meant = published_rows(material)
    if name not in set(meant["experiment"].astype(str)):
        return None
    # Like with like: a column that is compared with what the bars show.
    there = [column for column in said.compare if column in material.published]
    column = next((column for column in there if said.compare[column] == GOODPUT), None)
    if column is None:
        return None
    there = material.published[material.published[column].notna()]
    runs = meant[meant["experiment"] == name]
    # Of each run the first published value that is beside it, and of each bar that of its runs.
    first = np.full(len(runs), len(there))
    for place, (_, match) in reversed(list(enumerate(matches(runs, there, said.keys)))):
        first[match] = place
    values = [*there[column].astype(float), math.nan]
    of_bar = {_cell_of(key): values[first[where].min()] for key, where in groups(runs, [*names, "flow"])}
    return [of_bar.get(_cell_of(key), math.nan) for key in zip(*(table[by] for by in (*names, "flow")), strict=True)]


def _cell_of(key: Sequence[Any]) -> tuple[Any, ...]:
    """What the runs of a bar have in common; a missing value is like another."""
    return tuple(None if pd.isna(value) else value for value in key)


def over_time_of(name: str, rows: pd.DataFrame, names: Sequence[str], material: Material) -> list[Figure]:
    """Goodput, congestion window and round-trip time of every subflow over time, from the first
    seed of each cell.
    """
    lines = subflow_lines(rows, names, material)
    if lines is None:
        return []
    series, titles, note = lines
    speed, counted = speeds(series)
    marks = _events.marks(name, titles, material)
    caption = f"{note}." + (f" {marks.words}" if marks else "")
    back = f" {marks.words} Triangles: a flow is back at nine tenths of its rate before." if marks else ""
    cwnd, srtt = f"time-cwnd-{name}", f"time-srtt-{name}"
    # The triangles stand for goodput, and only beside it.
    spans = None if marks is None else marks.without_recovery()
    figures = [
        over_time(
            f"time-goodput-{name}",
            "Goodput of each subflow",
            f"{counted} over half a second. {note}.{back}",
            speed,
            "goodput",
            "Mbit/s",
            scale="shared",
            marks=marks,
        ),
        over_time(cwnd, "Congestion window", caption, series, "cwnd", "packets", marks=spans),
        over_time(srtt, "Smoothed round-trip time", caption, series, "srtt_ms", "ms", marks=spans),
    ]
    waiting = _waiting(material, titles)
    if not waiting.empty:
        title = "Out of order in the receive queue"
        figures.append(over_time(f"time-order-{name}", title, caption, waiting, "out_of_order_kb", "kB", marks=spans))
    queues = _queues(material, titles)
    if not queues.empty:
        figures.append(over_time(f"time-queue-{name}", "Queues on the way", caption, queues, "queue_packets", "packets", marks=spans))
    return figures


def subflow_lines(rows: pd.DataFrame, names: Sequence[str], material: Material) -> tuple[pd.DataFrame, dict[str, str], str] | None:
    """The series of the first seed of each cell, with `label` (the cell) and `line` (the subflow);
    the cells' labels by run; and which seed that is. None without series.
    """
    if material.series.empty:
        return None
    # Seeds of each draw's own have nothing to do with one another.
    among = rows[rows[NUMBER_OF_DRAW] == rows[NUMBER_OF_DRAW].min()] if material.study.has_own_seeds else rows
    first = among[among["seed"] == among["seed"].min()]
    chosen = list(dict.fromkeys(first["key"]))[:MOST_PICTURES]
    series = living(material, material.series, chosen)
    if series.empty:
        return None
    first_rows = {row["key"]: row for _, row in first.iterrows()}
    titles = {key: label(first_rows[key], names, 1) for key in chosen}
    each = ["key", "flow", "subflow"]
    # Of several experiments that have the same run, each has a row of it.
    ends = material.subflows.drop_duplicates(each).merge(series[each].drop_duplicates(), on=each)
    called = _called(ends, material.paths_of(first))
    if series["flow"].nunique() > 1:
        called = ends["flow"] + ": " + called
    lines = dict(zip(ends[each].itertuples(index=False, name=None), called, strict=True))
    order = {key: index for index, key in enumerate(chosen)}
    series = series.assign(
        label=series["key"].map(titles),
        line=[
            lines.get(subflow, f"subflow {subflow[2]}") for subflow in zip(series["key"], series["flow"], series["subflow"], strict=True)
        ],
        place=series["key"].map(order),
    ).sort_values(["place", "flow", "subflow", "time_s"], kind="stable")
    seed = int(first["seed"].min())
    note = f"Seed {seed}" + (
        f"; the first {MOST_PICTURES} cells of {first['key'].nunique()}" if first["key"].nunique() > MOST_PICTURES else ""
    )
    return series, titles, note


def _called(ends: pd.DataFrame, named: Mapping[tuple[str, str], str]) -> pd.Series[str]:
    """The name of each subflow: that of its path; of several on one path, as `fullmesh` opens between
    two hosts, with its addresses; of several between these with its number.
    """
    ways = ends["source"] + " → " + ends["destination"]
    called = pd.Series(
        [named.get(way, f"{way[0]} → {way[1]}") for way in zip(ends["source"], ends["destination"], strict=True)], ends.index
    )
    ends = ends.assign(way=ways, called=called)
    several = ends.groupby(["key", "flow", "called"])["way"].transform("nunique") > 1
    ends["called"] = called.where(~several, called + ", " + ways)
    several = ends.groupby(["key", "flow", "called"])["way"].transform("size") > 1
    return ends["called"].where(~several, ends["called"] + ", subflow " + ends["subflow"].astype(str))


def speeds(series: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The `goodput` of each line, and which bytes it counts."""
    has_bytes = bool(series["bytes_received"].notna().all())
    speed = rates(series, ["label", "line"], "bytes_received" if has_bytes else "bytes_acked").rename(columns={"mbps": "goodput"})
    return speed, "Bytes that arrived, each once and in order or not," if has_bytes else "Acknowledged bytes"


def _waiting(material: Material, titles: Mapping[str, str]) -> pd.DataFrame:
    """What waited at the receiver for what comes before it, where anything ever did."""
    series = living(material, material.progress, titles)
    if series.empty or not (series["out_of_order_bytes"] > 0).any():
        return series.iloc[:0]
    series = series.assign(
        label=series["key"].map(titles),
        line=series["flow"],
        out_of_order_kb=series["out_of_order_bytes"].astype(float) / 1e3,
        place=series["key"].map({key: index for index, key in enumerate(titles)}),
    )
    ever = series.groupby("flow", sort=False)["out_of_order_kb"].transform("max") > 0
    return series[ever].sort_values(["place", "flow", "time_s"], kind="stable")


def _queues(material: Material, titles: Mapping[str, str]) -> pd.DataFrame:
    """The queues that ever held a few packets in these runs, busiest first, at most four."""
    series = living(material, material.link_series, titles)
    if series.empty:
        return series
    ways = {(hop.link, hop.a_to_b): hop.name for key in titles for hop in hops(material.scenarios[key])}
    series = series.assign(
        label=series["key"].map(titles),
        line=[ways.get((link, bool(way)), str(link)) for link, way in zip(series["link"], series["a_to_b"], strict=True)],
        place=series["key"].map({key: index for index, key in enumerate(titles)}),
    )
    busiest = series.groupby("line", sort=False)["queue_packets"].max().sort_values(ascending=False, kind="stable")
    kept = [line for line, most in busiest.items() if most >= FEW_PACKETS][:4]
    return series[series["line"].isin(kept)].sort_values(["place", "time_s"], kind="stable")
