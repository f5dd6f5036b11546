"""What `polypath advise` found, on the terminal: the answer in sentences, then what it rests on,
the commands, and what was not tried.
"""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from polypath.advise import FREE_LOSS, NEEDS, Advice, Rank, by_use, commands, left_early, lost, share, use, variables

from ._console import out


def tell(advice: Advice) -> None:
    question = advice.question
    for path in question.paths:
        out.print(f"{path.name}: {path.text()}", soft_wrap=True)
    for note in advice.notes:
        out.print(f"  {note}", style="dim", soft_wrap=True)
    wanted = ", ".join(f"{name} {100 * weight:.0f} % ({use(name).what})" for name, weight in question.weights.items())
    out.print(f"for: {wanted}\n", soft_wrap=True)
    first, *others = advice.answer
    out.print(first, style="bold", soft_wrap=True)
    for sentence in others:
        out.print(sentence, soft_wrap=True)
    out.print()
    _ranking(advice)
    tried = f"{advice.settings} settings were tried in {advice.runs} runs on the simulator"
    out.print(f"{tried}; these were compared in {advice.networks} further networks.")
    advised, measure = (
        ", ".join(f"{round(100 * harm)} % on {path.name}" for harm, path in zip(harms, question.paths, strict=True))
        for harms in (advice.ranking.advice.harm.by_path, advice.yardstick)
    )
    out.print(
        "harm: what a TCP connection of somebody else on a path loses beside the host, on the worst path (simulator, a few networks: "
        f"roughly); beside the advice it loses {advised}, beside one plain TCP connection of the host {measure}",
        soft_wrap=True,
    )
    if advice.left:
        out.print(left_early(advice.left), soft_wrap=True)
    out.print(advice.confirmation.sentence + "\n", soft_wrap=True)
    _commands(advice)
    out.print("\nnot tried:")
    for line in advice.untried:
        out.print(f"  {line}", soft_wrap=True)


_FOR = {"advice": "advice", "shared": "where others use these paths, too", "stock": "a stock kernel"}


def _commands(advice: Advice) -> None:
    question = advice.question
    for name, setting in advice.advised.items():
        heading = _FOR[name]
        if name != "advice" and setting == advice.ranking.advice.setting:
            continue
        out.print(Text.assemble((f"{heading}: {setting.name}", "bold"), f" ({NEEDS[setting.needs]})"))
        if not (lines := commands(question, setting)):
            out.print("  nothing to set")
            continue
        asked = variables(question, setting)
        assignments = "".join(f"{name}=... " for name, _ in asked)
        if heading == "advice":
            for where in ("host", "server"):
                here = "".join(f"{name}=... " for name, _ in asked) if where == "host" else ""
                if (advice.folder / f"{where}.sh").is_file():
                    file: Path = advice.folder / f"{where}.sh"
                    out.print(
                        f"  on the {where}, as root: {here}sh {file}   (and to take it back: sh {file} undo)", style="cyan", soft_wrap=True
                    )
        for name, meaning in asked if assignments else ():
            out.print(f"  {name}=...   # {meaning}", style="dim", soft_wrap=True)
        for where in ("host", "server"):
            own_lines = [command.line for command in lines if command.where == where]
            if own_lines:
                out.print(f"  which is, on the {where}:" if heading == "advice" else f"  on the {where}, as root:")
            for line in own_lines:
                out.print(f"    {line}", style="cyan", markup=False, soft_wrap=True)


def _ranking(advice: Advice) -> None:
    table = _table(advice)
    if Measurement.get(out, out.options.update(max_width=1000), table).maximum <= out.width:
        out.print(table)
        return
    # Where a table has no room nothing of it is cut.
    for rank, remark in _rows(advice):
        out.print(rank.setting.name + (f": {remark}" if remark else ""), style="bold" if rank is advice.ranking.advice else None)
        out.print(f"  {_figures(advice, rank)}", soft_wrap=True)
        out.print(f"  {_share(rank)} of the best, harm {round(100 * rank.harm.worst)} %", soft_wrap=True)
    out.print()


_LACKS = {"ours": "needs polypath cc load", "other": "needs another kernel", "tunnel": "needs a tunnel to a host of yours"}


def _rows(advice: Advice) -> list[tuple[Rank, str]]:
    """Each place with what is to be said of it; what may be the advice stands first."""
    ranked = advice.ranking
    rows = []
    for rank in by_use(ranked):
        words = [word for word, it in (("the advice", ranked.advice), ("Linux by itself", ranked.default)) if it is rank]
        if rank is ranked.stock and rank is not ranked.advice:
            words.append("best of a stock kernel")
        if rank.setting.needs != "stock":
            words.append(_LACKS[rank.setting.needs])
        rows.append((rank, ", ".join(words)))
    return rows


def _table(advice: Advice) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("setting", vertical="bottom", no_wrap=True)
    for name in advice.question.weights:
        table.add_column(f"{name}\n{use(name).figure.split()[-1]}\n{use(name).unit}", justify="right", vertical="bottom", no_wrap=True)
        if name in _lossy(advice):
            table.add_column("\nlost\n%", justify="right", vertical="bottom", no_wrap=True)
    table.add_column("score, of\nthe best", justify="right", vertical="bottom", no_wrap=True)
    table.add_column("harm", justify="right", vertical="bottom", no_wrap=True)
    for rank, remark in _rows(advice):
        figures = []
        for name in advice.question.weights:
            figures += [f"{rank.figures[name]:.1f}", *([f"{100 * rank.figures[lost(name)]:.1f}"] if name in _lossy(advice) else [])]
        style = "bold" if rank is advice.ranking.advice else None
        table.add_row(rank.setting.name, *figures, _share(rank), f"{round(100 * rank.harm.worst)} %", style=style)
        if remark:
            table.add_row(f"  {remark}", style="dim")
    return table


def _figures(advice: Advice, rank: Rank) -> str:
    lossy = _lossy(advice)
    losses = {name: f" ({100 * rank.figures[lost(name)]:.1f} % lost)" if name in lossy else "" for name in advice.question.weights}
    return ", ".join(f"{name} {rank.figures[name]:.1f} {use(name).unit}{losses[name]}" for name in advice.question.weights)


def _lossy(advice: Advice) -> list[str]:
    """Uses of which some setting loses so much that it counts."""
    return [name for name in advice.question.weights if any(rank.figures.get(lost(name), 0.0) > FREE_LOSS for rank in advice.ranking.ranks)]


def _share(rank: Rank) -> str:
    return share(rank.of_best)
