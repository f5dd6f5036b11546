"""The page's part on outages and handovers: how long each flow stood still and when it was back,
and where they lie in the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from polypath.analysis import summarise
from polypath.plot import Marks

from ._format import count, mean_ci, number, several
from ._material import Material, label
from ._tables import Cell, Column, Table

METRICS = ["outages", "length_s", "before_mbps", "stall_s", "recover_s"]


def table(name: str, names: Sequence[str], material: Material) -> Table | None:
    """A row a cell, flow and link that was down; None where no flow lived through an outage."""
    events = _of(name, material)
    if events.empty:
        return None
    groups = [*names, "flow", "link"]
    per_run = events.groupby([*groups, "key"], sort=False, dropna=False).agg(
        outages=("at_s", "size"),
        length_s=("length_s", "mean"),
        before_mbps=("rate_before_mbps", "mean"),
        stall_s=("stall_s", "mean"),
        longest_s=("stall_s", "max"),
        recover_s=("recover_s", "mean"),
        never=("recover_s", lambda times: int(times.isna().sum())),
    )
    per_run = per_run.reset_index()
    cells = summarise(per_run, groups, METRICS)
    worst = per_run.groupby(groups, sort=False, dropna=False).agg(
        longest_s=("longest_s", "max"), never=("never", "sum"), all=("outages", "sum")
    )
    cells = cells.merge(worst.reset_index(), on=groups, how="left")
    flows = events["flow"].nunique()
    columns = [
        Column(title="Cell", numeric=False),
        Column(title="Link", numeric=False),
        Column(title="Outages", help="Of the link in a run, those that the flow lived through, mean of the runs"),
        Column(title="Length", unit="s", help="Mean length of an outage, s"),
        Column(title="Rate before", unit="Mbit/s", help="What the server read in the two seconds before, Mbit/s"),
        Column(title="Stall", unit="s", help="Longest time without a byte read, up to the link’s next outage; mean and 95 % interval, s"),
        Column(title="Longest", unit="s", help="The longest stall of all runs, s"),
        Column(
            title="Back after",
            unit="s",
            help="From the outage’s beginning until a second in which nine tenths of that rate were read; mean, s",
        ),
        Column(title="Not back", help="Outages after which that was not before the link’s next outage or the end, of all"),
    ]
    body = [
        [
            Cell(text=label(dict(row), names, flows), css="name"),
            Cell(text=str(row["link"]), css="words"),
            Cell(text=number(row["outages"], 1)),
            Cell(text=number(row["length_s"], 2)),
            Cell(text=number(row["before_mbps"])),
            Cell(text=mean_ci(row["stall_s"], row["stall_s_ci"]), css="strong"),
            Cell(text=number(row["longest_s"], 1)),
            Cell(text=mean_ci(row["recover_s"], row["recover_s_ci"]), css="strong"),
            Cell(text=f"{count(row['never'])} of {count(row['all'])}"),
        ]
        for _, row in cells.iterrows()
    ]
    return Table(columns=columns, rows=body, note="Bytes are known every 100 ms, so these times are to 0.1 s.")


def marks(name: str, titles: Mapping[str, str], material: Material) -> Marks | None:
    """Where they lie in the pictures of some runs: `titles` names the picture of each key."""
    events = _of(name, material)
    events = events[events["key"].isin(titles)] if not events.empty else events
    if events.empty:
        return None
    events = events.assign(label=events["key"].map(titles))
    spans = events.rename(columns={"at_s": "start", "until_s": "end"})[["label", "start", "end", "link"]].drop_duplicates()
    back = events[events["recover_s"].notna()]
    back = pd.DataFrame({"label": back["label"], "time_s": back["at_s"] + back["recover_s"]}).drop_duplicates()
    return Marks(spans=spans, back=back, words=f"Grey: outages of {several(list(dict.fromkeys(spans['link'])))}.")


def _of(name: str, material: Material) -> pd.DataFrame:
    """An event a row: an outage of both directions of a link at once is one."""
    events = material.events
    events = events[events["experiment"] == name] if not events.empty else events
    if events.empty:
        return events
    events = events.assign(length_s=events["until_s"] - events["at_s"])
    # The worse direction counts; a flow that is never back by one of them is not back.
    events = events.sort_values("recover_s", na_position="last", kind="stable").drop_duplicates(
        ["key", "link", "at_s", "flow"], keep="last"
    )
    order = {key: index for index, key in enumerate(dict.fromkeys(material.runs["key"]))}
    return events.assign(place=events["key"].map(order)).sort_values(["place", "flow", "link", "at_s"], kind="stable")
