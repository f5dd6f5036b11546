"""Successive halving: all settings in a few networks, the better half of them in more, until few are left (Karnin et al. 2013).

Every setting of a round is run in the same networks, so that what differs between two of them is the setting. A model that proposes
settings would save nothing here: there are a hundred, without an order among most, and a run takes less time than fitting the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._budget import Budget, written
from ._errors import AdviceError
from ._settings import NEEDS, Setting
from ._study import Question
from ._trials import Trials

FINALISTS = 6
"""At the least so many are left at the end, and of each kind of kernel some."""
OF_EACH_KIND = 2
MOST_NETWORKS = 16
"""More in a round change no answer."""
NEIGHBOURS = 3
"""Networks in which the finalists run beside neighbours, and the neighbours alone and beside what they are measured by."""
# What stays beside the best: the default, and the best of two other kinds of kernel.
_BESIDE = 1 + OF_EACH_KIND * (len(NEEDS) - 1)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What a search runs: so many of the settings in so many networks, round by round; then the finalists in others."""

    rounds: tuple[tuple[int, int], ...]
    final: int

    @property
    def searched(self) -> int:
        """Networks of the search: those from 1 on."""
        return self.rounds[-1][1]

    @property
    def finalists(self) -> range:
        """Networks of the comparison: none of them was seen in the search, so that nobody is there by luck."""
        return range(self.searched + 1, self.searched + self.final + 1)

    @property
    def searching(self) -> int:
        """Runs of the search at the most: those that several rounds share are run once."""
        done, total = 0, 0
        for place, (settings, networks) in enumerate(self.rounds):
            kept = min(self.rounds[0][0], settings + (_BESIDE if place else 0))
            total += kept * (networks - done)
            done = networks
        return total

    @property
    def runs(self) -> int:
        """All of them at the most."""
        return self.searching + (FINALISTS + _BESIDE) * (self.final + 2 * NEIGHBOURS)


def schedule(budget: Budget, settings: int, question: Question) -> Schedule:
    """The largest search that the budget allows.

    Raises `AdviceError` where it does not allow the smallest.
    """
    least = _schedule(settings, 1, 4)
    if least.runs > budget.runs:
        sentence = f"a budget of {budget.written} allows {budget.runs} runs, and a look at all {settings} settings takes {least.runs}"
        raise AdviceError(f"{sentence}: give at least --budget {written(least.runs, question)}")
    every = [_schedule(settings, networks, final) for networks in range(1, MOST_NETWORKS + 1) for final in (4, 6, 8, 12, 16, 24)]
    # As many networks for the comparison as for the first round and more, for the answer's intervals come from it.
    fair = [each for each in every if each.runs <= budget.runs and each.final <= 4 * each.rounds[0][1]]
    return max(fair, key=lambda each: (each.rounds[0][1], each.final))


def _schedule(settings: int, first: int, final: int) -> Schedule:
    rounds, networks = [(settings, first)], first
    while rounds[-1][0] > 2 * FINALISTS:
        networks = min(2 * networks, max(MOST_NETWORKS, first))
        rounds.append((max(FINALISTS, -(-rounds[-1][0] // 2)), networks))
    return Schedule(rounds=tuple(rounds), final=final)


def search(trials: Trials, settings: Sequence[Setting], plan: Schedule) -> list[Setting]:
    """The finalists, the best of the search first, the first of `settings` (what Linux does by itself) among them."""
    left = list(settings)
    for number, (count, networks) in enumerate(plan.rounds):
        if number:
            left = _best(trials, left, count, range(1, plan.rounds[number - 1][1] + 1), settings[0])
        trials.run(left, range(1, networks + 1))
    return _best(trials, left, FINALISTS, range(1, plan.searched + 1), settings[0])


def _best(trials: Trials, settings: Sequence[Setting], count: int, networks: range, default: Setting) -> list[Setting]:
    """The best so many, the best of each kind of kernel, and the default."""

    def mean(setting: Setting) -> float:
        scores = trials.scores(setting, networks)
        return sum(scores) / len(scores)

    # Stable: of equals the first one stays, which changes less.
    ranked = sorted(settings, key=mean, reverse=True)
    kinds = {kind: [each for each in ranked if each.needs == kind][:OF_EACH_KIND] for kind in NEEDS}
    kept = {default, *ranked[:count], *(each for own in kinds.values() for each in own)}
    return [each for each in ranked if each in kept]
