"""`polypath validate`: the command."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from polypath.analysis import FEWEST
from polypath.results import DEFAULT_OUT
from polypath.study import DEFAULT_KERNEL
from polypath.validate import _networks, _starts
from polypath.validate._drawn import draw
from polypath.validate._judge import Verdict
from polypath.validate._run import Selection, run
from polypath.validate._show import show, to_json, to_markdown
from polypath.validate._table import TableError

STARTS, NETWORKS = 12, 48

_Found = TypeVar("_Found")


def _names(values: list[str] | None) -> tuple[str, ...]:
    """Options may be repeated or hold several names with commas between."""
    return tuple(name for value in values or [] for name in value.split(",") if name)


def validate(
    table: Annotated[
        Path | None, typer.Argument(help="A summary.csv of measured Linux runs, or what --drawn wrote with --csv.", metavar="SUMMARY.csv")
    ] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only these groups: a, b, c, d, e, f; nitk, n, s, done.")] = None,
    cc: Annotated[list[str] | None, typer.Option(help="Only these congestion-control algorithms.")] = None,
    id: Annotated[list[str] | None, typer.Option("--id", help="Only runs with this name, or pattern: 'd_delay*_reno'.")] = None,
    platform: Annotated[str | None, typer.Option(help="Rows of this platform; default: uml, Linux in virtual time.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the counts by group as a table in Markdown.")] = False,
    detail: Annotated[
        bool, typer.Option("--detail", help="Under each run its subflows: rate, retransmissions, window, Linux's / ours.")
    ] = False,
    differs: Annotated[bool, typer.Option("--differs", help="Show only what does not agree; the counts are still of all.")] = False,
    figure: Annotated[
        Path | None,
        typer.Option(help="Write a picture a run into this folder: window and RTT over time, Linux's and ours; areas in areas.csv."),
    ] = None,
    starts: Annotated[
        int | None, typer.Option(min=FEWEST, help="Judge distributions over so many starts instead of single runs.")
    ] = None,
    spread: Annotated[float, typer.Option(min=0.001, help="With --starts: flows begin up to this many ms later.")] = _starts.SPREAD_MS,
    kernel: Annotated[str | None, typer.Option(help="With --starts or --drawn: the same starts on this kernel of the engine linux.")] = None,
    drawn: Annotated[int | None, typer.Option(metavar="SEED", help="Instead of a table: networks drawn at random from this seed.")] = None,
    networks: Annotated[int, typer.Option(min=1, help="With --drawn: how many.")] = NETWORKS,
    out: Annotated[Path, typer.Option(help="With --drawn: where its runs are kept.")] = DEFAULT_OUT,
    csv: Annotated[Path | None, typer.Option(help="With --drawn: write a row a flow with the goodput of every start into this file.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once; default: one a core.")] = None,
) -> None:
    """Compare the simulator with measurements of real Linux kernels.

    Simulates the set-up behind every run of SUMMARY.csv and prints Linux's goodput beside ours. They agree when the means over the same
    repeats differ by at most 10 %, or by no more than one of Linux's repeats from Linux's own mean.

    With --starts every run begins at so many moments, and distributions are compared: the measured row is one draw. With --drawn there is
    no table: networks are drawn at random and run in the simulator and on a kernel, over the same starts.
    """
    form = _Form(json=as_json, markdown=as_markdown, differs=differs, detail=detail)
    selection = Selection(groups=_names(group), algorithms=_names(cc), ids=_names(id))
    try:
        _refuse(table, drawn, starts, kernel, figure, csv)
        if drawn is not None:
            _drawn(drawn, networks, starts or STARTS, kernel or DEFAULT_KERNEL, out, csv, workers, form)
        elif table is not None and _networks.is_drawn(table):
            _print_networks(_networks.read_csv(table), form)
        elif table is not None and starts is not None:
            with _bar() as count:
                run_spread = partial(_starts.run_starts, table, starts=starts, spread_ms=spread, kernel=kernel)
                spreads = run_spread(selection=selection, platform=platform, workers=workers, progress=count)
            _print_spreads(_any(spreads, table), form)
        elif table is not None:
            with _bar() as count:
                verdicts = run(table, selection=selection, platform=platform, workers=workers, progress=partial(count, "sim"))
            _draw_figures(_any(verdicts, table), table, figure)
            _print_verdicts(verdicts, form)
    except TableError as error:
        ERRORS.print(f"polypath: {error}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from None


ERRORS = Console(stderr=True)


@dataclass(frozen=True, kw_only=True)
class _Form:
    """How to print what was found."""

    json: bool
    markdown: bool
    differs: bool
    detail: bool

    @property
    def console(self) -> Console:
        console = Console()
        return console if console.is_terminal else Console(width=200)


def _refuse(
    table: Path | None, drawn: int | None, starts: int | None, kernel: str | None, figure: Path | None, csv: Path | None
) -> None:
    """Options that mean nothing together."""
    if table is None and drawn is None:
        raise TableError("name a SUMMARY.csv of measured runs, or draw networks with --drawn SEED.")
    if table is not None and drawn is not None:
        raise TableError(f"--drawn runs networks of its own; leave {table} out.")
    if kernel is not None and drawn is None and starts is None:
        raise TableError("--kernel runs a kernel over many starts; add --starts 12.")
    if figure is not None and (drawn is not None or starts is not None):
        raise TableError("--figure draws the single runs of a table; leave --starts and --drawn out.")
    if csv is not None and drawn is None:
        raise TableError("--csv keeps what --drawn found; add --drawn SEED, or use --json.")


def _any(found: list[_Found], table: Path) -> list[_Found]:
    if not found:
        raise TableError(f"{table} has no runs that match the options given.")
    return found


def _drawn(
    seed: int, networks: int, starts: int, kernel: str, out: Path, csv: Path | None, workers: int | None, form: _Form
) -> None:
    with _bar() as count:
        flows = _networks.run_networks(draw(seed, networks, starts), kernel=kernel, out=out, workers=workers, progress=count)
    if csv is not None:
        with csv.open("w", encoding="utf-8") as stream:
            _networks.write_csv(flows, stream)
        ERRORS.print(f"wrote {csv}", highlight=False, soft_wrap=True)
    _print_networks(flows, form)


def _print_networks(flows: list[_networks.Flow], form: _Form) -> None:
    if form.json:
        found = {"flows": _networks.rows_of(flows), "summary": _networks.summary(flows)}
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    elif form.markdown:
        sys.stdout.write(_networks.to_markdown(flows))
    else:
        _networks.show(flows, form.console, only_differing=form.differs)


def _print_spreads(spreads: list[_starts.Spread], form: _Form) -> None:
    if form.json:
        sys.stdout.write(json.dumps(_starts.to_json(spreads), indent=1) + "\n")
    elif form.markdown:
        sys.stdout.write(_starts.to_markdown(spreads))
    else:
        _starts.show(spreads, form.console, only_differing=form.differs)


def _print_verdicts(verdicts: list[Verdict], form: _Form) -> None:
    if form.json:
        sys.stdout.write(json.dumps(to_json(verdicts), indent=1) + "\n")
    elif form.markdown:
        sys.stdout.write(to_markdown(verdicts))
    else:
        show(verdicts, form.console, detail=form.detail, only_differing=form.differs)


def _draw_figures(verdicts: list[Verdict], table: Path, folder: Path | None) -> None:
    if folder is None:
        return
    from polypath.validate._figure import draw  # The drawing library takes longer to load than most commands take to run.

    for file in draw(verdicts, table, folder, ERRORS):
        ERRORS.print(f"wrote {file}", highlight=False, soft_wrap=True)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """Takes what runs, how many runs are done, and of how many."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERRORS, transient=True, disable=not ERRORS.is_terminal) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, done, of: bar.update(task, description=name, completed=done, total=of)
