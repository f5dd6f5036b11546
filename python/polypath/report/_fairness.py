"""The page's part on fairness: what flows that ran together took of their fair shares, and the harm
they did to one another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from polypath.analysis import summarise
from polypath.plot import Figure, harm_matrix, share_dots

from ._format import mean_ci, number, percent
from ._material import GOODPUT, label
from ._tables import Cell, Column, Table

CONTENDING = ("bulk", "transfer")
"""Applications that take what they get: the share of one that sends at a rate of its own says
nothing about fairness.
"""
HARMS = {"harm_goodput": "goodput", "harm_latency": "round-trip time", "harm_completion": "completion time"}
METRICS = [GOODPUT, "fair_mbps", "of_fair", "over_others", "gain", "jain", *HARMS]
MOST_FLOWS = 40
"""Rows of a figure; more would not be read."""


@dataclass(frozen=True, kw_only=True)
class FairnessView:
    table: Table
    figures: Sequence[Figure]


def view(name: str, rows: pd.DataFrame, names: Sequence[str], *, alone: bool) -> FairnessView | None:
    """Of flows that contend; None where no two ran together. `alone`: whether no others ran beside
    them.

    Flows of one group are one row, and their repetitions are those of the runs.
    """
    together = rows[rows.groupby("key")["flow"].transform("count") > 1]
    if together.empty or "of_fair" not in together:
        return None
    if not alone:
        # They are figures of all flows of a run.
        together = together.assign(jain=float("nan"), over_others=float("nan"))
    # Copies of a flow in one run are no repetitions of it: a run gives one figure a group.
    per_run = together.groupby([*names, "key", "group"], sort=False, dropna=False)[METRICS].mean().reset_index()
    cells = summarise(per_run, [*names, "group"], METRICS)
    counts = together.groupby([*names, "key", "group"], sort=False, dropna=False)["flow"].count()
    sizes = counts.groupby([*names, "group"], sort=False, dropna=False).max().rename("flows").reset_index()
    cells = cells.merge(sizes, on=[*names, "group"], how="left")
    cells["label"] = [label({**dict(row), "flow": _group(row)}, names, 2) for _, row in cells.iterrows()]
    return FairnessView(table=_table(cells), figures=[*_dots(name, cells), *_matrices(name, together)])


def _group(row: pd.Series[Any]) -> str:
    return f"{row['group']} ({row['flows']} flows)" if row["flows"] > 1 else str(row["group"])


def _table(cells: pd.DataFrame) -> Table:
    gained, harms = bool(cells["gain"].notna().any()), [harm for harm in HARMS if bool(cells[harm].notna().any())]
    several, equal = (bool(cells[name].notna().any()) for name in ("over_others", "jain"))
    columns = [
        Column(title="Cell and flow", numeric=False),
        Column(title="Goodput", unit="Mbit/s", help="Mbit/s, mean and 95 % interval over the repetitions"),
        Column(
            title="Fair share",
            unit="Mbit/s",
            help="Max-min fair goodput over the whole network, Mbit/s; a flow counts once, however many subflows it has",
        ),
        Column(title="Of it", help="Goodput over the fair share"),
        *[Column(title="Over the others", help="Goodput over the mean of the other flows of the run")] * several,
        *[Column(title="Gain", help="Goodput over that of plain TCP alone on the best path")] * gained,
        *[Column(title="Jain", help="Jain’s index over the flows that take all they can get at once: 1 is equal")] * equal,
    ]
    columns += [
        Column(title=f"Harm: {HARMS[harm]}", help="Ware et al. 2019: the part of what it has alone that the others took from it")
        for harm in harms
    ]
    body = []
    for _, row in cells.iterrows():
        line = [
            Cell(text=row["label"], css="name"),
            Cell(text=mean_ci(row[GOODPUT], row[f"{GOODPUT}_ci"]), css="strong"),
            Cell(text=number(row["fair_mbps"])),
            Cell(text=_share(row, "of_fair"), meter=min(1.0, row["of_fair"]) if pd.notna(row["of_fair"]) else None),
            *[Cell(text=mean_ci(row["over_others"], row["over_others_ci"]))] * several,
            *[Cell(text=f"{number(row['gain'])} ×" if pd.notna(row["gain"]) else "–")] * gained,
            *[Cell(text=mean_ci(row["jain"], row["jain_ci"]))] * equal,
            *[Cell(text=_share(row, harm)) for harm in harms],
        ]
        body.append(line)
    return Table(columns=columns, rows=body)


def _share(row: pd.Series[Any], metric: str) -> str:
    if pd.isna(row[metric]):
        return "–"
    interval = row[f"{metric}_ci"]
    return percent(row[metric]) + (f" ± {percent(interval)}" if pd.notna(interval) and interval > 0 else "")


def _dots(name: str, cells: pd.DataFrame) -> list[Figure]:
    judged = cells[cells["of_fair"].notna()]
    if judged.empty or len(judged) > MOST_FLOWS:
        return []
    drawn = pd.DataFrame({"label": judged["label"], "share": judged["of_fair"], "ci": judged["of_fair_ci"], "group": judged["group"]})
    caption = "Goodput over the max-min fair share, with the 95 % interval over the repetitions. The line is the fair share."
    return [share_dots(f"fairness-{name}", "Share of the fair share", caption, drawn)]


def _matrices(name: str, together: pd.DataFrame) -> list[Figure]:
    """Who yields to whom: the harm that one congestion control does to another, where both vary."""
    groups = together.groupby("key")["group"].nunique()
    pairs = together[together["key"].isin(groups.index[groups == 2])]
    figures = []
    for group, group_pairs in pairs.groupby("group", sort=False):
        others = pairs[pairs["group"] != group].groupby("key").agg(_other_cc=("flow_cc", "first"), _other=("group", "first"))
        joined = group_pairs.merge(others, left_on="key", right_index=True)
        if joined["flow_cc"].nunique() < 2 or joined["_other_cc"].nunique() < 2:
            continue
        for metric in ("harm_goodput", "harm_latency"):
            measured = joined[joined[metric].notna()]
            if measured.empty:
                continue
            means = measured.groupby(["flow_cc", "_other_cc"], sort=False)[metric].mean().rename("harm").reset_index()
            drawn = means.rename(columns={"flow_cc": "own", "_other_cc": "other"})
            harm, rival = HARMS[metric], measured["_other"].iloc[0]
            title = f"Harm to the {harm} of {group} by {rival}"
            caption = (
                f"The part of its {harm} alone that {group} loses (goodput) or gets on top (time) beside {rival}. Rows: its congestion "
                f"control, columns: that of {rival}. Negative: better off than alone."
            )
            figures.append(harm_matrix(f"{metric.replace('_', '-')}-{name}-{group}", title, caption, drawn, str(group), str(rival)))
    return figures
