"""The finalists in order, each beside the best, and which of those that tie with it to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._harm import Harm
from ._score import Figures, Ratio, ratio, score
from ._settings import Needs, Setting

CLOSE = 0.99
"""Of settings that tie with the best, and are no more than this below it, the advice is the one that

1. keeps the most beside somebody else's TCP,
2. takes the least from it,
3. changes the least."""
KEPT = 0.9
"""So much of the most counts as the most: a few networks tell it, and roughly."""
AS_KIND = 0.05
"""Harm that counts as no more than the least."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One setting of the ranking."""

    setting: Setting
    figures: Mapping[str, float]
    """Means over the networks, by use."""
    of_best: Ratio
    of_default: Ratio
    ties: bool
    """Whether the networks do not tell it from the best."""
    harm: Harm


@dataclass(frozen=True, kw_only=True)
class Ranking:
    places: tuple[Place, ...]
    default: Place
    advice: Place
    """Of what a stock kernel or polypath cc can do."""
    equals: tuple[Place, ...]
    """What ties with the best of these, without the advice."""
    stock: Place
    """Of what a stock kernel can do."""
    tunnel: Place | None
    """The best of the tunnels."""
    tunnel_of_advice: Ratio | None

    @property
    def best(self) -> Place:
        return self.places[0]


def ranking(
    settings: Sequence[Setting],
    default: Setting,
    figures: Mapping[str, Sequence[Figures]],
    weights: Mapping[str, float],
    harms: Mapping[str, Harm],
    beside: Mapping[str, Figures] | None = None,
) -> Ranking:
    """From the figures of each setting in the same networks; `beside`: beside a TCP connection of somebody else on each path."""
    scores = {each.name: [score(own, weights) for own in figures[each.name]] for each in settings}
    # Of equals the one that changes less stands first.
    ordered = sorted(settings, key=lambda each: (-sum(scores[each.name]), each.changes))
    best = ordered[0]
    places = tuple(
        Place(
            setting=each,
            figures={name: sum(own[name] for own in figures[each.name]) / len(figures[each.name]) for name in weights},
            of_best=(of_best := ratio(scores[each.name], scores[best.name])),
            of_default=ratio(scores[each.name], scores[default.name]),
            ties=of_best.high >= 1,
            harm=harms[each.name],
        )
        for each in ordered
    )
    left = {name: score(own, weights) for name, own in (beside or {}).items()}
    close = _close(places, scores, ("stock", "ours"))
    advice = _kindest(close, left)
    tunnel = next((place for place in places if place.setting.tunnel is not None), None)
    return Ranking(
        places=places,
        default=next(place for place in places if place.setting == default),
        advice=advice,
        equals=tuple(place for place in close if place is not advice),
        stock=_kindest(_close(places, scores, ("stock",)), left),
        tunnel=tunnel,
        tunnel_of_advice=None if tunnel is None else ratio(scores[tunnel.setting.name], scores[advice.setting.name]),
    )


def _close(places: Sequence[Place], scores: Mapping[str, Sequence[float]], kinds: Sequence[Needs]) -> list[Place]:
    """The best of these kinds and what ties with it."""
    able = [place for place in places if place.setting.needs in kinds]
    own = [(place, ratio(scores[place.setting.name], scores[able[0].setting.name])) for place in able]
    return [place for place, of_best in own if of_best.mean >= CLOSE and of_best.high >= 1]


def _kindest(close: Sequence[Place], left: Mapping[str, float]) -> Place:
    most = max((left[place.setting.name] for place in close if place.setting.name in left), default=0.0)
    kept = [place for place in close if left.get(place.setting.name, most) >= most + math.log(KEPT)]
    least = min(place.harm.worst for place in kept)
    return min((place for place in kept if place.harm.worst <= least + AS_KIND), key=lambda place: place.setting.changes)
