"""From figures to scores, as docs/concepts/benchmark.md defines them.

A figure is a share of what nothing can better; here are nothing but numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polypath.analysis import half_width

LEAST = 0.01
"""No figure is below; a logarithm knows no zero."""

Figures = Mapping[str, Mapping[int, float]]
"""By family, and in it by draw."""


def figure(reached: float, best: float) -> float:
    """What was reached, of the best; both are better when higher."""
    if not (math.isfinite(reached) and best > 0):
        return LEAST
    return min(max(reached / best, LEAST), 1.0)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A geometric mean times a hundred, and its interval of 95 %."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.1f} ({self.low:.1f} to {self.high:.1f})"


def score(figures: Sequence[float]) -> Score:
    """Of one family."""
    return _bounded(_of_logarithms([math.log(value) for value in figures]))


def overall(figures: Figures, draws: Sequence[int]) -> Score:
    """Of all families: families share their networks, so the spread is that of whole draws."""
    return _bounded(_of_logarithms(_by_draw(figures, draws)))


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Of two overall scores over the same draws, with its interval of 95 %."""

    mean: float
    low: float
    high: float

    @property
    def tells_apart(self) -> bool:
        return not self.low <= 1 <= self.high


def ratio(figures: Figures, other: Figures, draws: Sequence[int]) -> Ratio:
    """Paired, draw by draw."""
    differences = [a - b for a, b in zip(_by_draw(figures, draws), _by_draw(other, draws), strict=True)]
    within = _of_logarithms(differences)
    return Ratio(mean=within.mean / 100, low=within.low / 100, high=within.high / 100)


def _bounded(unbounded: Score) -> Score:
    """No figure is beyond 1, and none below the least."""
    return Score(mean=unbounded.mean, low=max(unbounded.low, 100 * LEAST), high=min(unbounded.high, 100.0))


def _by_draw(figures: Figures, draws: Sequence[int]) -> list[float]:
    return [_mean([math.log(of_family[draw]) for of_family in figures.values()]) for draw in draws]


def _of_logarithms(values: Sequence[float]) -> Score:
    mean, half = _mean(values), half_width(values)
    # One draw has no interval.
    half = math.inf if math.isnan(half) else half
    return Score(mean=100 * math.exp(mean), low=100 * math.exp(mean - half), high=100 * math.exp(mean + half))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
