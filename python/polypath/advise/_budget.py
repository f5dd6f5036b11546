"""What a search may cost: a number of runs, or a time on this machine's clock.

A time becomes a number of runs by what the first ones took. That number alone decides the search,
so whoever gives it has the same answer anywhere; the clock stops a search only when the machine has
become slower since.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from polypath.study import Time

from ._errors import AdviceError

ENOUGH = 900
"""Runs of a search that nobody gave a budget for, where `USUAL_S` allows them: more change the
advice seldom.
"""
USUAL_S = 120.0
# What is left of the time is for the study of the finalists, which costs more a run, and its report.
_SHARE = 0.5
_RUNS = re.compile(r"^\s*(\d{1,9})\s*runs?\s*$")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """So many runs."""

    runs: int
    written: str
    """As the person wrote it."""
    runs_per_s: float | None = None
    """Of this machine, where it was measured."""

    def least(self, runs: int) -> str:
        """A budget that allows so many runs, as it is written."""
        if self.runs_per_s is None:
            return f"{runs}runs"
        seconds = math.ceil(runs / self.runs_per_s / _SHARE)
        return f"{seconds}s" if seconds < 120 else f"{math.ceil(seconds / 60)}min"


def seconds_in(text: str | None) -> float | None:
    """The seconds that a search with `--budget TEXT` may take, None where runs are counted.

    Raises `AdviceError` with one sentence.
    """
    if text is None:
        return USUAL_S
    if _RUNS.match(text):
        return None
    try:
        return float(Time(text).seconds)
    except ValueError as error:
        raise AdviceError(f'--budget: {error}, or a number of runs like "500runs"') from None


def budget(text: str | None, runs_per_s: Callable[[], float]) -> Budget:
    """What `--budget TEXT` allows on a machine that simulates so many runs a second.

    Raises `AdviceError` with one sentence.
    """
    seconds = seconds_in(text)
    if text is not None and seconds is None:
        return Budget(runs=int(text.lower().partition("run")[0]), written=text)
    rate = runs_per_s()
    runs = int((seconds or 0) * rate * _SHARE)
    return Budget(runs=runs if text else min(runs, ENOUGH), written=text or "two minutes", runs_per_s=rate)
