"""What `polypath advise` found, on the terminal: the answer in sentences, then what it rests on, the commands, and what was not tried."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ._console import out

if TYPE_CHECKING:
    from rich.table import Table

    from polypath.advise import Advice, Place


def tell(found: Advice) -> None:
    from polypath.advise import left_early, use

    question = found.question
    for path in question.paths:
        out.print(f"{path.name}: {path.told()}", soft_wrap=True)
    for note in found.notes:
        out.print(f"  {note}", style="dim", soft_wrap=True)
    wanted = ", ".join(f"{name} {100 * weight:.0f} % ({use(name).what})" for name, weight in question.weights.items())
    out.print(f"for: {wanted}\n", soft_wrap=True)
    first, *others = found.answer
    out.print(first, style="bold", soft_wrap=True)
    for sentence in others:
        out.print(sentence, soft_wrap=True)
    out.print()
    _ranking(found)
    tried = f"{found.settings} settings were tried in {found.runs} runs on the simulator"
    out.print(f"{tried}; these were compared in {found.networks} further networks.")
    advised, measure = (
        ", ".join(f"{round(100 * harm)} % on {path.name}" for harm, path in zip(harms, question.paths, strict=True))
        for harms in (found.ranking.advice.harm.by_path, found.yardstick)
    )
    out.print(
        "harm: what a TCP connection of somebody else on a path loses beside the host, on the worst path (simulator, a few networks: "
        f"roughly); beside the advice it loses {advised}, beside one plain TCP connection of the host {measure}",
        soft_wrap=True,
    )
    if found.left:
        out.print(left_early(found.left), soft_wrap=True)
    out.print(found.confirmation.sentence + "\n", soft_wrap=True)
    _commands(found)
    out.print("\nnot tried:")
    for line in found.untried:
        out.print(f"  {line}", soft_wrap=True)


def _commands(found: Advice) -> None:
    from rich.text import Text

    from polypath.advise import NEEDS, commands, variables

    question, ranked = found.question, found.ranking
    for heading, place in (("advice", ranked.advice), ("a stock kernel", ranked.stock)):
        if heading != "advice" and place is ranked.advice:
            continue
        out.print(Text.assemble((f"{heading}: {place.setting.name}", "bold"), f" ({NEEDS[place.setting.needs]})"))
        if not (lines := commands(question, place.setting)):
            out.print("  nothing to set")
            continue
        asked = variables(question, place.setting)
        given = "".join(f"{name}=... " for name, _ in asked)
        if heading == "advice":
            for where in ("host", "server"):
                own = "".join(f"{name}=... " for name, _ in asked) if where == "host" else ""
                if (found.folder / f"{where}.sh").is_file():
                    file: Path = found.folder / f"{where}.sh"
                    out.print(
                        f"  on the {where}, as root: {own}sh {file}   (and to take it back: sh {file} undo)", style="cyan", soft_wrap=True
                    )
        for name, meaning in asked if given else ():
            out.print(f"  {name}=...   # {meaning}", style="dim", soft_wrap=True)
        for where in ("host", "server"):
            own_lines = [each.line for each in lines if each.where == where]
            if own_lines:
                out.print(f"  which is, on the {where}:" if heading == "advice" else f"  on the {where}, as root:")
            for line in own_lines:
                out.print(f"    {line}", style="cyan", markup=False, soft_wrap=True)


def _ranking(found: Advice) -> None:
    from rich.measure import Measurement

    table = _table(found)
    if Measurement.get(out, out.options.update(max_width=1000), table).maximum <= out.width:
        out.print(table)
        return
    # Where a table has no room nothing of it is cut.
    for place, remark in _rows(found):
        out.print(place.setting.name + (f": {remark}" if remark else ""), style="bold" if place is found.ranking.advice else None)
        out.print(f"  {_figures(found, place)}", soft_wrap=True)
        out.print(f"  {_share(place)} of the best, harm {round(100 * place.harm.worst)} %", soft_wrap=True)
    out.print()


_LACKS = {"ours": "needs polypath cc load", "other": "needs another kernel", "tunnel": "needs a tunnel to a host of yours"}


def _rows(found: Advice) -> list[tuple[Place, str]]:
    """Each place with what is to be said of it; what may be the advice stands first."""
    from polypath.advise import by_use

    ranked = found.ranking
    told = []
    for place in by_use(ranked):
        words = [word for word, it in (("the advice", ranked.advice), ("Linux by itself", ranked.default)) if it is place]
        if place is ranked.stock and place is not ranked.advice:
            words.append("best of a stock kernel")
        if place.setting.needs != "stock":
            words.append(_LACKS[place.setting.needs])
        told.append((place, ", ".join(words)))
    return told


def _table(found: Advice) -> Table:
    from rich import box
    from rich.table import Table

    from polypath.advise import use

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("setting", vertical="bottom", no_wrap=True)
    for name in found.question.weights:
        table.add_column(f"{name}\n{use(name).figure.split()[-1]}\n{use(name).unit}", justify="right", vertical="bottom", no_wrap=True)
    table.add_column("score, of\nthe best", justify="right", vertical="bottom", no_wrap=True)
    table.add_column("harm", justify="right", vertical="bottom", no_wrap=True)
    for place, remark in _rows(found):
        figures = [f"{place.figures[each]:.1f}" for each in found.question.weights]
        style = "bold" if place is found.ranking.advice else None
        table.add_row(place.setting.name, *figures, _share(place), f"{round(100 * place.harm.worst)} %", style=style)
        if remark:
            table.add_row(f"  {remark}", style="dim")
    return table


def _figures(found: Advice, place: Place) -> str:
    from polypath.advise import use

    return ", ".join(f"{name} {place.figures[name]:.1f} {use(name).unit}" for name in found.question.weights)


def _share(place: Place) -> str:
    from polypath.advise import share

    return share(place.of_best)
