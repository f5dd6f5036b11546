"""Plain TCP on each path alone: what a multipath result must beat to be worth having."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from ._statistics import summarise

METRIC = "goodput_receiver_mbps"


def single_paths(baselines: pd.DataFrame, by: Sequence[str], metric: str = METRIC) -> pd.DataFrame:
    """A row a cell and path: plain TCP's mean goodput there, `<metric>_ci`, and how many runs stand
    behind it.

    `baselines` has the columns of the runs table and baseline_of (the flow), client_address,
    server_address (the path).
    """
    return summarise(baselines, [*by, "baseline_of", "client_address", "server_address"], [metric])


def gains(runs: pd.DataFrame, baselines: pd.DataFrame, by: Sequence[str], metric: str = METRIC) -> pd.DataFrame:
    """A row a cell and flow: `<metric>`, plain TCP's best path `best_single`, all paths added
    `sum_single`, and `gain` over the best.
    """
    cells = summarise(runs, [*by, "flow"], [metric]).drop(columns=f"{metric}_ci")
    if baselines.empty:
        return cells.assign(best_single=float("nan"), sum_single=float("nan"), gain=float("nan"))
    single = single_paths(baselines, by, metric).rename(columns={"baseline_of": "flow"})
    grouped = single.groupby([*by, "flow"], sort=False, dropna=False)[metric]
    merged = cells.merge(grouped.agg(best_single="max", sum_single="sum").reset_index(), on=[*by, "flow"], how="left")
    return merged.assign(gain=merged[metric] / merged["best_single"])
