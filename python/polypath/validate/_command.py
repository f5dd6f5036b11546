"""`polypath validate`: the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from polypath.errors import visible
from polypath.results import DEFAULT_OUT
from polypath.study import DEFAULT_KERNEL, FEWEST_STARTS, Study
from polypath.terminal import bar, console
from polypath.validate._drawn import KINDS, USUAL, draw, is_drawn
from polypath.validate._judge import Verdict
from polypath.validate._run import Selection, run
from polypath.validate._show import show, to_json, to_markdown
from polypath.validate._table import TableError

if TYPE_CHECKING:
    from rich.console import Console

    from polypath.validate import _networks

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
        int | None, typer.Option(min=FEWEST_STARTS, help="Judge distributions over so many starts instead of single runs.")
    ] = None,
    spread: Annotated[
        float | None, typer.Option(min=0.001, help="With --starts: flows begin up to this many ms later; default: 20.")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(help="The kernel to simulate, by default the table's; with --starts or --drawn the same starts run on it too."),
    ] = None,
    drawn: Annotated[int | None, typer.Option(metavar="SEED", help="Instead of a table: networks drawn at random from this seed.")] = None,
    networks: Annotated[int | None, typer.Option(min=1, help=f"With --drawn: how many; default: {NETWORKS}.")] = None,
    kinds: Annotated[
        str | None,
        typer.Option(help=f"With --drawn: letters of {', '.join(f'{kind} ({what})' for kind, what in KINDS.items())}; default: {USUAL}."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help=f"With --drawn: where its runs are kept; default: {DEFAULT_OUT}.")] = None,
    csv: Annotated[Path | None, typer.Option(help="With --drawn: a row a flow, with the goodput of every start, into this file.")] = None,
    measured: Annotated[
        Path | None, typer.Option(help="With --drawn: what --csv kept of the same networks; only the simulator runs again.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at once; default: one a core.")] = None,
) -> None:
    """Compare the simulator with measurements of real Linux kernels.

    Simulates the set-up behind every run of SUMMARY.csv and prints Linux's goodput beside ours.
    They agree when the means over the same repeats differ by at most 10 %, or by no more than one
    of Linux's repeats from Linux's own mean.

    With --starts every run begins at so many moments, and distributions are compared: the measured
    row is one draw. With --drawn there is no table: networks are drawn at random and run in the
    simulator and on a kernel, over the same starts.
    """
    form = _Form(json=as_json, markdown=as_markdown, differs=differs, detail=detail)
    selection = Selection(groups=_names(group), algorithms=_names(cc), ids=_names(id))
    options: dict[str, object] = {
        "--group": group,
        "--cc": cc,
        "--id": id,
        "--platform": platform,
        "--detail": detail or None,
        "--figure": figure,
    }
    options |= {"--starts": starts, "--spread": spread, "--kernel": kernel, "--networks": networks, "--out": out, "--csv": csv}
    options |= {"--measured": measured, "--kinds": kinds}
    try:
        mode = _mode(table, drawn, starts)
        _refuse(mode, {*options} - {name for name, value in options.items() if value is None})
        if drawn is not None:
            study = draw(drawn, networks or NETWORKS, starts or STARTS, _kinds(kinds))
            _drawn(study, kernel or DEFAULT_KERNEL, out or DEFAULT_OUT, csv, measured, workers, form)
        elif mode == "again" and table is not None:
            _again(table, form)
        elif table is not None and starts is not None:
            _over_starts(table, starts, spread, kernel, selection, platform, workers, form)
        elif table is not None:
            with _bar() as count:
                verdicts = run(
                    table, selection=selection, platform=platform, kernel=kernel, workers=workers, progress=partial(count, "sim")
                )
            _draw_figures(_any(verdicts, table), table, figure)
            _print_verdicts(verdicts, form)
            _refuse_unknown(table, verdicts)
    except TableError as error:
        print(f"polypath: {visible(str(error))}", file=sys.stderr)
        raise typer.Exit(2) from None


ERRORS = console(stderr=True)


@dataclass(frozen=True, kw_only=True)
class _Form:
    """How to print what was found."""

    json: bool
    markdown: bool
    differs: bool
    detail: bool

    @property
    def console(self) -> Console:
        opened = console(markup=True)
        return opened if opened.is_terminal else console(markup=True, width=200)


# What each form of the command may be told besides, and what it is called in a sentence.
_ROWS = {"--group", "--cc", "--id", "--platform"}
_MODES = {
    "rows": (_ROWS | {"--detail", "--figure", "--kernel"}, "for the single runs of a table"),
    "starts": (_ROWS | {"--starts", "--spread", "--kernel"}, "with --starts"),
    "drawn": ({"--starts", "--kernel", "--networks", "--kinds", "--out", "--csv", "--measured"}, "with --drawn"),
    "again": (set[str](), "for what --drawn wrote"),
}


def _mode(table: Path | None, drawn: int | None, starts: int | None) -> str:
    if table is None and drawn is None:
        raise TableError("name a SUMMARY.csv of measured runs, or draw networks with --drawn SEED.")
    if table is not None and drawn is not None:
        raise TableError(f"--drawn runs networks of its own; leave {table} out.")
    if table is None:
        return "drawn"
    return "again" if is_drawn(table) else "rows" if starts is None else "starts"


def _refuse(mode: str, options: set[str]) -> None:
    """Options that would be ignored."""
    may, where = _MODES[mode]
    if wrong := sorted(options - may):
        others = sorted(name for name, (allowed, _) in _MODES.items() if wrong[0] in allowed and name in ("starts", "drawn"))
        instead = f", or add {' or '.join(f'--{name}' for name in others)}" if others and mode == "rows" else ""
        raise TableError(f"{wrong[0]} means nothing {where}; leave it out{instead}.")


def _kinds(letters: str | None) -> str:
    letters = USUAL if letters is None else letters
    if not letters or set(letters) - set(KINDS) or len(set(letters)) < len(letters):
        raise TableError(f'--kinds "{letters}" is no list of kinds; write letters of "{"".join(KINDS)}", each once.')
    return letters


def _any(rows: list[_Found], table: Path) -> list[_Found]:
    if not rows:
        raise TableError(f"{table} has no runs that match the options given.")
    return rows


def _drawn(study: Study, kernel: str, out: Path, csv: Path | None, measured: Path | None, workers: int | None, form: _Form) -> None:
    from polypath.validate import _networks  # The tests of chance load slowly, and most commands need none.

    before = None if measured is None else _read_drawn(measured)
    with _bar() as count:
        try:
            flows = _networks.run_networks(study, kernel=kernel, out=out, measured=before, workers=workers, progress=count)
        except ValueError as error:
            raise TableError(f"{measured}: {error}; name what --drawn with the same numbers wrote with --csv.") from None
    if csv is not None:
        with csv.open("w", encoding="utf-8") as stream:
            _networks.write_csv(flows, stream)
        ERRORS.print(f"wrote {csv}", highlight=False, soft_wrap=True)
    _print_networks(flows, form)


def _read_drawn(file: Path) -> list[_networks.Flow]:
    from polypath.validate import _networks

    if not is_drawn(file):
        raise TableError(f"{file} is not what --drawn wrote with --csv.")
    return _networks.read_csv(file)


def _again(table: Path, form: _Form) -> None:
    from polypath.validate import _networks

    _print_networks(_networks.read_csv(table), form)


def _print_networks(flows: list[_networks.Flow], form: _Form) -> None:
    from polypath.validate import _networks

    if form.json:
        tables = {"flows": _networks.rows_of(flows), "summary": _networks.summary(flows)}
        sys.stdout.write(json.dumps(tables, indent=1) + "\n")
    elif form.markdown:
        sys.stdout.write(visible(_networks.to_markdown(flows)))
    else:
        _networks.show(flows, form.console, only_differing=form.differs)


def _over_starts(
    table: Path,
    starts: int,
    spread_ms: float | None,
    kernel: str | None,
    selection: Selection,
    platform: str | None,
    workers: int | None,
    form: _Form,
) -> None:
    from polypath.validate import _starts

    how = {} if spread_ms is None else {"spread_ms": spread_ms}
    with _bar() as count:
        measured = _starts.run_starts(
            table, starts=starts, kernel=kernel, selection=selection, platform=platform, workers=workers, progress=count, **how
        )
    spreads = _any(measured, table)
    if form.json:
        sys.stdout.write(json.dumps(_starts.to_json(spreads), indent=1) + "\n")
    elif form.markdown:
        sys.stdout.write(visible(_starts.to_markdown(spreads)))
    else:
        _starts.show(spreads, form.console, only_differing=form.differs)


def _print_verdicts(verdicts: list[Verdict], form: _Form) -> None:
    if form.json:
        sys.stdout.write(json.dumps(to_json(verdicts), indent=1) + "\n")
    elif form.markdown:
        sys.stdout.write(visible(to_markdown(verdicts)))
    else:
        show(verdicts, form.console, detail=form.detail, only_differing=form.differs)


def _refuse_unknown(table: Path, verdicts: list[Verdict]) -> None:
    """Rows that could not be judged are no success."""
    unknown = [verdict.cell for verdict in verdicts if verdict.cell.why]
    if not unknown:
        return
    names = list(dict.fromkeys(cell.id for cell in unknown))
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    meaning = "names tell the set-up, as v0_nitk_lia_r1 does, and other measurements are compared by a study's `published`"
    raise TableError(f"{table}: {len(unknown)} of {len(verdicts)} rows are not judged, since no set-up is known for {listed}: {meaning}.")


def _draw_figures(verdicts: list[Verdict], table: Path, folder: Path | None) -> None:
    if folder is None:
        return
    from polypath.validate._figure import draw  # The drawing library takes longer to load than most commands take to run.

    for file in draw(verdicts, table, folder, ERRORS):
        ERRORS.print(f"wrote {file}", highlight=False, soft_wrap=True)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
    """Takes what runs, how many runs are done, and of how many."""
    with bar(ERRORS) as move:
        yield lambda name, done, of: move(description=name, completed=done, total=of)
