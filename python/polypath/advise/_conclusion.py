"""What the report begins with: the answer, the ranking, the commands; figures are asked of the
results, whenever they are made again.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ._answer import Left, answer
from ._commands import commands, variables
from ._ranking import Rank, Ranking
from ._score import Figures, Ratio
from ._settings import NEEDS, SHOWN, Setting
from ._study import COMPARED, Question
from ._study import experiment as experiment_of
from ._uses import FREE_LOSS, is_lost, lost, use

_COLUMNS = {
    "download": ("goodput_receiver_mbps", "download"),
    "upload": ("goodput_receiver_mbps", "upload"),
    "stream": ("byte_delay_p95_ms", "stream"),
    "web": ("response_p50_ms", "web"),
}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What there is to tell."""

    question: Question
    ranked: Ranking
    shared: Left | None
    beside: Mapping[str, Figures]
    left: Sequence[Left]
    uses: str
    budget: str
    networks: int


def highlights(summary: Summary) -> dict[str, str]:
    """The advice's own figures, large: what it gives, beside Linux by itself, and what holds of it
    where others send, too.
    """
    question, ranked = summary.question, summary.ranked
    best, default = ranked.advice, ranked.default
    figures = {}
    for name in question.weights:
        advised, theirs = (_placeholder(question, rank.setting, name, COMPARED) for rank in (best, default))
        heading = f"{name}, {use(name).figure}, with the advice"
        figures[heading if best is default else f"{heading}; Linux by itself: {theirs} {use(name).unit}"] = f"{advised} {use(name).unit}"
    if best is not default:
        gain = best.of_default
        figures[f"times as good by the score as Linux by itself ({gain.low:.2f} to {gain.high:.2f})"] = f"{gain.mean:.2f}"
    figures["networks within what you said of your paths, on the simulator"] = str(summary.networks)
    return figures


def conclusion(summary: Summary) -> str:
    """In Markdown."""
    question, ranked = summary.question, summary.ranked

    def placeholder(setting: Setting, name: str, experiment: str) -> str:
        return _placeholder(question, setting, name, experiment)

    first, *others = answer(question, ranked, summary.beside, summary.networks, placeholder, summary.shared)
    lines = [sentence for paragraph in (f"**{first}**", *others) for sentence in (paragraph, "")]
    heads = [
        "setting",
        *(f"{name}, {use(name).figure}, {use(name).unit}" for name in question.weights),
        "score, of the best",
        "harm",
        "needs",
    ]
    lines += [_row(heads), _row(["---", *["---:"] * (len(heads) - 2), "---"])]
    for rank in by_use(ranked):
        figures = [
            placeholder(rank.setting, name, COMPARED)
            + (f" ({placeholder(rank.setting, lost(name), COMPARED)} lost)" if rank.figures.get(lost(name), 0.0) > FREE_LOSS else "")
            for name in question.weights
        ]
        name = f"**{rank.setting.name}**" if rank is ranked.advice else rank.setting.name
        remark = "Linux by itself" if rank is ranked.default else NEEDS[rank.setting.needs]
        lines.append(_row([name, *figures, share(rank.of_best), f"{round(100 * rank.harm.worst)} %", remark]))
    lines += ["", f"Score and harm are those of {summary.networks} networks on the simulator. {HARM}"]
    if summary.left:
        lines.append(f"{left_early(summary.left)}.")
    lines += ["", *_commands(question, ranked.advice.setting), f"Asked by `{command(summary)}`."]
    return "\n".join(lines)


HARM = "Harm is what a TCP connection of somebody else on a path loses beside the host, on the worst path."


def by_use(ranked: Ranking) -> list[Rank]:
    """In order, what may be the advice before what is only shown."""
    return sorted(ranked.ranks, key=lambda rank: rank.setting.needs in SHOWN)


def share(ratio: Ratio) -> str:
    return f"{ratio.mean:.2f}" if ratio.low == ratio.high else f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def left_early(left: Sequence[Left]) -> str:
    """What became of the other congestion controls."""
    scores = ", ".join(f"{setting_left.setting.cc} {setting_left.of_advice.mean:.2f} ({setting_left.networks})" for setting_left in left)
    return f"Congestion controls that left the search, each in its best setting, score over the advice’s (networks): {scores}"


ASKED = "# Made by: "
"""Before the command that a study comes from, in its file."""


def command(summary: Summary) -> str:
    """The command that asks the same."""
    paths = [f"--path {shlex.quote(f'{path.name}: {path.text()}')}" for path in summary.question.paths]
    if measured := next((path.measured for path in summary.question.paths if path.measured is not None), None):
        # Words cannot say what was measured.
        paths = [f"--file {shlex.quote(measured.file)}"]
    return " ".join(["polypath advise", *paths, "--for", shlex.quote(summary.uses), "--budget", summary.budget])


def _placeholder(question: Question, setting: Setting, name: str, experiment: str) -> str:
    """A place for the figure of a use."""
    condition = f"setting={setting.name}, experiment={experiment_of(experiment, setting)}"
    if is_lost(name):
        of = name.removesuffix(lost(""))
        several = sum(use(each).datagrams for each in question.weights) > 1
        return f"{{{{ highest datagram_loss where {condition}{f', flow={of}-up' if several else ''} }}}}"
    if not use(name).datagrams:
        column, flow = _COLUMNS[name]
        return f"{{{{ {column} where {condition}, flow={flow} }}}}"
    if sum(use(name).datagrams for name in question.weights) == 1:
        # Of the worse direction, as the score has it.
        return f"{{{{ highest delay_p95_ms where {condition} }}}}"
    return f"{{{{ delay_p95_ms where {condition}, flow={name}-down }}}}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _commands(question: Question, setting: Setting) -> list[str]:
    lines = commands(question, setting)
    if not lines:
        return []
    section = ["The commands, as root, which `host.sh` and `server.sh` beside the study hold:", "", "```sh"]
    section += [f"{name}=...   # {meaning}" for name, meaning in variables(question, setting)]
    for where in ("host", "server"):
        here = [command.line for command in lines if command.where == where]
        section += [f"# on the {where}", *here] if here else []
    return [*section, "```", ""]
