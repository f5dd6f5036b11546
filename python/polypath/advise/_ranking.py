"""The finalists in order, each beside the best, and which of those that tie with it to take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._harm import Harm
from ._score import Figures, Ratio, ratio, score
from ._settings import Needs, Setting

# Of settings that tie with the best, and are no more than this below it, the one that changes least is the advice.
CLOSE = 0.99


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
    stock: Place
    """Of what a stock kernel can do."""

    @property
    def best(self) -> Place:
        return self.places[0]


def ranking(
    settings: Sequence[Setting],
    default: Setting,
    figures: Mapping[str, Sequence[Figures]],
    weights: Mapping[str, float],
    harms: Mapping[str, Harm],
) -> Ranking:
    """From the figures of each setting in the same networks."""
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
    return Ranking(
        places=places,
        default=next(place for place in places if place.setting == default),
        advice=_least_change(places, scores, ("stock", "ours")),
        stock=_least_change(places, scores, ("stock",)),
    )


def _least_change(places: Sequence[Place], scores: Mapping[str, Sequence[float]], kinds: Sequence[Needs]) -> Place:
    able = [place for place in places if place.setting.needs in kinds]
    own = [(place, ratio(scores[place.setting.name], scores[able[0].setting.name])) for place in able]
    close = [place for place, beside in own if beside.mean >= CLOSE and beside.high >= 1]
    return min(close, key=lambda place: place.setting.changes)
