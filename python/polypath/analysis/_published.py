"""Published values beside measured ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from ._statistics import summarise


def beside(measured: pd.DataFrame, published: pd.DataFrame, keys: Sequence[str], compare: Mapping[str, str]) -> pd.DataFrame:
    """A row a published value: the keys, `column`, `metric`, `published`, `measured` with `ci` and `n`, and the relative `deviation`.

    `measured` is the table of runs already narrowed to the cells meant; `compare` maps a column of `published` to a metric. A published
    cell that nothing measured keeps its row with `measured` missing.
    """
    metrics = list(dict.fromkeys(compare.values()))
    cells = summarise(measured, keys, metrics)
    rows = []
    for _, line in published.iterrows():
        match = cells
        for key in keys:
            match = match[match[key].astype(str) == str(line[key])]
        for column, metric in compare.items():
            if pd.isna(line[column]):
                continue
            said = float(line[column])
            got = float(match[metric].iloc[0]) if len(match) else math.nan
            rows.append(
                {
                    **{key: line[key] for key in keys},
                    "column": column,
                    "metric": metric,
                    "published": said,
                    "measured": got,
                    "ci": float(match[f"{metric}_ci"].iloc[0]) if len(match) else math.nan,
                    "n": int(match["n"].iloc[0]) if len(match) else 0,
                    "deviation": (got - said) / said if said else math.nan,
                }
            )
    columns = [*keys, "column", "metric", "published", "measured", "ci", "n", "deviation"]
    return pd.DataFrame(rows, columns=columns)
