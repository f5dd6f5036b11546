"""Rates from counters over time."""

from __future__ import annotations

import pandas as pd


def rates(series: pd.DataFrame, by: list[str], counter: str = "bytes_acked", span_s: float = 0.5) -> pd.DataFrame:
    """A row a group and span: time_s (its end) and mbps, from how far `counter` (bytes) went in it.
    Spans without a sample are left out.
    """
    ends = series.assign(span=((series["time_s"] - 1e-9) // span_s).astype(int))
    last = ends.groupby([*by, "span"], sort=False, dropna=False)[["time_s", counter]].last().reset_index()
    before = last.groupby(by, sort=False, dropna=False)[["time_s", counter]].shift()
    took = last["time_s"] - before["time_s"].fillna(0.0)
    moved = last[counter] - before[counter].fillna(0)
    table = last.assign(mbps=8e-6 * moved / took)
    return table.loc[took > 0, [*by, "time_s", "mbps"]]
