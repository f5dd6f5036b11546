"""`polypath validate`: the command."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polypath.validate._judge import Verdict
from polypath.validate._run import Selection, run
from polypath.validate._show import show, to_json
from polypath.validate._table import Cell, TableError


def _names(values: list[str] | None) -> tuple[str, ...]:
    """Options may be repeated or hold several names with commas between."""
    return tuple(name for value in values or [] for name in value.split(",") if name)


def validate(
    table: Annotated[Path, typer.Argument(help="A summary.csv of measured Linux runs.", metavar="SUMMARY.csv")],
    group: Annotated[list[str] | None, typer.Option(help="Only these groups: a, b, c, d, e, f; nitk, n, s, done.")] = None,
    cc: Annotated[list[str] | None, typer.Option(help="Only these congestion-control algorithms.")] = None,
    id: Annotated[list[str] | None, typer.Option("--id", help="Only runs with this name, or pattern: 'd_delay*_reno'.")] = None,
    platform: Annotated[str | None, typer.Option(help="Rows of this platform; default: uml, Linux in virtual time.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    detail: Annotated[
        bool, typer.Option("--detail", help="Under each run its subflows: rate, retransmissions, window, Linux's / ours.")
    ] = False,
    differs: Annotated[bool, typer.Option("--differs", help="Show only what does not agree; the counts are still of all.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Write a picture a run into this folder: window and RTT over time, Linux's and ours; areas in areas.csv."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once; default: one a core.")] = None,
) -> None:
    """Compare the simulator with measurements of real Linux kernels.

    Simulates the set-up behind every run of SUMMARY.csv and prints Linux's goodput beside ours. They agree when the means over the same
    repeats differ by at most 10 %, or by no more than one of Linux's repeats from Linux's own mean.
    """
    console, errors = Console(), Console(stderr=True)
    selection = Selection(groups=_names(group), algorithms=_names(cc), ids=_names(id))
    try:
        verdicts = _with_progress(table, selection, platform, workers, errors)
    except TableError as error:
        errors.print(f"polypath: {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None
    if not verdicts:
        errors.print(f"polypath: {table} has no runs that match the options given.", highlight=False, soft_wrap=True)
        raise typer.Exit(2)
    if figure:
        from polypath.validate._figure import draw  # The drawing library takes longer to load than most commands take to run.

        for file in draw(verdicts, table, figure, errors):
            errors.print(f"wrote {file}", highlight=False, soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(to_json(verdicts), indent=1) + "\n")
    else:
        show(verdicts, console if console.is_terminal else Console(width=200), detail=detail, only_differing=differs)
    if unknown := [verdict.cell for verdict in verdicts if verdict.cell.why]:
        errors.print(f"polypath: {_unknown(table, unknown, len(verdicts))}", highlight=False, soft_wrap=True)
        raise typer.Exit(2)


def _unknown(table: Path, cells: list[Cell], of: int) -> str:
    names = list(dict.fromkeys(cell.id for cell in cells))
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    what = "names tell the set-up, as v0_nitk_lia_r1 does, and other measurements are compared by a study's `published`"
    return f"{table}: {len(cells)} of {of} rows are not judged, since no set-up is known for {listed}: {what}."


def _with_progress(table: Path, selection: Selection, platform: str | None, workers: int | None, console: Console) -> list[Verdict]:
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        return run(
            table,
            selection=selection,
            platform=platform,
            workers=workers,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
