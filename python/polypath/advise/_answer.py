"""The answer in sentences, first of all: what to set, what comes of it, and where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ._paths import Way
from ._ranking import Rank, Ranking
from ._score import Figures, Ratio, ratio
from ._search import NEIGHBOURS
from ._settings import ALL, SHOWN, Setting
from ._study import BESIDE, COMPARED, Question
from ._trials import Trials
from ._uses import use

Placeholder = Callable[[Setting, str, str], str]
"""The figure of a setting for a use in an experiment, as it is written."""


@dataclass(frozen=True, kw_only=True)
class Left:
    """The best setting of a congestion control that left the search before the comparison."""

    setting: Setting
    of_advice: Ratio
    """Its score over that of the advice in the same networks."""
    networks: int


def answer(
    question: Question,
    ranked: Ranking,
    beside: Mapping[str, Figures],
    networks: int,
    placeholder: Placeholder,
    shared: Left | None = None,
) -> list[str]:
    """`beside`: figures of each setting beside a TCP connection of somebody else on each path;
    `networks`: how many compared them; `shared`: what to take where there are others.
    """
    best, default = ranked.advice, ranked.default
    sentences = [_what(question, best.setting)]
    where = f"On the simulator, in {networks} networks such as you said{_measured(question)},"
    if best is default:
        sentences.append(f"That is what Linux does by itself. {where} it gives {_figures(question, best.setting, COMPARED, placeholder)}.")
    else:
        advised, theirs = (_figures(question, rank.setting, COMPARED, placeholder) for rank in (best, default))
        sentences.append(f"{where} that gives {advised}; Linux by itself gives {theirs}. {_gain(best)}")
    if ranked.equals:
        names = _listed([equal.setting.name for equal in ranked.equals])
        sentences.append(
            f"It ties with {names}, within 1 % on the simulator. Ties go to what keeps most beside somebody else's TCP, then to what takes "
            "least from it, then to the smaller change."
        )
    if best.setting.shaped and best.setting.name in beside and default.setting.name in beside:
        advised, theirs = (_figures(question, rank.setting, BESIDE, placeholder) for rank in (best, default))
        sentences.append(
            f"A shaper on the host rules the host's own packets alone: beside a TCP connection of somebody else on each path it is "
            f"{advised} (Linux by itself: {theirs}), the means of {min(NEIGHBOURS, networks)} simulated networks, "
            "so a rough figure. Where the line is shared, put the shaper on the router."
        )
    if shared is not None:
        kept, advised = (_figures(question, each, BESIDE, placeholder) for each in (shared.setting, best.setting))
        sentences.append(
            f"Where others use these paths, too, take {shared.setting.name}: beside a TCP connection of somebody else on each path it is "
            f"{kept}, the advice {advised}; without them it has {shared.of_advice.mean:.2f} of the advice's score "
            f"({_interval(shared.of_advice)})."
        )
    used = [path.name for path in question.paths if best.setting.uses(path)]
    if best.setting.multipath and any(not use(name).datagrams for name in question.weights):
        sentences.append(
            f"{_listed(used)} are used together only where the other end speaks MPTCP; with an ordinary server a connection stays on "
            f"{used[0]}."
        )
    if ranked.tunnel is not None and ranked.tunnel_of_advice is not None:
        sentences.append(_tunnel(ranked.tunnel, ranked.tunnel_of_advice))
    return sentences


def _measured(question: Question) -> str:
    """Which paths change as they were measured."""
    lines = [
        f"{path.name} {way} with the rates of your table ({min(rates) / 1e6:.3g} to {max(rates) / 1e6:.3g} Mbit/s)"
        for path in question.paths
        if path.measured is not None
        for way in _WAYS
        if (rates := path.measured.rates(way))
    ]
    return f", {' and '.join(lines)} from another moment in each" if lines else ""


_WAYS: tuple[Way, ...] = ("up", "down")


def _tunnel(rank: Rank, of_advice: Ratio) -> str:
    """MPTCP, or one path, against a tunnel."""
    by = f"{of_advice.mean:.2f} times as good ({_interval(of_advice)})"
    if of_advice.low <= 1 <= of_advice.high:
        by = f"not told from it ({_interval(of_advice)} of its score)"
    sentence = (
        f"A tunnel to a host of your own takes all paths to any server (polypath tunnel): in its best setting, {rank.setting.name}, it is "
        f"{by} on the simulator"
    )
    return f"{sentence}, so where you have such a host take the tunnel." if of_advice.low > 1 else f"{sentence}."


def _interval(of: Ratio) -> str:
    return f"95 %: {of.low:.2f} to {of.high:.2f}"


def left(settings: Sequence[Setting], compared: Sequence[Setting], advice: Setting, trials: Trials) -> list[Left]:
    """Of each congestion control that is not in the ranking what may be the advice and came
    furthest, the best first.
    """
    shown = {setting.cc for setting in compared if setting.needs not in SHOWN}
    best_of: dict[str, Left] = {}
    for setting in settings:
        if setting.cc in shown or setting.needs in SHOWN:
            continue
        networks = trials.networks(setting)
        score_ratio = ratio(trials.scores(setting, networks), trials.scores(advice, networks))
        before = best_of.get(setting.cc)
        if before is None or (len(networks), score_ratio.mean) > (before.networks, before.of_advice.mean):
            best_of[setting.cc] = Left(setting=setting, of_advice=score_ratio, networks=len(networks))
    return sorted(best_of.values(), key=lambda setting: -setting.of_advice.mean)


def _what(question: Question, setting: Setting) -> str:
    several = len(question.paths) > 1
    used = [path.name for path in question.paths if setting.uses(path)]
    todo = []
    if setting.multipath:
        which = "all paths" if setting.paths == ALL else f"{_listed(used)}, and not {_listed(_unused(question, setting))},"
        todo.append(f"take {which} with MPTCP")
    elif several:
        todo.append(f"take {setting.paths} alone, with plain TCP")
    connections = any(not use(name).datagrams for name in question.weights)
    kept = []
    if setting.cc != "cubic":
        todo.append(f"set the congestion control {setting.cc}")
    elif connections:
        kept.append("the congestion control (cubic)")
    if setting.multipath:
        kept.append("the scheduler (default)")
    if setting.shaped:
        where = "each path" if setting.paths == ALL and several else _listed(used)
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


def _unused(question: Question, setting: Setting) -> list[str]:
    return [path.name for path in question.paths if not setting.uses(path)]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _figures(question: Question, setting: Setting, experiment: str, placeholder: Placeholder) -> str:
    return ", ".join(f"{name} {placeholder(setting, name, experiment)} {use(name).unit}" for name in question.weights)


def _gain(rank: Rank) -> str:
    gain = rank.of_default
    score = "By the score, the weighted geometric mean of these figures,"
    if gain.low <= 1 <= gain.high:
        return f"{score} the two are not told apart ({_interval(gain)} of it)."
    return f"{score} that is {gain.mean:.2f} times as good ({_interval(gain)})."
