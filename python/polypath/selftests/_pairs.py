"""The same tests with the same seeds on two kernels: which seeds newly fail, and how long each subtest
took, seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ._run import Record
from ._table import outcomes
from ._tap import Verdict

FAILED: tuple[Verdict, ...] = ("fail", "ignored")
"""What did not do what it tests, also where the test ignores that."""


@dataclass
class Pair:
    """A subtest on both kernels, over the seeds with which both reached it and skipped it on neither."""

    test: str
    subtest: str
    seeds: list[int] = field(default_factory=list)
    newly: list[int] = field(default_factory=list)
    """Seeds that pass before and fail after."""
    mended: list[int] = field(default_factory=list)
    """Seeds that fail before and pass after."""
    both: list[int] = field(default_factory=list)
    """Seeds that fail on both."""
    before_ms: list[float] = field(default_factory=list)
    after_ms: list[float] = field(default_factory=list)
    """Of the seeds that pass on both, in their order."""

    @property
    def p(self) -> float:
        """How often chance alone parts as many seeds so unevenly (McNemar's exact test): 1 where none
        changed.
        """
        low, of = min(len(self.newly), len(self.mended)), len(self.newly) + len(self.mended)
        return min(1.0, 2 * sum(math.comb(of, k) for k in range(low + 1)) / 2**of) if of else 1.0


def pairs(before: Iterable[Record], after: Iterable[Record]) -> list[Pair]:
    """A pair for each subtest, in the order in which they were met before."""
    there = _judged(after)
    found: dict[tuple[str, str], Pair] = {}
    for (test, subtest, seed), (verdict, ms) in _judged(before).items():
        if (test, subtest, seed) not in there:
            continue
        now, ms_now = there[test, subtest, seed]
        if "skip" in (verdict, now):
            continue
        pair = found.setdefault((test, subtest), Pair(test, subtest))
        pair.seeds.append(seed)
        match verdict in FAILED, now in FAILED:
            case False, True:
                pair.newly.append(seed)
            case True, False:
                pair.mended.append(seed)
            case True, True:
                pair.both.append(seed)
            case _ if ms is not None and ms_now is not None:
                pair.before_ms.append(ms)
                pair.after_ms.append(ms_now)
    return list(found.values())


def _judged(records: Iterable[Record]) -> dict[tuple[str, str, int], tuple[Verdict, int | None]]:
    return {
        (record.test, outcome.name, record.seed): (outcome.verdict, outcome.ms)
        for record in sorted(records, key=lambda record: record.seed)
        for outcome in outcomes(record)
    }
