"""Good or bad by few runs: the sequential probability ratio test between the rates of failing that
both ends of a bisect were seen to have.

A. Wald, Sequential Tests of Statistical Hypotheses, Annals of Mathematical Statistics 16 (1945). It
assumes that a commit between the ends fails as often as one of them, and that seeds are independent
draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy import stats

Verdict = Literal["good", "bad"]


def rate(failures: int, runs: int) -> float:
    """How often something fails, by few runs; never 0 or 1, which no number of runs shows.

    R. E. Krichevsky and V. K. Trofimov, The performance of universal encoding, IEEE Transactions on
    Information Theory 27 (1981).
    """
    return (failures + 0.5) / (runs + 1)


def told_apart(good: tuple[int, int], bad: tuple[int, int]) -> float:
    """How probable it is, were both the same, that the bad end fails so much more often: Fisher's
    exact test on (failures, runs).
    """
    table = [[bad[0], bad[1] - bad[0]], [good[0], good[1] - good[0]]]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


@dataclass(frozen=True)
class Sequential:
    """The test with its two rates of failing, and how often it may be wrong about a commit that has
    one of them.
    """

    good: float
    bad: float
    error: float

    def __post_init__(self) -> None:
        if not 0 < self.good < self.bad < 1 or not 0 < self.error < 0.5:
            raise ValueError(f"rates of {self.good} and {self.bad} with an error of {self.error} decide nothing")

    def verdict(self, failed: Sequence[bool]) -> tuple[Verdict | None, int]:
        """What the runs decide, one after another, and how many of them it took; None as long as
        they decide nothing.
        """
        bound = math.log((1 - self.error) / self.error)
        evidence = 0.0
        for count, run_failed in enumerate(failed, 1):
            evidence += math.log(self.bad / self.good) if run_failed else math.log((1 - self.bad) / (1 - self.good))
            if abs(evidence) >= bound:
                return ("bad" if evidence > 0 else "good"), count
        return None, len(failed)
