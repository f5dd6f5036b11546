"""The smallest variation that turns a pass into a failure: first how large it must be, then which
of its draws it takes.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import tempfile
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from polypath.engines import ALL, EngineError, Kind, Variation, happened

from ._run import Job, Record, Runner, run_job
from ._table import outcomes

# Sizes that are tried: these parts of the largest one, the smallest first.
PARTS = (256, 64, 16, 4, 1)
# Halvings of the size at the end.
_FINER = 5
NO_RESULT = "(no result)"


@dataclass(frozen=True)
class Found:
    """What a hunt found."""

    # With the variation that makes it fail.
    job: Job
    # The subtest that passes without it.
    subtest: str
    # What it did, draw by draw, where few are left.
    what: tuple[str, ...]
    # How many runs it took.
    runs: int


@dataclass(frozen=True)
class Nothing:
    """Why a hunt found nothing."""

    job: Job
    kind: str
    why: str
    runs: int


def hunt(
    runner: Runner, job: Job, kind: Kind, *, draws: int, workers: int = 1, say: Callable[[str], None] = lambda _: None
) -> Found | Nothing:
    """Looks for a variation of one kind, up to its size, with which a subtest fails that passes
    without; `draws` of them of each size.

    Runs are kept as all others are, so that a hunt goes on where it was interrupted. The answer is
    the same for any number of workers.
    """
    return _Hunt(runner, job, kind, draws, workers, say).search()


class _Hunt:
    def __init__(self, runner: Runner, job: Job, kind: Kind, draws: int, workers: int, say: Callable[[str], None]) -> None:
        self.runner, self.job, self.kind, self.draws, self.workers, self.say = runner, job, kind, draws, workers, say
        self.runs = 0

    def search(self) -> Found | Nothing:
        plain = self._record(self.job)
        passing = {outcome.name for outcome in outcomes(plain) if outcome.verdict == "pass"} if plain else set()
        if not passing:
            return self._nothing("no subtest passes without a variation")
        for part in PARTS:
            size = max(1, self.kind.most_ns // part)
            varied = [self._with(draw, most_ns=size, first=0, last=ALL) for draw in range(1, self.draws + 1)]
            self.say(f"{self.job.test.name} seed {self.job.seed}: {varied[0].vary}, {self.draws} draws")
            with concurrent.futures.ThreadPoolExecutor(max_workers=self.workers) as pool:
                records = list(pool.map(self._record, varied))
            for variation, record in zip(varied, records, strict=True):
                failing = _failing(record, passing)
                if failing:
                    return self._narrow(variation, record, failing)
        sizes = f"{self.draws} draws of each of {len(PARTS)} sizes up to {self.kind}"
        return self._nothing(f"all that passed passes with {sizes}, too")

    def _narrow(self, job: Job, record: Record | None, subtest: str) -> Found:
        """The fewest draws in a row, and the smallest size, that a search by halves finds; each
        answer was seen to fail.
        """
        (kind,) = job.vary.kinds
        # A machine that left no record told no number of draws either.
        if record is not None:
            total = record.draws.get(kind.name, 0)
            last = self._fewest(job, subtest, total, lambda count: replace(kind, last=count))
            last_one = replace(kind, last=last)
            # From behind: how many of the draws before the last one it takes.
            count = self._fewest(job, subtest, last, lambda count: replace(last_one, first=last - count))
            kind = replace(last_one, first=last - count)
        low, high = 0, kind.most_ns
        for _ in range(_FINER):
            middle = (low + high) // 2
            if middle in (low, high):
                break
            low, high = (low, middle) if self._fails(self._of(job, replace(kind, most_ns=middle)), subtest) else (middle, high)
        job = self._of(job, replace(kind, most_ns=high))
        with tempfile.TemporaryDirectory() as name:
            # A machine that dies is what fails.
            with contextlib.suppress(EngineError):
                run_job(job, kernel=self.runner.kernel.file, out=Path(name))
            calls = tuple(happened(Path(name)))
        return Found(job, subtest, calls, self.runs)

    def _fewest(self, job: Job, subtest: str, most: int, change: Callable[[int], Kind]) -> int:
        """A number of draws with which the subtest fails and with one less it does not; with `most`
        it fails, and none at all changes nothing.
        """

        def fails(count: int) -> bool:
            kind = change(count)
            self.say(f"{job.test.name} seed {job.seed}: {kind.name}, {count} of {most} draws")
            return self._fails(self._of(job, kind), subtest)

        return bisect_left(range(most), True, lo=1, key=fails) if most else 0

    def _fails(self, job: Job, subtest: str) -> bool:
        record = self._record(job)
        return subtest == NO_RESULT if record is None else _verdict(record, subtest) in ("fail", "ignored")

    def _record(self, job: Job) -> Record | None:
        self.runs += 1
        try:
            return self.runner.kept(job) or self.runner.run(job)
        except EngineError:
            return None

    def _with(self, draw: int, *, most_ns: int, first: int, last: int) -> Job:
        return replace(self.job, vary=Variation((Kind(self.kind.name, most_ns, first, last),), draw))

    def _of(self, job: Job, kind: Kind) -> Job:
        return replace(job, vary=Variation((kind,), job.vary.draw))

    def _nothing(self, why: str) -> Nothing:
        return Nothing(self.job, self.kind.name, why, self.runs)


def _failing(record: Record | None, passing: set[str]) -> str:
    """The first subtest that passed before and fails now; "" if there is none."""
    if record is None:
        return NO_RESULT
    return next((outcome.name for outcome in outcomes(record) if outcome.name in passing and outcome.verdict in ("fail", "ignored")), "")


def _verdict(record: Record, subtest: str) -> str:
    return next((outcome.verdict for outcome in outcomes(record) if outcome.name == subtest), "")
