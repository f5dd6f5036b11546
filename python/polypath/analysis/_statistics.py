"""Means with confidence intervals, and fairness. Tables in, tables or numbers out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

CONFIDENCE = 0.95


def jain(values: Sequence[float]) -> float:
    """Jain's index (Jain, Chiu, Hawe 1984): 1 when all are equal, 1/n when one has everything."""
    squares = sum(value * value for value in values)
    return math.nan if not values or squares == 0 else sum(values) ** 2 / (len(values) * squares)


def half_width(values: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Half the width of the confidence interval of the mean, by Student's t; not a number for fewer
    than two values, or an infinite one.
    """
    n = len(values)
    if n < 2 or not all(map(math.isfinite, values)):
        return math.nan
    spread = _stdev(tuple(values))
    # Where nothing varies, the table of Student's t need not be loaded.
    return _student(confidence, n - 1) * spread / math.sqrt(n) if spread else 0.0


@lru_cache(maxsize=1 << 14)
def _stdev(values: tuple[float, ...]) -> float:
    """Summary, tables and figures ask for the same cells; it sums as fractions, exactly."""
    return statistics.stdev(values)


@cache
def _student(confidence: float, freedom: float) -> float:
    """Quantile of Student's t; to find it takes longer than all the rest of an interval."""
    # It takes longer to load than most tables take to make, and not every table has an interval.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def difference_half_width(left: Sequence[float], right: Sequence[float], confidence: float = CONFIDENCE) -> float:
    """Half the width of the interval of mean(left) - mean(right), by Welch's t; 0 if nothing is
    known of a spread.
    """
    if len(left) < 2 or len(right) < 2:
        return 0.0
    a, b = statistics.variance(left) / len(left), statistics.variance(right) / len(right)
    if a + b == 0:
        return 0.0
    freedom = (a + b) ** 2 / (a**2 / (len(left) - 1) + b**2 / (len(right) - 1))
    return _student(confidence, freedom) * math.sqrt(a + b)


def summarise(table: pd.DataFrame, by: Sequence[str], metrics: Sequence[str], confidence: float = CONFIDENCE) -> pd.DataFrame:
    """A row a group in order of first appearance: n, and for each metric its mean under its own
    name and `<metric>_ci` beside it.

    Missing values are left out of the means; a group's `n` counts its rows.
    """
    rows = []
    measured = {metric: table[metric].to_numpy(dtype=float, na_value=math.nan) for metric in metrics if metric in table}
    missing = np.full(len(table), math.nan)
    for key, where in groups(table, by):
        row = dict(zip(by, key, strict=True))
        row["n"] = len(where)
        for metric in metrics:
            samples = measured.get(metric, missing)[where]
            finite = samples[~np.isnan(samples)].tolist()
            row[metric] = sum(finite) / len(finite) if finite else math.nan
            row[f"{metric}_ci"] = half_width(finite, confidence)
        rows.append(row)
    columns = [*by, "n", *(name for metric in metrics for name in (metric, f"{metric}_ci"))]
    return pd.DataFrame(rows, columns=columns)


def groups(table: pd.DataFrame, by: Sequence[str]) -> list[tuple[tuple[Any, ...], npt.NDArray[np.intp]]]:
    """The groups of a table in order of first appearance, missing values alike: what they have in
    common, and the places of their rows.

    As `groupby` and a loop, without a table for each group: a group of a few rows costs what its
    numbers cost.
    """
    if table.empty:
        return []
    # Of a table of many columns groupby copies those that it does not group by.
    columns = list(dict.fromkeys(by))
    numbers = table[columns].groupby(columns, sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(numbers, kind="stable")
    places = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
    first = [where[0] for where in places]
    names = [[math.nan if pd.isna(value) else value for value in table[name].iloc[first]] for name in by]
    return list(zip(zip(*names, strict=True), places, strict=True))
