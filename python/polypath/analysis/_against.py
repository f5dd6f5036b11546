"""One value of a parameter against the others: paired differences over the repetitions that both
have.

Repetitions of one seed have the same start, losses and cross traffic, so what they have in common
falls out of the difference. The intervals are simultaneous: all of an answer hold together with
95 %, by Bonferroni.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import pandas as pd

from ._applications import APPLICATIONS, BY_NAME, Metric, application_of
from ._compare import GOODPUT
from ._distribution import distance
from ._network import Scenario
from ._statistics import CONFIDENCE, groups

REFERENCE = "against"
"""The column with the value that the others are measured by."""
PLACES = ("experiment", "engine", "kernel")
"""Columns that tell runs apart beside the parameters."""


class PairStanding(StrEnum):
    """How a value stands to the one that it is compared with."""

    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    ALIKE = "not told apart"
    EQUAL = "the same"
    UNKNOWN = "not known"


def with_applications(runs: pd.DataFrame, scenarios: Mapping[str, Scenario]) -> pd.DataFrame:
    """The runs with the kind of application of each flow."""
    kinds = {(key, flow["name"]): application_of(flow) for key, scenario in scenarios.items() for flow in scenario["flows"]}
    return runs.assign(application=[kinds.get(of, "") for of in zip(runs["key"], runs["flow"], strict=True)])


def against(
    runs: pd.DataFrame,
    parameter: str,
    value: str,
    *,
    axes: Sequence[str],
    repetitions: Sequence[str] = ("seed",),
    metric: str | None = None,
) -> pd.DataFrame:
    """A row for each flow, each other value of `parameter` and each cell of the other `axes`, in
    the order of the runs; none where no repetition is on both sides.

    `runs` have `application` (see `with_applications`); `metric` is a column of them, by default
    what each application is compared by. `repetitions` are columns that tell the repetitions of a
    cell apart.

    Columns: `parameter`, against (the value), the other axes, flow, application, metric, n (pairs
    that finished on both sides), equal (of these, those with the same figure), unfinished and against_unfinished (of the pairs), mean and
    against_mean over the n, difference (of the means) and ci (half the width of its simultaneous
    95 % interval), relative (difference over against_mean), p (Student's paired test, adjusted like
    the intervals) and standing.
    """
    by = [name for name in (*PLACES, *axes) if name != parameter]
    pairs: list[tuple[dict[str, Any], list[float], list[float]]] = []
    for values, where in groups(runs, [*by, "flow", "application"]):
        cell = runs.iloc[where]
        who = dict(zip([*by, "flow", "application"], values, strict=True))
        column = metric or (BY_NAME[who["application"]].compared_by if who["application"] in BY_NAME else GOODPUT)
        sides = {key[0]: _by_repetition(cell.iloc[there], column, repetitions) for key, there in groups(cell, [parameter])}
        theirs = next((side for key, side in sides.items() if str(key) == value), {})
        for key, ours in sides.items():
            shared = [repetition for repetition in theirs if repetition in ours]
            if str(key) == value or not shared:
                continue
            row = {parameter: key, REFERENCE: value, **who, "metric": column}
            pairs.append((row, [ours[name] for name in shared], [theirs[name] for name in shared]))
    rows = [{**row, **_paired(ours, theirs, row, comparisons=len(pairs))} for row, ours, theirs in pairs]
    return pd.DataFrame(rows, columns=[parameter, REFERENCE, *by, "flow", "application", "metric", *_FIGURES])


_FIGURES = (
    "n",
    "equal",
    "unfinished",
    "against_unfinished",
    "mean",
    "against_mean",
    "difference",
    "ci",
    "relative",
    "p",
    "standing",
)


def metric_of(row: Mapping[str, Any]) -> Metric | None:
    """What is declared of a row's metric."""
    of_application = BY_NAME[row["application"]].metrics if row["application"] in BY_NAME else ()
    every = [*of_application, *(metric for kind in APPLICATIONS for metric in kind.metrics)]
    return next((metric for metric in every if metric.column == row["metric"]), None)


def _by_repetition(rows: pd.DataFrame, column: str, repetitions: Sequence[str]) -> dict[tuple[str, ...], float]:
    """The figure of each repetition. What was never established received nothing; what was never
    complete, and what was not measured, is infinite: no difference.
    """
    values = rows[column].astype(float).fillna(0.0 if column == GOODPUT else math.inf)
    names = zip(*(rows[name].astype(str) for name in repetitions), strict=True)
    return dict(zip(names, values.tolist(), strict=True))


def _paired(ours: list[float], theirs: list[float], row: Mapping[str, Any], *, comparisons: int) -> dict[str, Any]:
    apart = distance(ours, theirs, 1 - (1 - CONFIDENCE) / comparisons)
    # Seeds that change nothing repeat one run: its difference is exact and says nothing of others.
    one = len(set(ours)) == len(set(theirs)) == 1
    return {
        "n": apart.n,
        "equal": sum(mine == other for mine, other in zip(ours, theirs, strict=True) if math.isfinite(mine)),
        "unfinished": sum(map(math.isinf, ours)),
        "against_unfinished": sum(map(math.isinf, theirs)),
        "mean": apart.ours,
        "against_mean": apart.reference,
        "difference": apart.ours - apart.reference,
        "ci": math.nan if one else apart.half_width,
        "relative": apart.difference if apart.n else math.nan,
        "p": math.nan if one or apart.n < 2 else min(1.0, comparisons * apart.p_mean),
        "standing": str(_standing(apart.ours - apart.reference, 0.0 if one else apart.half_width, metric_of(row))),
    }


def _standing(difference: float, half: float, metric: Metric | None) -> PairStanding:
    if math.isnan(difference) or math.isnan(half):
        return PairStanding.UNKNOWN
    if difference == 0 and half == 0:
        return PairStanding.EQUAL
    if abs(difference) <= half:
        return PairStanding.ALIKE
    if metric is None or not metric.better:
        return PairStanding.HIGHER if difference > 0 else PairStanding.LOWER
    return PairStanding.BETTER if (difference > 0) == (metric.better == "higher") else PairStanding.WORSE
