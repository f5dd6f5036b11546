"""One commit: its runs, seed after seed, until they decide."""

from __future__ import annotations

import concurrent.futures
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ._sequential import Sequential, Verdict

# Whether it failed with a seed.
Trial = Callable[[int], bool]


@dataclass(frozen=True)
class Judged:
    """What became of a commit."""

    # None: its runs decide nothing.
    verdict: Verdict | None
    # By seed, in their order: those that the verdict took.
    failed: dict[int, bool]


def judge(trial: Trial, seeds: Sequence[int], test: Sequential | None, *, workers: int) -> Judged:
    """Runs seeds until the test decides, or all of them where there is no test. The verdict is the
    same for any number of workers.
    """
    failed: list[bool] = []
    with concurrent.futures.ThreadPoolExecutor(max_workers=workers) as pool:
        for first in range(0, len(seeds), workers):
            failed += pool.map(trial, seeds[first : first + workers])
            verdict, count = test.verdict(failed) if test else (None, len(failed))
            if verdict:
                return Judged(verdict, dict(zip(seeds[:count], failed, strict=False)))
    return Judged(None, dict(zip(seeds, failed, strict=True)))


def steps_of(commits: int) -> int:
    """How many steps git takes at most for so many commits behind the good one."""
    return max(1, math.ceil(math.log2(max(1, commits))) + 1)
