"""`polypath advise`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ._console import err, out

if TYPE_CHECKING:
    from rich.table import Table

    from polypath.advise import Advice
    from polypath.advise import Path as Link


def advise(
    path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help='A path in words: rates down/up, round-trip time, and what else is known, such as "50/10mbit 20ms jitter 5ms loss 0.1%"; '
            'ranges ("30..50mbit", "20ms±20%") say how uncertain a figure is. Once for each path, that of calls first.',
        ),
    ] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with paths, or a study.")] = None,
    from_host: Annotated[bool, typer.Option("--from-host", help="Devices, addresses and round-trip times of this host.")] = False,
    from_capture: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A capture of a transfer over the paths; may be repeated.")
    ] = None,
    uses: Annotated[
        str, typer.Option("--for", metavar="USES", help="What for: download, upload, call, stream, web, with weights: download=2,call=1.")
    ] = "download",
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="How much to search: a time as two cores have it, or a number of runs such as 900runs.")
    ] = "2min",
    out_folder: Annotated[Path, typer.Option("--out", help="Where study, answer, commands and report go.")] = Path("advice"),
    on_linux: Annotated[bool, typer.Option("--linux/--no-linux", help="Confirm the best three on the engine linux.")] = True,
    report: Annotated[bool, typer.Option(help="Write the report with its figures.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Which congestion control, scheduler, queue and buffers suit your paths and what you use them for, and the commands that set them.

    It searches on the simulator, compares the best in networks that the search has not seen, and says what each costs others.
    """
    links, notes = _paths(path or [], file, from_host, from_capture or [])
    from polypath.advise import advise as find_out
    from polypath.advise import as_json as plain

    with _Progress() as shown:
        found = find_out(
            links, uses, folder=out_folder, budget_text=budget, notes=notes, on_linux=on_linux, stage=shown.stage, progress=shown.advance
        )
    page = None
    if report:
        from . import _report

        page = _report.write(found.results, _report.material_of(found.results))
    if as_json:
        import json

        sys.stdout.write(json.dumps(plain(found), indent=1) + "\n")
        return
    _tell(found)
    if page is not None:
        out.print(f"report: {page}", soft_wrap=True)
    out.print(f"again: polypath run {out_folder}", soft_wrap=True)


def _paths(words: list[str], file: str | None, from_host: bool, captures: list[Path]) -> tuple[list[Link], list[str]]:
    from polypath.advise import AdviceError, path_in_words

    given = [name for name, there in (("--file", file), ("--from-capture", captures)) if there]
    given += ["--from-host"] if from_host else ["--path"] if words else []
    if not given:
        raise AdviceError('there is no path to advise on: describe one, like --path "50/10mbit 20ms", or take --from-host')
    if len(given) > 1:
        raise AdviceError(f"{' and '.join(given)} both say what the paths are: take one of them")
    if file is not None:
        from polypath.advise import paths_of_file

        return paths_of_file(file)
    if captures:
        from polypath.advise import paths_in
        from polypath.pcap import analyse

        return paths_in(analyse(captures))
    if from_host:
        from polypath.advise import completed, device_speeds, uplinks
        from polypath.doctor import collect
        from polypath.sockets import Sockets

        facts = collect()
        speeds = device_speeds([device.name for device in facts.devices])
        return completed(uplinks(facts, Sockets().look(), speeds), words)
    return [path_in_words(text, number) for number, text in enumerate(words, start=1)], []


