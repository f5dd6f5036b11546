"""What commands that run studies share: their options, and running with a progress bar."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath.study import Study, StudyError
from polypath.terminal import bar

from . import _console

if TYPE_CHECKING:
    from polypath.results import Plan, Results
    from polypath.study import Run
    from polypath.sweep import Backend, State

Workers = Annotated[int | None, typer.Option(min=1, help="Runs at once; default: one a core. It changes no byte of the results.")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Only cells with these values, such as cc=lia or cc=lia,olia; may be repeated. `experiment=` works too."),
]
# The panel of a command's help.
KERNELS = "Kernels"
Again = Annotated[
    bool,
    typer.Option("--again", rich_help_panel=KERNELS, help="Engine host: run those again that were late and are not to be trusted."),
]
CcPath = Annotated[
    Path | None,
    typer.Option(
        "--cc-path",
        help="Folder with congestion controls and schedulers of your own, each in NAME.c; `polypath cc new` and `polypath sched new` begin "
        "one.",
    ),
]
NewName = Annotated[str, typer.Argument(help="Small letters, digits and _, at most 12.")]
Into = Annotated[Path, typer.Option(help="Folder for it; made if it is not there.")]
Short = Annotated[
    bool,
    typer.Option("--short", help="The short form: seconds a run, few repetitions, no claims; `short:` in a study says more."),
]


def _some(columns: str | None) -> str | None:
    if columns is not None and not names_in(columns):
        raise StudyError(f'--columns "{columns}" names no column; `polypath list columns` shows all of them')
    return columns


Columns = Annotated[
    str | None,
    typer.Option(
        help="Columns of the runs to show in place of the applications' own, such as srtt_ms,timeouts.",
        callback=_some,
    ),
]


AsJson = Annotated[bool, typer.Option("--json", help="For programs: one JSON document on standard output, and no tables.")]


def names_in(text: str | None) -> list[str]:
    """The names in a list with commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def use_custom(cc_path: Path | None, kind: str | None = None) -> list[str]:
    """Compiles the algorithms of `--cc-path`; studies may name them from then on. The names of
    those of a kind, or of all.
    """
    if cc_path is None:
        return []
    from polypath import customcc

    return [algorithm.name for algorithm in customcc.use(cc_path) if kind in (None, algorithm.kind)]


def begin(kind: str, name: str, into: Path, begin_from: str | None, *, coupled: bool = False) -> None:
    """What `polypath cc new` and `polypath sched new` do."""
    from polypath import customcc

    file = customcc.new(name, into, kind=kind, begin_from=begin_from, coupled=coupled)
    word = {"cc": "cc", "sched": "scheduler"}[kind]
    _console.out.print(
        f"wrote {file}; edit it, write `{word}: {name}` in a study, then: polypath run STUDY --cc-path {into}", soft_wrap=True
    )


def choices(only: Sequence[str] | None) -> dict[str, list[str]]:
    """The values of `--only` by parameter."""
    chosen: dict[str, list[str]] = {}
    for text in only or []:
        name, equals, values = text.partition("=")
        if not equals or not name or not values:
            raise StudyError(f'--only {text} says nothing; write a parameter and its values, like "cc=lia" or "cc=lia,olia"')
        chosen.setdefault(name.strip(), []).extend(value.strip() for value in values.split(","))
    return chosen


def in_form(studies: Sequence[Study], *, short: bool) -> list[Study]:
    """The studies, or their short forms."""
    return [study.in_short() for study in studies] if short else list(studies)


def carry_out(work: Plan, workers: int | None, on: Backend | None = None) -> Results:
    """Runs what is missing, shows how far it is, and writes the tables."""
    from polypath.results import execute

    _console.err.print(head_of(work, work.distinct - work.expected))
    with bar(_console.err, total=work.expected) as move:

        def tell(state: State) -> None:
            at = f"{state.machines} machines, {state.threads} threads, {state.active} runs handed out"
            move(description=state.note or at)

        def progress(run: Run) -> None:
            move(advance=1, description=run.label if on is None else None)

        return execute(work, workers=workers, on=on, progress=progress, tell=tell)


def head_of(work: Plan, kept: int) -> str:
    """What is run, where, and how much of it was finished before."""
    some = itertools.islice(work.every(), 100) if work.large else work.runs
    kernels = list(dict.fromkeys(run.kernel for run in some if run.kernel))
    runs_on = " ".join([work.engine.name, ", ".join(kernels)]).strip()
    return f"{work.study.name}: {work.described} on {runs_on}" + (f", {kept} of them finished earlier" if kept else "")
