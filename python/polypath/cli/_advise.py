"""`polypath advise`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath.terminal import bar

from ._console import err, give, out
from ._work import AsJson

if TYPE_CHECKING:
    from polypath.advise import Path as Link


def advise(
    path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help='A path in words: rates down/up, round-trip time, what else is known: "dsl: 50/10mbit 20ms jitter 5ms loss 0.1%"; '
            'ranges ("30..50mbit", "20ms±20%") say how uncertain a figure is. Once for each path, that of calls first.',
        ),
    ] = None,
    file: Annotated[str | None, typer.Option(metavar="FILE", help="A file with paths, or a study.")] = None,
    from_host: Annotated[bool, typer.Option("--from-host", help="Devices, addresses and round-trip times of this host.")] = False,
    from_capture: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A capture of a transfer over the paths; may be repeated.")
    ] = None,
    uses: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="USES",
            help="What for: download, upload, call (voice), videocall, stream, web, with weights: download=2,call=1.",
        ),
    ] = "download",
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How much to search: a time or a number of runs; unless given, 900runs, or two minutes."),
    ] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="Where study, answer, commands and report go.")] = Path("advice"),
    on_linux: Annotated[bool, typer.Option("--linux/--no-linux", help="Confirm the best three on the engine linux.")] = True,
    report: Annotated[bool, typer.Option(help="Write the report with its figures.")] = True,
    as_json: AsJson = False,
) -> None:
    """Which congestion control, scheduler, queue and buffers suit your paths and what you use them
    for, and the commands that set them.

    It searches on the simulator, compares the best in networks that the search has not seen, and
    says what each costs others.
    """
    links, notes = _paths(path or [], file, from_host, from_capture or [])
    from polypath.advise import advise as find_out
    from polypath.advise import as_json as plain

    with bar(err) as move:

        def stage(title: str, runs: int) -> None:
            if not err.is_terminal:
                err.print(title + (f": {runs} runs at the most" if runs else ""), soft_wrap=True)
            move(description=title, completed=0, total=runs or 1)

        advice = find_out(
            links,
            uses,
            folder=out_folder,
            budget_text=budget,
            notes=notes,
            on_linux=on_linux,
            stage=stage,
            progress=lambda runs: move(advance=runs),
        )
    page = None
    if report:
        from . import _report

        page = _report.write(advice.results, _report.material_of(advice.results))
    if as_json:
        give(plain(advice))
        return
    from . import _advised

    _advised.tell(advice)
    if page is not None:
        out.print(f"report: {page}", soft_wrap=True)
    out.print(f"its runs again: polypath run {out_folder}", soft_wrap=True)


def _paths(words: list[str], file: str | None, from_host: bool, captures: list[Path]) -> tuple[list[Link], list[str]]:
    from polypath.advise import AdviceError, path_in_words

    sources = [name for name, there in (("--file", file), ("--from-capture", captures)) if there]
    sources += ["--from-host"] if from_host else ["--path"] if words else []
    if not sources:
        raise AdviceError('there is no path to advise on: describe one, like --path "50/10mbit 20ms", or take --from-host')
    if len(sources) > 1:
        raise AdviceError(f"{' and '.join(sources)} both say what the paths are: take one of them")
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
