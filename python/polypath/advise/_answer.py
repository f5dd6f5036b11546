"""The answer in sentences, first of all: what to set, what comes of it, and where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ._ranking import Place, Ranking
from ._score import Figures, Ratio, ratio
from ._settings import ALL, Setting
from ._study import BESIDE, COMPARED, Question
from ._trials import Trials
from ._uses import use

Told = Callable[[Setting, str, str], str]
"""The figure of a setting for a use in an experiment, as it is written."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """The best setting of a congestion control that left the search before the comparison."""

    setting: Setting
    of_advice: Ratio
    """Its score over that of the advice in the same networks."""
    networks: int


def answer(question: Question, ranked: Ranking, beside: Mapping[str, Figures], told: Told) -> list[str]:
    """`beside`: figures of each setting beside a TCP connection of somebody else on each path."""
    best, default = ranked.advice, ranked.default
    sentences = [_what(question, best.setting)]
    if best is default:
        sentences.append(f"That is what Linux does by itself: {_figures(question, best.setting, COMPARED, told)}.")
    else:
        own, theirs = (_figures(question, each.setting, COMPARED, told) for each in (best, default))
        sentences.append(f"That gives {own}; Linux by itself gives {theirs}. {_gain(best)}")
    if best.setting.shaped and best.setting.name in beside and default.setting.name in beside:
        own, theirs = (_figures(question, each.setting, BESIDE, told) for each in (best, default))
        sentences.append(
            f"A shaper on the host rules the host's own packets alone: beside a TCP connection of somebody else on each path it is {own} "
            f"(Linux by itself: {theirs}). Where the line is shared, put the shaper on the router."
        )
    if best.setting.paths == ALL and len(question.paths) > 1 and any(not use(name).datagrams for name in question.weights):
        sentences.append(
            "All paths are used only where the other end speaks MPTCP; with an ordinary server a connection stays on "
            f"{question.paths[0].name}. A tunnel to a host of your own takes all paths to any server (polypath tunnel)."
        )
    return sentences


def left(question: Question, settings: Sequence[Setting], ranked: Ranking, trials: Trials) -> list[Left]:
    """Of each congestion control that is not in the ranking what may be the advice and came furthest, the best first."""
    shown = {place.setting.cc for place in ranked.places}
    found: dict[str, Left] = {}
    for each in settings:
        if each.cc in shown or each.needs == "other":
            continue
        networks = trials.networks(each)
        own = ratio(trials.scores(each, networks), trials.scores(ranked.advice.setting, networks))
        before = found.get(each.cc)
        if before is None or (len(networks), own.mean) > (before.networks, before.of_advice.mean):
            found[each.cc] = Left(setting=each, of_advice=own, networks=len(networks))
    return sorted(found.values(), key=lambda each: -each.of_advice.mean)


def _what(question: Question, setting: Setting) -> str:
    several = len(question.paths) > 1
    todo = []
    if several:
        todo.append("take all paths with MPTCP" if setting.paths == ALL else f"take {setting.paths} alone, with plain TCP")
    connections = any(not use(name).datagrams for name in question.weights)
    kept = []
    if setting.cc != "cubic":
        todo.append(f"set the congestion control {setting.cc}")
    elif connections:
        kept.append("the congestion control (cubic)")
    if setting.paths == ALL and several:
        kept.append("the scheduler (default)")
    if setting.shaped:
        where = "each path" if setting.paths == ALL and several else setting.paths
        todo.append(f"put a shaper with fq_codel in front of {where}")
    if setting.buffer is not None:
        todo.append(f"raise the largest buffers to {setting.buffers}")
    elif connections:
        kept.append("the buffers")
    sentence = _listed(todo)
    if kept:
        stay = f"leave {_listed(kept)} as {'they are' if len(kept) > 1 or 'buffers' in kept[0] else 'it is'}"
        sentence = f"{sentence}; {stay}" if sentence else stay
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _figures(question: Question, setting: Setting, experiment: str, told: Told) -> str:
    return ", ".join(f"{name} {told(setting, name, experiment)} {use(name).unit}" for name in question.weights)


def _gain(place: Place) -> str:
    gain = place.of_default
    score = "By the score, the weighted geometric mean of these figures,"
    if gain.low <= 1 <= gain.high:
        return f"{score} the two are not told apart."
    return f"{score} that is {gain.mean:.2f} times as good ({gain.low:.2f} to {gain.high:.2f})."
