"""`polypath run`."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.study import StudyError, number_of_cells
from polypath.terminal import hush

from . import _console, _report, _studies
from ._against import Against
from ._unchanged import Command, Printed, tell
from ._work import (
    KERNELS,
    Again,
    AsJson,
    CcPath,
    Columns,
    Only,
    Short,
    Workers,
    carry_out,
    choices,
    head_of,
    in_form,
    names_in,
    use_custom,
)

if TYPE_CHECKING:
    from polypath.engines import Engine
    from polypath.results import Plan

_MACHINES = "Other machines"


def run(
    studies: Annotated[list[str], typer.Argument(metavar="STUDY...", help="Folder or file of a study, or the name of one in ./studies.")],
    engine: Annotated[str, typer.Option(help="What runs it; `polypath list engines` shows what there is.")] = "sim",
    out_folder: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Where the results go; each study gets a folder of its name in it. By default ./results, or `results` beside the study "
            "file where those of this study lie there already.",
        ),
    ] = None,
    workers: Workers = None,
    on: Annotated[
        str,
        typer.Option(
            rich_help_panel=_MACHINES,
            help="Machines that run it: local, the workers of a Dask scheduler (dask://HOST:PORT, or tls://HOST:PORT), or jobs of Slurm "
            "(slurm:PROFILE.toml).",
        ),
    ] = "local",
    certificates: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_MACHINES,
            help="With --on tls://: a folder with ca.pem, cert.pem and key.pem; by default Dask's configuration names the files.",
        ),
    ] = None,
    handover: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=_MACHINES,
            help="With --on: a folder or an fsspec URL that all machines reach. What they finish lies there until it is taken.",
        ),
    ] = None,
    build_kernels: Annotated[
        bool,
        typer.Option(
            "--build-kernels",
            rich_help_panel=_MACHINES,
            help="With --on and --engine linux: machines that lack a kernel build it, once; some minutes.",
        ),
    ] = False,
    only: Only = None,
    short: Short = False,
    kernel: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=KERNELS,
            help="Linux kernel in place of the study's own; see `polypath linux list`, and for sim `polypath list kernels`.",
        ),
    ] = None,
    vary: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=KERNELS,
            help="On the engine linux: what chance does to a run: jitter (of the links), slow (what the kernel does costs time), with or "
            "without their sizes: jitter=20us,slow.",
        ),
    ] = None,
    again: Again = False,
    cc_path: CcPath = None,
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="Run nothing that is missing, but so many of the finished runs again, those first that were not computed here, and "
            "compare their bytes. Engines sim and linux.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    columns: Columns = None,
    against: Against = None,
    report: Annotated[bool, typer.Option(help="Write the report with its figures.")] = True,
    as_json: AsJson = False,
) -> None:
    """Run a study: every cell of its matrix with every seed, then tables, figures and a report.

    Runs that are finished are kept and never run twice, so an interrupted study goes on where it
    stopped.
    """
    chosen = choices(only)
    use_custom(cc_path)
    if as_json and (dry_run or verify is not None):
        raise StudyError("--json gives the results of a run; leave --dry-run and --verify out")
    if as_json:
        hush()
    told: list[dict[str, Any]] = []
    if kernel is not None and engine == "host":
        raise StudyError(
            "--kernel names a kernel of the engines linux and sim, and host runs this machine's; leave it out, or take another engine"
        )
    options = {"engine": engine, "only": chosen, "kernel": kernel, "columns": columns, "against": against, "report": report}
    command = Command(studies=studies, short=short, out_folder=out_folder, options=options)
    plain = not (on != "local" or handover or certificates or build_kernels or vary or again or cc_path or verify or dry_run or as_json)
    if plain and (records := command.unchanged()) is not None:
        for record in records:
            tell(record)
        return
    loaded = in_form(_studies.read_all(studies), short=short)
    # The libraries of tables take longer to load than a mistake takes to find.
    from polypath.engines import check, find

    ran_by = find(engine) if vary is None else _varied(engine, vary, on)
    if not chosen and kernel is None:
        for study in loaded:
            check(ran_by, study, ran_by.only_kernel)
    _studies.check(loaded)
    from polypath.results import check_against, plan
    from polypath.results import chosen as pair_of

    pair = None if against is None else pair_of(against)
    if pair is not None:
        for study in loaded:
            check_against(study, *pair)
    from polypath.sweep import check_backend, find_backend

    if build_kernels and engine != "linux":
        raise StudyError(f"--build-kernels is for --engine linux, and {engine} runs no kernel of its own; leave it out")
    if verify is not None and (on != "local" or again):
        raise StudyError("--verify runs finished runs again on this machine: leave --on and --again out")
    sample = None if verify is None else _sample(verify)
    backend = find_backend(on, handover=handover, build_kernels=build_kernels, certificates=certificates)
    if backend is not None:
        check_backend(ran_by)
    plans = [
        plan(
            study,
            engine=ran_by,
            out=_studies.out_of(study) if out_folder is None else out_folder,
            only=chosen,
            kernel=kernel,
            again=again,
        )
        for study in loaded
    ]
    from ._summary import known_columns, summary

    for work in plans:
        for line in (*work.left_out, *work.notes):
            (_console.out if dry_run else _console.err).print(f"{work.study.name}: {line}", soft_wrap=True)
        if dry_run:
            _tell(work)
            continue
        if sample is not None:
            _verify(work, sample, workers)
            continue
        laps = [time.monotonic()]
        results = carry_out(work, workers, backend)
        laps.append(time.monotonic())
        read_ns, printed = time.time_ns(), Printed()
        tables = _report.material_of(results, pair)
        printed.print(summary(results, tables, known_columns(results, names_in(columns))))
        if work.study.conclusion and tables is not None and not columns:
            from rich.markdown import Markdown

            from polypath.report import concluded

            printed.print(Markdown(concluded(tables), hyperlinks=False))
        laps.append(time.monotonic())
        if report:
            printed.print(f"report: {_report.write(results, tables)}", soft_wrap=True)
            laps.append(time.monotonic())
        printed.print(f"tables: {results.folder}/runs.parquet and others", soft_wrap=True)
        if as_json:
            told.append(_report.as_plain(results, pair, tables))
        if plain:
            command.keep(work, head_of(work, work.distinct), printed.text, read_ns)
        spent = zip(("runs and tables", "summary", "report"), itertools.pairwise(laps), strict=False)
        _console.err.print(f"{work.study.name}: {', '.join(f'{step} {end - begin:.1f} s' for step, (begin, end) in spent)}", soft_wrap=True)
    if as_json:
        _console.give(told)


def _varied(engine: str, vary: str, on: str) -> Engine:
    """The engine with what --vary asks for."""
    from polypath.engines import EngineError, LinuxEngine, variation

    if engine != LinuxEngine.name:
        raise StudyError(
            f"--vary is for the engine linux, and {engine} has none of it: a study itself says start_spread of a flow and jitter of a link"
        )
    if on != "local":
        raise StudyError("--vary runs on this machine alone: leave --on out")
    try:
        varied = variation(vary)
    except EngineError as error:
        raise StudyError(f"--vary: {error}") from None
    if any(kind.name == "start" for kind in varied.kinds):
        raise StudyError("--vary: a study's runs begin at the same moment of a tick; a flow's start_spread varies it, so leave start out")
    return LinuxEngine(varied)


# More finished runs than anybody has.
_ALL = 1 << 62


def _sample(text: str) -> int:
    """How many runs --verify asks for."""
    if text == "all":
        return _ALL
    if not text.isdecimal() or not int(text):
        raise StudyError(f"--verify {text} says not how many runs; write a number, or all")
    return int(text)


def _verify(work: Plan, number: int, workers: int | None) -> None:
    from polypath.results import verify

    checks = verify(work, number, workers=workers)
    wrong = [check for check in checks if check.differ]
    for check in wrong:
        _console.out.print(f"{check.folder} ({check.run.label}): {', '.join(check.differ)} differs", soft_wrap=True)
    runs = "run" if len(checks) == 1 else "runs"
    if work.store.damaged:
        raise StudyError("\n".join(f"{work.study.name}: {sentence}" for sentence in work.store.unreadable()))
    if wrong:
        raise StudyError(
            f"{work.study.name}: {len(wrong)} of {len(checks)} {runs} came out otherwise when run again on {work.engine.name}: "
            "delete these folders and run the study, or ask who made them"
        )
    _console.out.print(f"{work.study.name}: {len(checks)} {runs} again on {work.engine.name}, the same to the byte", soft_wrap=True)


def _tell(work: Plan) -> None:
    if not work.large:
        from rich.table import Table

        pending = {run.key for run in work.pending}
        table = Table("run", "key", "state", title=f"{work.study.name} on {work.engine.name} {work.engine.version}", title_justify="left")
        for run in work.runs:
            table.add_row(run.label, run.key, "to run" if run.key in pending else "finished")
        _console.out.print(table)
    about = "about " if work.large else ""
    whole = f"{number_of_cells(work.study)} cells, " if work.large else f"{len(work.runs)} runs, "
    _console.out.print(
        f"{whole}{about}{work.distinct} {'runs that differ' if work.large else 'of them different'}, {about}{work.expected} to run; "
        f"results go to {work.folder}",
        soft_wrap=True,
    )
    from polypath.results import cost

    estimate = cost(work)
    words = f"{_long(estimate.simulated_s)} of simulated time"
    if work.engine.name == "sim":
        cores = os.cpu_count() or 1
        took = _long(estimate.packets / _PACKETS_PER_S / cores)
        words += f", at most {estimate.packets:.2g} packets: {took} on {cores} cores at a million a second each"
    words += "" if estimate.bytes is None else f"; results of {estimate.bytes / 1e6:.0f} MB, as those that are finished"
    _console.out.print(words, soft_wrap=True)


# A round figure; `polypath bench` says what this machine does.
_PACKETS_PER_S = 1e6


def _long(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
