"""The answer in sentences, first of all: what to set, what comes of it, and where it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ._paths import Way
from ._ranking import Rank, Ranking
from ._score import Figures, Ratio, ratio
from ._search import NEIGHBOURS
from ._settings import ALL, SHOWN, TUNNEL_CC, Setting
from ._study import BESIDE, COMPARED, Question
from ._trials import Trials
from ._uses import FREE_LOSS, is_lost, lost, use

Placeholder = Callable[[Setting, str, str], str]
"""The figure of a setting for a use in an experiment, or what is `lost`, as it is written."""


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

    def given(of: Rank | Left, experiment: str) -> str:
        figures = of.figures if isinstance(of, Rank) and experiment == COMPARED else beside.get(of.setting.name, {})
        return _figures(question, of.setting, experiment, placeholder, figures)

    sentences = [_what(question, best.setting)]
    where = f"On the simulator, in {networks} networks such as you said{_measured(question)},"
    if best is default:
        sentences.append(f"That is what Linux does by itself. {where} it gives {given(best, COMPARED)}.")
    else:
        sentences.append(f"{where} that gives {given(best, COMPARED)}; Linux by itself gives {given(default, COMPARED)}. {_gain(best)}")
    if ranked.equals:
        names = _listed([equal.setting.name for equal in ranked.equals])
        sentences.append(
            f"It ties with {names}, within 1 % on the simulator. Ties go to what keeps most beside somebody else's TCP, then to what takes "
            "least from it, then to the smaller change."
        )
    if best.setting.shaped and best.setting.name in beside and default.setting.name in beside:
        sentences.append(
            f"A shaper on the host rules the host's own packets alone: beside a TCP connection of somebody else on each path it is "
            f"{given(best, BESIDE)} (Linux by itself: {given(default, BESIDE)}), the means of {min(NEIGHBOURS, networks)} simulated "
            "networks, so a rough figure. Where the line is shared, put the shaper on the router."
        )
    if shared is not None:
        sentences.append(
            f"Where others use these paths, too, take {shared.setting.name}: beside a TCP connection of somebody else on each path it is "
            f"{given(shared, BESIDE)}, the advice {given(best, BESIDE)}; without them it has "
            f"{shared.of_advice.mean:.2f} of the advice's score "
            f"({_interval(shared.of_advice)})."
        )
    used = [path.name for path in question.paths if best.setting.uses(path)]
    if best.setting.multipath and any(not use(name).datagrams for name in question.weights):
        sentences.append(
            f"{_listed(used)} are used together only where the other end speaks MPTCP; with an ordinary server a connection stays on "
            f"{used[0]}."
        )
    if outages := _outages(question, ranked, placeholder):
        sentences.append(outages)
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


def _outages(question: Question, ranked: Ranking, placeholder: Placeholder) -> str:
    """What they cost with the advice and in the best tunnel."""
    paths = [path for path in question.paths if path.outage.high]
    if not paths:
        return ""
    cut = _listed([f"{path.name} ({path.outages.removeprefix('outage ')})" for path in paths])
    calls = [name for name in question.weights if use(name).datagrams]
    if not calls:
        return f"The outages of {cut} are in these figures."

    def losses(setting: Setting) -> str:
        return _listed([f"{name} loses {placeholder(setting, lost(name), COMPARED)}" for name in calls])

    tunnel = "" if ranked.tunnel is None else f"; in the best tunnel, {ranked.tunnel.setting.name}, {losses(ranked.tunnel.setting)}"
    return f"With the outages of {cut} {losses(ranked.advice.setting)} of its datagrams with the advice{tunnel}."


def _tunnel(rank: Rank, of_advice: Ratio) -> str:
    """MPTCP, or one path, against a tunnel."""
    by = f"{of_advice.mean:.2f} times as good ({_interval(of_advice)})"
    if of_advice.low <= 1 <= of_advice.high:
        by = f"not told from it ({_interval(of_advice)} of its score)"
    sentence = (
        f"A tunnel to a host of your own takes all paths to any server (polypath tunnel): in the best setting of those "
        f"tried, with {' or '.join(TUNNEL_CC)} inside, {rank.setting.name}, it is "
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


def _figures(question: Question, setting: Setting, experiment: str, placeholder: Placeholder, figures: Figures) -> str:
    """What is lost is said where it is more than may be."""

    def loss(name: str) -> str:
        lossy = figures.get(lost(name), 0.0) > FREE_LOSS
        return f" with {placeholder(setting, lost(name), experiment)} lost" if lossy else ""

    return ", ".join(f"{name} {placeholder(setting, name, experiment)} {use(name).unit}{loss(name)}" for name in question.weights)


def _gain(rank: Rank) -> str:
    gain = rank.of_default
    lossy = any(is_lost(name) and value > FREE_LOSS for name, value in rank.figures.items())
    losses = " (a delay counts once for each per cent lost)" if lossy else ""
    score = f"By the score, the weighted geometric mean of these figures{losses},"
    if gain.low <= 1 <= gain.high:
        return f"{score} the two are not told apart ({_interval(gain)} of it)."
    return f"{score} that is {gain.mean:.2f} times as good ({_interval(gain)})."
