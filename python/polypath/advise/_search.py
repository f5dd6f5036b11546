"""Successive halving with racing: all settings in a few networks, the better half of them in more,
until few are left (Karnin et al. 2013).

Every setting of a round is run in the same networks, so that what differs between two of them is
the setting. Whose interval parts from the best's leaves at once (Maron and Moore 1994), and what
the search saw of the finalists' spread says in how many further networks they have to be compared.
A model that proposes settings would save nothing here: there are a hundred, without an order among
most, and a run takes less time than fitting the model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._budget import Budget
from ._errors import AdviceError
from ._ranking import CLOSE
from ._score import ratio
from ._settings import SHOWN, Needs, Setting
from ._trials import Trials

FINALISTS = 6
"""At the most so many that the advice may be are left at the end, and the best of each kind of
kernel.
"""
OF_EACH_KIND: Mapping[Needs, int] = {"stock": 2, "ours": 2, "other": 2, "tunnel": 1}
MOST_FIRST = 4
"""Networks of the first round at the most: half of the settings leave after it, and those are far
behind.
"""
MOST_NETWORKS = 16
"""Of the search at the most. Close settings are told apart by the comparison."""
NEIGHBOURS = 3
"""Networks in which the finalists run beside neighbours, and the neighbours alone and beside what
they are measured by.
"""
COMPARED = (4, 6, 8, 12, 16, 24, 32, 48)
"""So many networks may a comparison have."""
FEWEST_COMPARED = 8
"""Where the budget allows it, however clear the search was."""
SURE = 0.99
"""Confidence with which a setting that leaves is worse than the best, beside being in the worse
half.
"""
# Of Student's distribution for a dozen networks.
_QUANTILE = 2.1


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What a search runs: so many of the settings in so many networks, round by round; then the
    finalists in others.
    """

    rounds: tuple[tuple[int, int], ...]
    beside: int
    """What may stay beside the best: the default, and the best of each other kind."""
    final: int
    """Networks of the comparison at the least: others than those of the search, so that none wins
    by luck.
    """

    @property
    def searched(self) -> int:
        """Networks of the search: those from 1 on."""
        return self.rounds[-1][1]

    @property
    def searching(self) -> int:
        """Runs of the search at the most: those that several rounds share are run once."""
        done, total = 0, 0
        for round_number, (settings, networks) in enumerate(self.rounds):
            kept = min(self.rounds[0][0], settings + (self.beside if round_number else 0))
            total += kept * (networks - done)
            done = networks
        return total

    @property
    def runs(self) -> int:
        """All of them at the most."""
        return self.searching + (FINALISTS + self.beside) * (self.final + 2 * NEIGHBOURS)


def schedule(budget: Budget, settings: int, paths: int) -> Schedule:
    """The largest search that the budget allows.

    Raises `AdviceError` where it does not allow the smallest.
    """
    # A tunnel needs two paths.
    beside = 1 + OF_EACH_KIND["ours"] + OF_EACH_KIND["other"] + (OF_EACH_KIND["tunnel"] if paths > 1 else 0)
    least = _schedule(settings, beside, 1, 4)
    if least.runs > budget.runs:
        sentence = f"a budget of {budget.written} allows {budget.runs} runs, and a look at all {settings} settings takes {least.runs}"
        raise AdviceError(f"{sentence}: give at least --budget {budget.least(least.runs)}")
    # Few settings have one round, so it may be a long one.
    most = MOST_FIRST if settings > 2 * FINALISTS else MOST_NETWORKS
    every = [_schedule(settings, beside, networks, COMPARED[0] * min(networks, MOST_FIRST)) for networks in range(1, most + 1)]
    return max((candidate for candidate in every if candidate.runs <= budget.runs), key=lambda candidate: candidate.rounds[0][1])


def _schedule(settings: int, beside: int, first: int, final: int) -> Schedule:
    rounds, networks = [(settings, first)], first
    while rounds[-1][0] > 2 * FINALISTS:
        networks = min(2 * networks, max(MOST_NETWORKS, first))
        rounds.append((max(FINALISTS, -(-rounds[-1][0] // 2)), networks))
    return Schedule(rounds=tuple(rounds), beside=beside, final=final)


def search(trials: Trials, settings: Sequence[Setting], plan: Schedule) -> tuple[list[Setting], range]:
    """The finalists, the best of the search first, the first of `settings` (what Linux does by
    itself) among them; and the networks in which all of these ran, fewer than planned where the
    trials' time was over.
    """
    left, done = list(settings), range(0)
    for count, networks in plan.rounds:
        if done:
            left = _best(trials, left, count, done, settings[0])
        done = trials.run(left, range(1, networks + 1))
        if len(done) < networks:
            break
    return _best(trials, left, FINALISTS, done, settings[0]), done


def compared_in(trials: Trials, finalists: Sequence[Setting], searched: range, least: int, runs: int) -> range:
    """The networks of the comparison: as many as tell the finalists apart, or show that they are
    close, within so many `runs`, and not fewer than `least`.

    The number comes from the search and the networks are others, so the intervals of the comparison
    are not bent by it.
    """
    able = [finalist for finalist in finalists if finalist.needs not in SHOWN]
    first = trials.scores(able[0], searched)
    wanted = max(needed([a - b for a, b in zip(trials.scores(finalist, searched), first, strict=True)]) for finalist in able)
    # Beside neighbours, with the yardsticks; and the neighbours alone.
    fixed = (len(finalists) + len(trials.question.paths) + 1) * NEIGHBOURS
    affordable = [count for count in COMPARED if count * len(finalists) + fixed <= runs] or [least]
    enough = [count for count in affordable if count >= max(wanted, FEWEST_COMPARED)]
    count = enough[0] if enough else affordable[-1]
    return range(searched.stop, searched.stop + count)


def needed(differences: Sequence[float]) -> float:
    """Networks after which the interval of such differences is narrow: half of their mean where
    they are far, and else as wide as a tie.
    """
    count = len(differences)
    mean = sum(differences) / count
    spread = math.sqrt(sum((difference - mean) ** 2 for difference in differences) / max(count - 1, 1))
    return (_QUANTILE * spread / max(-math.log(CLOSE), abs(mean) / 2)) ** 2


def _best(trials: Trials, settings: Sequence[Setting], count: int, networks: range, default: Setting) -> list[Setting]:
    """Of so many the share of each group that does not part from its best, the best of each kind of
    kernel, and the default.
    """
    scores = {setting: trials.scores(setting, networks) for setting in settings}
    # Stable: of equals the first one stays, which changes less.
    ranked = sorted(settings, key=lambda setting: sum(scores[setting]), reverse=True)
    able, others = ([setting for setting in ranked if (setting.needs in SHOWN) is it] for it in (False, True))
    # What is only shown does not push out what may be the advice.
    share = max(-(-count * len(able) // len(ranked)), FINALISTS)
    kept = {default}
    for class_, most in ((able, share), (others, max(count - share, 0))):
        kept |= {setting for setting in class_[:most] if ratio(scores[setting], scores[class_[0]], SURE).high >= 1}
    for kind, most in OF_EACH_KIND.items():
        kept |= set([setting for setting in ranked if setting.needs == kind][:most])
    return [setting for setting in ranked if setting in kept]
