"""The same tests with the same seeds on two kernels: which subtests newly fail, and how long each
took, seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from ._run import Record
from ._table import outcomes
from ._tap import EXIT, Subtest, Verdict

FAILED: tuple[Verdict, ...] = ("fail", "ignored")
"""What did not do what it tests, also where the test ignores that."""


@dataclass
class Pair:
    """A subtest on both kernels."""

    test: str
    subtest: str
    seeds: list[int] = field(default_factory=list)
    """Seeds with which both kernels reached it and skipped it on neither."""
    alone: list[int] = field(default_factory=list)
    """Seeds with which one kernel alone reached it and did not skip it."""
    newly: list[int] = field(default_factory=list)
    """Seeds that pass before and fail after."""
    ignored: list[int] = field(default_factory=list)
    """Those of them whose failure the test itself ignores."""
    mended: list[int] = field(default_factory=list)
    """Seeds that fail before and pass after."""
    both: list[int] = field(default_factory=list)
    """Seeds that fail on both."""
    before_ms: list[float] = field(default_factory=list)
    after_ms: list[float] = field(default_factory=list)
    """Of the seeds that have milliseconds on both, failed ones too, in their order."""

    @property
    def counts(self) -> bool:
        """Whether it newly fails with a seed and the test does not ignore that."""
        return len(self.newly) > len(self.ignored)

    @property
    def p(self) -> float:
        """How often chance alone parts as many seeds so unevenly (McNemar's exact test): 1 where none
        changed.
        """
        low, of = min(len(self.newly), len(self.mended)), len(self.newly) + len(self.mended)
        return min(1.0, 2 * sum(math.comb(of, k) for k in range(low + 1)) / 2**of) if of else 1.0


def pairs(before: Iterable[Record], after: Iterable[Record]) -> list[Pair]:
    """A pair for each subtest that one kernel did not skip, in the order in which they were met. An
    exit status has one if it says what no subtest says.
    """
    was, now = ({(record.test, record.seed): _judged(record) for record in records} for records in (before, after))
    by_name: dict[tuple[str, str], Pair] = {}
    for test, seed in sorted(was.keys() & now.keys(), key=lambda run: run[1]):
        left, right = was[test, seed], now[test, seed]
        for name in {**left, **right}:
            pair = by_name.setdefault((test, name), Pair(test, name))
            _add(pair, seed, left.get(name), right.get(name))
    tests = list(dict.fromkeys(test for test, _ in by_name))
    kept = [pair for pair in by_name.values() if pair.alone or (pair.seeds and (pair.subtest != EXIT or _says(pair, by_name)))]
    return sorted(kept, key=lambda pair: (tests.index(pair.test), pair.subtest == EXIT))


def _add(pair: Pair, seed: int, left: Subtest | None, right: Subtest | None) -> None:
    there = [each for each in (left, right) if each and each.verdict != "skip"]
    if len(there) < 2:
        pair.alone += [seed] * len(there)
        return
    before, after = there
    pair.seeds.append(seed)
    match before.verdict in FAILED, after.verdict in FAILED:
        case False, True:
            pair.newly.append(seed)
            pair.ignored += [seed] * (after.verdict == "ignored")
        case True, False:
            pair.mended.append(seed)
        case True, True:
            pair.both.append(seed)
    if before.ms is not None and after.ms is not None:
        pair.before_ms.append(before.ms)
        pair.after_ms.append(after.ms)


def _judged(record: Record) -> dict[str, Subtest]:
    """The subtests by name. An exit status that only sums them up stands for a pass, so that one
    that says more on the other kernel is a change.
    """
    return {EXIT: Subtest(EXIT, "pass")} | {outcome.name: outcome for outcome in outcomes(record)}


def _says(status: Pair, by_name: dict[tuple[str, str], Pair]) -> bool:
    """Whether an exit status failed, or the test has nothing else."""
    return bool(status.newly or status.mended or status.both) or [test for test, _ in by_name].count(status.test) == 1
