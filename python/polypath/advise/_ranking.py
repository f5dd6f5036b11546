"""The finalists in order, each beside the best, and which of those that tie with it to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._harm import Harm
from ._score import Figures, Ratio, means, ratio, score
from ._settings import Needs, Setting

CLOSE = 0.99
"""Of settings that tie with the best, and are no more than this below it, the advice is the one
that

1. keeps the most beside somebody else's TCP,
2. takes the least from it,
3. changes the least.
"""
KEPT = 0.9
"""So much of the most counts as the most: a few networks tell it, and roughly."""
AS_KIND = 0.05
"""Harm that counts as no more than the least."""


NEAR = 0.9
"""So much of the advice's score is worth what a setting keeps beside others."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """One setting of the ranking."""

    setting: Setting
    figures: Mapping[str, float]
    """Means over the networks, by use, and what is `lost`."""
    of_best: Ratio
    of_default: Ratio
    ties: bool
    """Whether the networks do not tell it from the best."""
    harm: Harm


@dataclass(frozen=True, kw_only=True)
class Ranking:
    ranks: tuple[Rank, ...]
    default: Rank
    advice: Rank
    """Of what a stock kernel or polypath cc can do."""
    equals: tuple[Rank, ...]
    """What ties with the best of these, without the advice."""
    stock: Rank
    """Of what a stock kernel can do."""
    tunnel: Rank | None
    """The best of the tunnels."""
    tunnel_of_advice: Ratio | None

    @property
    def best(self) -> Rank:
        return self.ranks[0]


def ranking(
    settings: Sequence[Setting],
    default: Setting,
    figures: Mapping[str, Sequence[Figures]],
    weights: Mapping[str, float],
    harms: Mapping[str, Harm],
    beside: Mapping[str, Figures] | None = None,
) -> Ranking:
    """From the figures of each setting in the same networks; `beside`: beside a TCP connection of
    somebody else on each path.
    """
    scores = {setting.name: [score(network, weights) for network in figures[setting.name]] for setting in settings}
    # Of equals the one that changes less stands first.
    ordered = sorted(settings, key=lambda setting: (-sum(scores[setting.name]), setting.changes))
    best = ordered[0]
    ranks = tuple(
        Rank(
            setting=setting,
            figures=means(figures[setting.name]),
            of_best=(of_best := ratio(scores[setting.name], scores[best.name])),
            of_default=ratio(scores[setting.name], scores[default.name]),
            ties=of_best.high >= 1,
            harm=harms[setting.name],
        )
        for setting in ordered
    )
    left = {name: score(network, weights) for name, network in (beside or {}).items()}
    close = _close(ranks, scores, ("stock", "ours"))
    advice = _kindest(close, left)
    tunnel = next((rank for rank in ranks if rank.setting.tunnel is not None), None)
    return Ranking(
        ranks=ranks,
        default=next(rank for rank in ranks if rank.setting == default),
        advice=advice,
        equals=tuple(rank for rank in close if rank is not advice),
        stock=_kindest(_close(ranks, scores, ("stock",)), left),
        tunnel=tunnel,
        tunnel_of_advice=None if tunnel is None else ratio(scores[tunnel.setting.name], scores[advice.setting.name]),
    )


def _close(ranks: Sequence[Rank], scores: Mapping[str, Sequence[float]], kinds: Sequence[Needs]) -> list[Rank]:
    """The best of these kinds and what ties with it."""
    able = [rank for rank in ranks if rank.setting.needs in kinds]
    ratios = [(rank, ratio(scores[rank.setting.name], scores[able[0].setting.name])) for rank in able]
    return [rank for rank, of_best in ratios if of_best.mean >= CLOSE and of_best.high >= 1]


def _kindest(close: Sequence[Rank], left: Mapping[str, float]) -> Rank:
    most = max((left[rank.setting.name] for rank in close if rank.setting.name in left), default=0.0)
    kept = [rank for rank in close if left.get(rank.setting.name, most) >= most + math.log(KEPT)]
    least = min(rank.harm.worst for rank in kept)
    return min((rank for rank in kept if rank.harm.worst <= least + AS_KIND), key=lambda rank: rank.setting.changes)