class _Progress:
    """What is going on, on the terminal."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def stage(self, what: str, runs: int) -> None:
        if not err.is_terminal:
            err.print(what + (f": {runs} runs at the most" if runs else ""), soft_wrap=True)
        self._bar.reset(self._task, total=runs or None, description=what)

    def advance(self, runs: int) -> None:
        self._bar.advance(self._task, runs)


def _tell(found: Advice) -> None:
    from polypath.advise import NEEDS, commands, use, variables

    question, ranked = found.question, found.ranking
    for name, path in ((each.name, each) for each in question.paths):
        out.print(f"{name}: {path.told()}", soft_wrap=True)
    for note in found.notes:
        out.print(f"  {note}", style="dim", soft_wrap=True)
    wanted = ", ".join(f"{name} {100 * weight:.0f} % ({use(name).what})" for name, weight in question.weights.items())
    out.print(f"for: {wanted}\n", soft_wrap=True)
    out.print(_table(found))
    out.print(f"{found.settings} settings were tried in {found.runs} runs; these were compared in {found.networks} further networks.")
    measure = ", ".join(f"{round(100 * harm)} % on {path.name}" for harm, path in zip(found.yardstick, question.paths, strict=True))
    out.print(
        f"harm: what a TCP connection on a path loses beside them, at worst; one TCP connection of the host in their place: {measure}"
    )
    out.print(found.confirmation.sentence + "\n", soft_wrap=True)
    for heading, place in (("advice", ranked.advice), ("a stock kernel", ranked.stock)):
        if heading != "advice" and place is ranked.advice:
            continue
        gain = place.of_default
        out.print(f"[bold]{heading}: {place.setting.name}[/bold], {_gain(gain.mean, gain.low, gain.high)} ({NEEDS[place.setting.needs]})")
        if not (lines := commands(question, place.setting)):
            out.print("  nothing to set")
        for name, meaning in variables(question, place.setting):
            out.print(f"  {name}=...   # {meaning}", style="dim", soft_wrap=True)
        for where in ("host", "server"):
            own = [each.line for each in lines if each.where == where]
            if own:
                out.print(f"  on the {where}, as root:")
            for line in own:
                out.print(f"    {line}", style="cyan", markup=False, soft_wrap=True)
    if ranked.best.setting.needs == "other" and not ranked.advice.ties:
        out.print(f"{ranked.best.setting.name} would be better, but asks for {NEEDS['other']}, which no upstream Linux has yet.")
    out.print("\nnot tried:")
    for line in found.untried:
        out.print(f"  {line}", soft_wrap=True)


def _gain(mean: float, low: float, high: float) -> str:
    if low <= 1 <= high:
        return "no different from what Linux does by itself"
    return f"{mean:.2f} times as good as what Linux does by itself ({low:.2f} to {high:.2f})"


def _table(found: Advice) -> Table:
    from rich import box
    from rich.table import Table

    from polypath.advise import use

    ranked = found.ranking
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("paths", "congestion\ncontrol", "scheduler", "queue", "buffers"):
        table.add_column(head, vertical="bottom")
    for name in found.question.weights:
        table.add_column(f"{name}\n{use(name).figure.split()[-1]}\n{use(name).unit}", justify="right", vertical="bottom")
    for head in ("of the best", "harm"):
        table.add_column(head, justify="right", vertical="bottom")
    table.add_column("needs", vertical="bottom")
    table.add_column("", vertical="bottom")
    for place in ranked.places:
        setting, beside = place.setting, place.of_best
        words = [
            word for word, it in (("advice", ranked.advice), ("stock", ranked.stock), ("Linux by itself", ranked.default)) if it is place
        ]
        words += ["ties"] * (place.ties and place is not ranked.best)
        share = "1" if place is ranked.best else f"{beside.mean:.2f} ({beside.low:.2f}..{beside.high:.2f})"
        table.add_row(
            setting.paths,
            setting.cc,
            setting.scheduler if setting.paths == "all" else "",
            setting.queue,
            setting.buffers,
            *(f"{place.figures[name]:.1f}" for name in found.question.weights),
            share,
            f"{round(100 * place.harm.worst)} %",
            {"stock": "stock kernel", "ours": "polypath cc", "other": "other kernel"}[setting.needs],
            ", ".join(words),
            style="bold" if place is ranked.advice else None,
        )
    return table
