"""Rates of few runs, and what lies between them."""

from __future__ import annotations

import math

# The quantile of the normal distribution for 95 %.
_Z = 1.959964


def wilson(successes: int, runs: int) -> tuple[float, float]:
    """The interval that holds a rate with 95 % (Wilson's score interval): good for few runs, and
    for rates of 0 and 1. Both ends 0 to 1.

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22
    (1927).
    """
    if not 0 <= successes <= runs:
        raise ValueError(f"{successes} of {runs} runs is no rate")
    if runs == 0:
        return 0.0, 1.0
    rate, square = successes / runs, _Z * _Z
    middle = (rate + square / (2 * runs)) / (1 + square / runs)
    half = _Z / (1 + square / runs) * math.sqrt(rate * (1 - rate) / runs + square / (4 * runs * runs))
    # At the ends the exact bound is the end itself, and rounding would miss it.
    return 0.0 if successes == 0 else middle - half, 1.0 if successes == runs else middle + half
