"""What the report begins with: the answer, the ranking, the commands; figures are asked of the results, whenever they are made again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._answer import Left, answer
from ._commands import commands, variables
from ._ranking import Place, Ranking
from ._score import Figures, Ratio
from ._settings import NEEDS, SHOWN, Setting
from ._study import COMPARED, Question
from ._study import experiment as experiment_of
from ._uses import use

_COLUMNS = {
    "download": ("goodput_receiver_mbps", "download"),
    "upload": ("goodput_receiver_mbps", "upload"),
    "stream": ("byte_delay_p95_ms", "stream"),
    "web": ("response_p50_ms", "web"),
}


@dataclass(frozen=True, kw_only=True)
class Words:
    """What there is to tell."""

    question: Question
    ranked: Ranking
    beside: Mapping[str, Figures]
    left: Sequence[Left]
    uses: str
    budget: str
    networks: int


def highlights(words: Words) -> dict[str, str]:
    """The advice's own figures, large: what it gives, beside Linux by itself, and what holds of it where others send, too."""
    question, ranked = words.question, words.ranked
    best, default = ranked.advice, ranked.default
    found = {}
    for name in question.weights:
        own, theirs = (_asked(question, each.setting, name, COMPARED) for each in (best, default))
        what = f"{name}, {use(name).figure}, with the advice"
        found[what if best is default else f"{what}; Linux by itself: {theirs} {use(name).unit}"] = f"{own} {use(name).unit}"
    if best is not default:
        gain = best.of_default
        found[f"times as good by the score as Linux by itself ({gain.low:.2f} to {gain.high:.2f})"] = f"{gain.mean:.2f}"
    found["networks within what you said of your paths, on the simulator"] = str(words.networks)
    return found


def conclusion(words: Words) -> str:
    """In Markdown."""
    question, ranked = words.question, words.ranked

    def told(setting: Setting, name: str, experiment: str) -> str:
        return _asked(question, setting, name, experiment)

    first, *others = answer(question, ranked, words.beside, words.networks, told)
    lines = [sentence for each in (f"**{first}**", *others) for sentence in (each, "")]
    heads = [
        "setting",
        *(f"{name}, {use(name).figure}, {use(name).unit}" for name in question.weights),
        "score, of the best",
        "harm",
        "needs",
    ]
    lines += [_row(heads), _row(["---", *["---:"] * (len(heads) - 2), "---"])]
    for place in by_use(ranked):
        figures = [told(place.setting, name, COMPARED) for name in question.weights]
        name = f"**{place.setting.name}**" if place is ranked.advice else place.setting.name
        remark = "Linux by itself" if place is ranked.default else NEEDS[place.setting.needs]
        lines.append(_row([name, *figures, share(place.of_best), f"{round(100 * place.harm.worst)} %", remark]))
    lines += ["", f"Score and harm are those of {words.networks} networks on the simulator. {HARM}"]
    if words.left:
        lines.append(f"{left_early(words.left)}.")
    lines += ["", *_commands(question, ranked.advice.setting), f"Asked by `{command(words)}`."]
    return "\n".join(lines)


HARM = "Harm is what a TCP connection of somebody else on a path loses beside the host, on the worst path."


def by_use(ranked: Ranking) -> list[Place]:
    """In order, what may be the advice before what is only shown."""
    return sorted(ranked.places, key=lambda place: place.setting.needs in SHOWN)


def share(own: Ratio) -> str:
    return f"{own.mean:.2f}" if own.low == own.high else f"{own.mean:.2f} ({own.low:.2f} to {own.high:.2f})"


def left_early(left: Sequence[Left]) -> str:
    """What became of the other congestion controls."""
    told = ", ".join(f"{each.setting.cc} {each.of_advice.mean:.2f} ({each.networks})" for each in left)
    return f"Congestion controls that left the search, each in its best setting, score over the advice’s (networks): {told}"


ASKED = "# Made by: "
"""Before the command that a study comes from, in its file."""


def command(words: Words) -> str:
    """The command that asks the same."""
    paths = [f"--path {shlex.quote(f'{each.name}: {each.told()}')}" for each in words.question.paths]
    budget = [] if words.budget == "2min" else ["--budget", shlex.quote(words.budget)]
    return " ".join(["polypath advise", *paths, "--for", shlex.quote(words.uses), *budget])


def _asked(question: Question, setting: Setting, name: str, experiment: str) -> str:
    """A place for the figure of a use."""
    condition = f"setting={setting.name}, experiment={experiment_of(experiment, setting)}"
    if not use(name).datagrams:
        column, flow = _COLUMNS[name]
        return f"{{{{ {column} where {condition}, flow={flow} }}}}"
    if sum(use(each).datagrams for each in question.weights) == 1:
        # Of the worse direction, as the score has it.
        return f"{{{{ highest delay_p95_ms where {condition} }}}}"
    return f"{{{{ delay_p95_ms where {condition}, flow={name}-down }}}}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _commands(question: Question, setting: Setting) -> list[str]:
    lines = commands(question, setting)
    if not lines:
        return []
    found = ["The commands, as root, which `host.sh` and `server.sh` beside the study hold:", "", "```sh"]
    found += [f"{name}=...   # {meaning}" for name, meaning in variables(question, setting)]
    for where in ("host", "server"):
        own = [each.line for each in lines if each.where == where]
        found += [f"# on the {where}", *own] if own else []
    return [*found, "```", ""]
