"""What to take where somebody else sends over the same paths: the advice is the best without them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ._answer import Left, left
from ._ranking import KEPT, NEAR, Ranking
from ._score import Figures, ratio, score
from ._search import NEIGHBOURS
from ._settings import SHOWN, STOCK_CC, Setting
from ._trials import Trials


def contenders(settings: Sequence[Setting], finalists: Sequence[Setting], trials: Trials, runs: int) -> list[Setting]:
    """Of each congestion control that any kernel has and no finalist the best setting of the search,
    where it comes near the best; as many as so many `runs` beside neighbours allow.
    """
    able = [setting for setting in finalists if setting.needs not in SHOWN]
    near = [each.setting for each in left(settings, finalists, able[0], trials) if each.of_advice.mean >= NEAR]
    return [setting for setting in near if setting.needs == "stock" and setting.cc in STOCK_CC][: max(runs // NEIGHBOURS, 0)]


def shared(
    ranked: Ranking,
    figures: Mapping[str, Sequence[Figures]],
    others: Sequence[Left],
    beside: Mapping[str, Figures],
    weights: Mapping[str, float],
) -> Left | None:
    """What keeps more than the advice beside somebody else's TCP, and comes near it without;
    nothing where the advice itself keeps as much. `others` left the search.
    """
    advice = ranked.advice.setting
    scores = {name: [score(network, weights) for network in networks] for name, networks in figures.items()}
    options = [
        Left(setting=rank.setting, of_advice=ratio(scores[rank.setting.name], scores[advice.name]), networks=len(scores[advice.name]))
        for rank in ranked.ranks
        if rank.setting.needs not in SHOWN
    ]
    kept = {name: score(values, weights) for name, values in beside.items()}
    near = [each for each in (*options, *others) if each.of_advice.mean >= NEAR and each.setting.name in kept]
    most = max((kept[each.setting.name] for each in near), default=-math.inf) + math.log(KEPT)
    if kept.get(advice.name, math.inf) >= most:
        return None
    # Roughly the most, as a few networks tell it: the smaller change.
    return min(
        (each for each in near if kept[each.setting.name] >= most), key=lambda each: (each.setting.changes, -kept[each.setting.name])
    )
