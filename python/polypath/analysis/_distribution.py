"""Two engines over the same starts: how far their means lie apart, and whether their distributions
can be told apart at all.

docs/guide/compare.md has the method with its formulas and sources.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ._statistics import CONFIDENCE, half_width

NEAR = 0.05
"""Share of the reference's mean within which another mean is near enough, whatever the tests say."""
LEVEL = 0.05
"""Of each of the two tests: samples of one distribution are told apart this often by each."""
ROUNDING = 1e-9
"""What decimal fractions may lose."""


class Standing(StrEnum):
    NEAR = "within 5 %"
    ALIKE = "not told apart"
    APART = "differs"


@dataclass(frozen=True, kw_only=True)
class Distance:
    """How far a sample lies from the reference's sample of the same starts."""

    n: int
    """Starts that count: those at which both finished."""
    reference: float
    ours: float
    half_width: float
    """Of the interval of the difference of the means, which is paired, start by start; of 95 % unless
    the caller asked for another.
    """
    p_mean: float
    """Of Student's paired test: how often means of one distribution differ as much."""
    p_ks: float
    """Of the two-sample test of Kolmogorov and Smirnov: how often samples of one distribution
    differ as much.
    """

    @property
    def difference(self) -> float:
        """Of the means, relative to the reference's: 0.05 is 5 % more."""
        return _relative(self.ours - self.reference, self.reference)

    @property
    def interval(self) -> float:
        """`half_width`, relative to the reference's mean."""
        return _relative(self.half_width, self.reference)

    @property
    def p(self) -> float:
        """Of both tests together, by Bonferroni."""
        return min(1.0, 2 * min(self.p_mean, self.p_ks))

    @property
    def told_apart(self) -> bool:
        """Whether either test speaks. Of two equal engines this befalls at most 2 x LEVEL of the
        rows.
        """
        return min(self.p_mean, self.p_ks) < LEVEL

    @property
    def standing(self) -> Standing:
        if abs(self.difference) <= NEAR + ROUNDING:
            return Standing.NEAR
        return Standing.APART if self.told_apart else Standing.ALIKE

    @property
    def figures(self) -> dict[str, float | str]:
        """What a table or a program is told of it."""
        tests = {"p_mean": self.p_mean, "p_ks": self.p_ks, "standing": self.standing.value}
        return {"difference": self.difference, "interval": self.interval, **tests}

    def __str__(self) -> str:
        """The verdict in words."""
        if self.standing is Standing.NEAR:
            return self.standing.value
        return f"{self.standing.value}: {100 * self.difference:+.1f} ± {100 * self.interval:.1f} %"


def distance(ours: Sequence[float], reference: Sequence[float], confidence: float = CONFIDENCE) -> Distance:
    """`ours` and `reference` have a value for each start, in the same order; a transfer that never
    finished took infinitely long. `confidence` is that of the interval.

    Means are over the starts at which both finished; the test of distributions ranks the infinite
    values last.
    """
    # It takes half a second to load, and few commands compare distributions.
    from scipy import stats

    if len(ours) != len(reference):
        raise ValueError(f"{len(ours)} values stand beside {len(reference)}; both engines need the same starts")
    pairs = [(a, b) for a, b in zip(ours, reference, strict=True) if math.isfinite(a) and math.isfinite(b)]
    p_ks = float(stats.ks_2samp(ours, reference, method="exact").pvalue) if len(ours) else 1.0
    if not pairs:
        # One of them never finished, or both.
        return Distance(n=0, reference=math.nan, ours=math.nan, half_width=math.nan, p_mean=1.0, p_ks=p_ks)
    differences = [a - b for a, b in pairs]
    return Distance(
        n=len(pairs),
        reference=statistics.fmean(b for _, b in pairs),
        ours=statistics.fmean(a for a, _ in pairs),
        half_width=half_width(differences, confidence),
        p_mean=_paired(differences),
        p_ks=p_ks,
    )


def _paired(differences: Sequence[float]) -> float:
    """Student's test that differences have the mean 0: 1 where there are too few to say, 0 where
    all of them are the same.
    """
    if len(differences) < 2:
        return 1.0
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    mean = statistics.fmean(differences)
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    # It takes longer to load than most tables take to make.
    from scipy.special import stdtr

    return float(2 * stdtr(len(differences) - 1, -abs(mean / error)))


def significant(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Which of the tests speak when at most a share `level` of those that speak may do so by chance
    (Benjamini and Hochberg 1995).
    """
    ordered = sorted(p_values)
    bounds = [p for rank, p in enumerate(ordered, 1) if p <= rank * level / len(ordered)]
    return [p <= max(bounds, default=-1.0) for p in p_values]


def discoveries(p_values: Sequence[float], level: float = LEVEL) -> int:
    """How many of the tests speak so."""
    return sum(significant(p_values, level))


def in_words(distances: Sequence[Distance]) -> str:
    """A sentence on many rows: how they stand, and what of it chance alone would do."""
    if not distances:
        return "no row has enough starts to be judged as a distribution"
    standing = {kind: [row for row in distances if row.standing is kind] for kind in Standing}
    good, of = len(standing[Standing.NEAR]) + len(standing[Standing.ALIKE]), len(distances)
    widths = [row.interval for row in standing[Standing.ALIKE]]
    blunt = f" (their intervals are ± {100 * statistics.median(widths):.0f} % in the median)" if widths else ""
    apart, told = len(standing[Standing.APART]), sum(row.told_apart for row in distances)
    return (
        f"{good} of {of} rows ({100 * good / of:.1f} %) are within 5 % of the reference's mean or not to be told apart: "
        f"{len(standing[Standing.NEAR])} within 5 %, {len(standing[Standing.ALIKE])} not to be told apart{blunt}, "
        f"{apart} {'differs' if apart == 1 else 'differ'}. The two tests tell {told} of {of} rows apart "
        f"(near ones too); of equal engines they would {2 * LEVEL * of:.1f} at most, "
        f"and after Benjamini and Hochberg at {100 * LEVEL:.0f} % {discoveries([row.p for row in distances])} remain."
    )


def _relative(value: float, mean: float) -> float:
    return value / mean if mean else (0.0 if value == 0 else math.copysign(math.inf, value))
