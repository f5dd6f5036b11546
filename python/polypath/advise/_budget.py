"""What a search may cost: a number of runs, or a time on this machine's clock.

A time becomes a number of runs by what the first ones took. That number alone decides the search,
so whoever gives it has the same answer anywhere; the clock stops a search, and shortens the
comparison after it, only when the machine has become slower since.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from polypath.study import Time

from ._errors import AdviceError

ENOUGH = 900
"""Runs of a search without a budget, where `USUAL_S` allows them: more change the
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
    seconds: float | None = None
    """That it may take, None where runs are counted."""
    runs_per_s: float | None = None
    """Of this machine, where it was measured."""

    def least(self, runs: int) -> str:
        """A budget that allows so many runs, as it is written."""
        if self.runs_per_s is None:
            return f"{runs}runs"
        seconds = math.ceil(runs / self.runs_per_s / _SHARE)
        return f"{seconds}s" if seconds < 120 else f"{math.ceil(seconds / 60)}min"

    def left(self, runs: int, spent_s: float) -> int:
        """Runs that are left after so many in so many seconds: fewer than were counted where the
        machine has become much slower meanwhile.
        """
        counted = self.runs - runs
        if self.seconds is None:
            return counted
        return max(min(counted, int((self.seconds - spent_s) * runs / max(spent_s, 1e-9) * _SHARE)), 0)


def budget(text: str | None, runs_per_s: Callable[[], float]) -> Budget:
    """What `--budget TEXT`, or none, allows on a machine that simulates so many runs a second.

    Raises `AdviceError` with one sentence.
    """
    if text is None:
        seconds = USUAL_S
    elif counted := _RUNS.match(text):
        return Budget(runs=int(counted[1]), written=text)
    else:
        try:
            seconds = float(Time(text).seconds)
        except ValueError as error:
            raise AdviceError(f'--budget: {error}, or a number of runs like "500runs"') from None
    rate = runs_per_s()
    runs = int(seconds * rate * _SHARE)
    return Budget(runs=runs if text else min(runs, ENOUGH), written=text or "two minutes", seconds=seconds, runs_per_s=rate)
