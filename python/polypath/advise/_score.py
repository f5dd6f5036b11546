"""How good a setting is for several uses at once, and how two settings compare in the same
networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from ._uses import FREE_LOSS, lost, use

Figures = Mapping[str, float]
"""By use, the figure of one run, and what is `lost`."""


def means(every: Sequence[Figures]) -> Figures:
    """Figure by figure."""
    return {name: sum(figures[name] for figures in every) / len(every) for name in every[0]}


def score(figures: Figures, weights: Mapping[str, float]) -> float:
    """Logarithm of the weighted geometric mean of the figures, those inverted that are better when
    lower; what loses more than 1 % of its datagrams has as many times the delay.

    Differences of two scores are what counts: dividing all figures by those of some reference
    changes none of them.
    """
    return sum(
        weight * (math.log(figures[name]) * (1 if use(name).better == "higher" else -1) - math.log(_times(figures.get(lost(name), 0.0))))
        for name, weight in weights.items()
    )


def _times(loss: float) -> float:
    """By how much a loss makes the delay of those that arrived count more: its per cents, above one."""
    return max(loss / FREE_LOSS, 1.0)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """A setting's figure over another's: the geometric mean over networks with its interval, of 95
    % where nothing else is said.
    """

    mean: float
    low: float
    high: float


def ratio(scores: Sequence[float], other: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Of two settings' scores in the same networks, pair by pair, with Student's interval."""
    differences = [a - b for a, b in zip(scores, other, strict=True)]
    count = len(differences)
    mean = sum(differences) / count
    if count < 2:
        return Ratio(mean=math.exp(mean), low=0.0, high=math.inf)
    spread = math.sqrt(sum((difference - mean) ** 2 for difference in differences) / (count - 1))
    half = float(stdtrit(count - 1, (1 + confidence) / 2)) * spread / math.sqrt(count)
    return Ratio(mean=math.exp(mean), low=math.exp(mean - half), high=math.exp(mean + half))
