"""`polypath linux selftests`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from polypath import linux, selftests
from polypath.engines import MOST_NS, NONE, EngineError, Variation, in_units, prove, variation
from polypath.study import DEFAULT_KERNEL
from polypath.terminal import bar

from ._console import err, give, out, say, steps
from ._work import AsJson

VARIANT = "selftests"
Kernel = Annotated[
    str,
    typer.Option(
        help="Whose tests and which kernel: 6.12, 6.1, a folder or tarball with sources, or one of `linux list`; 6.12-hz1000 has 1000 "
        "ticks a second. Built first if need be."
    ),
]
Seeds = Annotated[str, typer.Option(help="Seeds, such as 13, 3,5 or 1..100.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Machines at once; default: one a core. It changes no result.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of the results; finished runs in it are not run again.")]
DEFAULT_OUT = Path("results/selftests")
# Lines of what varied.
_SHOWN = 8
_SIZES = ", ".join(f"{name} {in_units(most)}" for name, most in MOST_NS.items())
Vary = Annotated[
    str | None,
    typer.Option(
        help="What chance does to a run: start (when each program begins), jitter (of netem), slow (what the kernel does costs time), with "
        f"or without their sizes: start=2ms,slow. Default sizes: {_SIZES}."
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(help="MPTCP connections of all network namespaces get this scheduler of Polypath, such as blest.")
]
Draw = Annotated[int | None, typer.Option(min=0, help="With --vary: from which all that varies is drawn. Default: the run's seed.")]


def selftests_(
    tests: Annotated[
        list[str] | None,
        typer.Argument(help="Such as mptcp/simult_flows, a folder such as mptcp, or a pattern such as 'net/fib_*'. Default: mptcp."),
    ] = None,
    kernel: Kernel = DEFAULT_KERNEL,
    seeds: Seeds = "1",
    workers: Workers = None,
    out_folder: Out = DEFAULT_OUT,
    show_all: Annotated[bool, typer.Option("--all", help="Show the subtests that always pass, too.")] = False,
    vary: Vary = None,
    draw: Draw = None,
    hunt: Annotated[
        bool, typer.Option("--hunt", help="Look for the smallest variation of each kind that turns a pass into a failure; see --vary.")
    ] = False,
    scheduler: Scheduler = None,
    draws: Annotated[int | None, typer.Option(min=1, help="With --hunt: how many draws of each size are tried. Default: 4.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the tests and run nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the kernel's own network tests in virtual time, over seeds: what fails now and then is a
    seed with which it always fails.

    A machine for each test and seed, on all cores. Exit status 1 if something failed. The folder
    gets table.csv, results.tap and junit.xml; `polypath linux replay TEST --seed N` shows one run
    closely.
    """
    wanted = selftests.seeds_of(seeds)
    varied = variation_of(vary, draw, hunt=hunt)
    if draws is not None and not hunt:
        raise selftests.SelftestError("--draws says how many variations a hunt tries: add --hunt, or leave it out")
    sources, variant = sources_of(kernel)
    if list_only:
        with steps() as step:
            there = selftests.names(_folder_of(kernel, step), tests or ["mptcp"])
        list_tests(there, as_json=as_json)
        return
    if Path(sources).exists():
        later = f"a kernel of {sources} in the variant {variant} is built once its tests are unpacked, some minutes, unless it is there"
        err.print(later, markup=False, soft_wrap=True)
    elif not linux.is_there(f"{sources}-{variant}"):
        err.print(f"Linux {sources} in the variant {variant} is not there: once its tests are unpacked it is built, some minutes")
    with steps() as step:
        chosen = tests_of(tests or ["mptcp"], kernel, step)
        machine = kernel_of(kernel, step)
    for sentence in selftests.missing_of(chosen):
        err.print(f"polypath: {sentence}", markup=False, soft_wrap=True)
    runner = selftests.Runner(machine, out_folder / "runs")
    named = scheduler_of(scheduler, machine)
    if hunt:
        todo = selftests.jobs(chosen, wanted, scheduler=named)
        _hunt(runner, todo, kernel, varied, draws or 4, workers or os.cpu_count() or 1, out_folder, as_json=as_json)
        return
    todo = selftests.jobs(chosen, wanted, varied, named)
    records, failed = carry_out(runner, todo, workers, number_of_tests(chosen), varied)
    rows = selftests.rows(records)
    write(out_folder, records, rows)
    out.print(table_of(rows, title="selftests", show_all=show_all))
    failures = [
        (record.test, record.seed, outcome.verdict == "ignored")
        for record in records
        for outcome in selftests.outcomes(record)
        if outcome.verdict in selftests.FAILED
    ]
    again = tell_worst(failures, kernel, varied, named)
    end(rows, failed, "subtests", out_folder, as_json=as_json, **again)


def tell_worst(
    failures: Iterable[tuple[str, int, bool]], kernel: str, vary: Variation = NONE, scheduler: str = "", *, newly: bool = False
) -> dict[str, str]:
    """Says with which command the run that failed most is seen closely; the same for programs.
    `newly`: the failures are those that another kernel does not have.
    """
    failed = list(failures)
    worst = selftests.worst(failed)
    if worst is None:
        return {}
    again = replay_of(*worst, kernel, vary, scheduler)
    counts = any((test, seed) == worst and not ignored for test, seed, ignored in failed)
    why = f"{'newly ' * newly}fails in most subtests" if counts else f"{'newly ' * newly}fails only where the test ignores it"
    out.print(f"seed {worst[1]} {why}; closely: {again}", markup=False, highlight=False, soft_wrap=True)
    return {"again": again}


def replay_of(test: str, seed: int, kernel: str, vary: Variation = NONE, scheduler: str = "") -> str:
    """The command that replays a run."""
    words = ["polypath", "linux", "replay", test, "--seed", str(seed)]
    words += ["--kernel", kernel] if kernel != DEFAULT_KERNEL else []
    words += ["--vary", str(vary), *(["--draw", str(vary.draw)] if vary.draw is not None else [])] if vary else []
    words += ["--scheduler", scheduler.removeprefix("pp_")] if scheduler else []
    return shlex.join(words)


def number_of_tests(tests: Sequence[selftests.Test]) -> str:
    """How many there are; one is named."""
    return tests[0].name if len(tests) == 1 else f"{len(tests)} tests"


def list_tests(names: Sequence[str], *, as_json: bool) -> None:
    """What `--list` shows."""
    for name in names:
        out.print(name)
    if as_json:
        give({"tests": list(names)})


def scheduler_of(name: str | None, kernel: linux.Kernel) -> str:
    """What a kernel calls a scheduler of ours. Raises `SelftestError` if it has none of this name."""
    if name is None:
        return ""
    if f"pp_{name}" not in kernel.schedulers:
        there = ", ".join(each.removeprefix("pp_") for each in kernel.schedulers) or "none: they begin with Linux 6.6"
        raise selftests.SelftestError(f"--scheduler {name}: Linux {kernel.release} has no scheduler of this name; there are {there}")
    return f"pp_{name}"


def variation_of(vary: str | None, draw: int | None, *, hunt: bool = False) -> Variation:
    """What --vary and --draw mean; a hunt without kinds looks among all. Raises `SelftestError` if
    they mean nothing.
    """
    try:
        varied = variation(vary or (",".join(MOST_NS) if hunt else ""), draw) if vary is not None or hunt else NONE
    except EngineError as error:
        raise selftests.SelftestError(f"--vary: {error}") from None
    if draw is not None and (hunt or not varied):
        raise selftests.SelftestError(
            "--draw says which draw of a variation: " + ("a hunt tries several, leave it out" if hunt else "add --vary")
        )
    return varied


def _hunt(
    runner: selftests.Runner,
    todo: Sequence[selftests.Job],
    kernel: str,
    varied: Variation,
    draws: int,
    workers: int,
    folder: Path,
    *,
    as_json: bool,
) -> None:
    """Hunts with each job and kind, and ends with what was found."""
    hits: list[dict[str, Any]] = []
    for job in todo:
        for kind in varied.kinds:
            result = selftests.hunt(runner, job, kind, draws=draws, workers=workers, say=say)
            of = f"{job.test.name} seed {job.seed}"
            if isinstance(result, selftests.Nothing):
                out.print(f"{of}: {result.kind}: {result.why} ({result.runs} runs)", markup=False, soft_wrap=True)
                continue
            vary = result.job.vary
            out.print(f'{of}: with {vary} "{result.subtest}" fails ({result.runs} runs)', markup=False, highlight=False, soft_wrap=True)
            for line in result.what[:_SHOWN]:
                out.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
            if len(result.what) > _SHOWN:
                out.print(f"    and {len(result.what) - _SHOWN} more")
            again = replay_of(job.test.name, job.seed, kernel, vary, job.scheduler)
            out.print(f"    {again}", markup=False, highlight=False, soft_wrap=True)
            what = {"vary": str(vary), "draw": vary.draw, "subtest": result.subtest, "what": list(result.what), "runs": result.runs}
            hits.append({"test": job.test.name, "seed": job.seed, "kind": kind.name, **what, "again": again})
    if as_json:
        give({"folder": str(folder), "hunts": len(todo) * len(varied.kinds), "found": hits})
    out.print(f"{len(hits)} of {len(todo) * len(varied.kinds)} hunts found something; their runs are in {folder / 'runs'}", soft_wrap=True)
    if hits:
        raise typer.Exit(1)


def tests_of(wanted: Sequence[str], kernel: str, say: Callable[[str], None]) -> list[selftests.Test]:
    """The tests of these names of a kernel's sources."""
    return selftests.find(_folder_of(kernel, say), wanted, say)


def _folder_of(kernel: str, say: Callable[[str], None]) -> Path:
    """tools/testing/selftests of a kernel's sources, unpacked if need be."""
    sources, variant = sources_of(kernel)
    return linux.selftests(sources, say, variant=variant) / linux.TESTS


def kernel_of(kernel: str, say: Callable[[str], None]) -> linux.Kernel:
    """The kernel of the variant for selftests, built if it is not there, and the programs that the
    tests use.
    """
    linux.require(say, selftests.USE)
    sources, variant = sources_of(kernel)
    return linux.build(sources, prove=prove, variant=variant, any_name=True, say=say)


def sources_of(kernel: str) -> tuple[str, str]:
    """The sources that --kernel means, and the variant: what `polypath linux list` calls it works
    too.
    """
    for variant in linux.VARIANTS:
        if kernel.endswith(f"-{variant}"):
            return kernel.removesuffix(f"-{variant}"), variant
    return kernel, VARIANT


def carry_out(
    runner: selftests.Runner, todo: Sequence[selftests.Job], workers: int | None, what: str, varied: Variation
) -> tuple[list[selftests.Record], list[tuple[selftests.Job, str]]]:
    """Runs what is not there yet, and says how far it is; the records, and the jobs without one."""
    kept = sum(runner.kept(job) is not None for job in todo)
    err.print(
        f"{len(todo)} run{'s' * (len(todo) != 1)} of {what} on Linux {runner.kernel.release} ({runner.kernel.name})"
        + (f", with {varied}" if varied else "")
        + (f", {kept} of them finished earlier" if kept else "")
    )
    with bar(err, total=len(todo) - kept) as move:

        def done(job: selftests.Job, _record: selftests.Record | None, _why: str) -> None:
            move(advance=1, description=f"{job.test.name} seed {job.seed}")

        return runner.run_all(todo, workers=workers or os.cpu_count() or 1, done=done)


def write(folder: Path, records: Sequence[selftests.Record], rows: Sequence[selftests.Row]) -> None:
    """The files of the results."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"table.csv": selftests.as_csv(rows), "results.tap": selftests.as_tap(records), "junit.xml": selftests.as_junit(records)}
    for name, text in texts.items():
        aside = folder / f".{name}"
        aside.write_text(text, encoding="utf-8")
        aside.replace(folder / name)


def end(
    rows: Sequence[selftests.Row], failed: Sequence[tuple[selftests.Job, str]], what: str, folder: Path, *, as_json: bool, **more: Any
) -> None:
    """The last words, or all of it for programs; exit status 1 if something failed or has no result."""
    passing = sum(row.always_passes for row in rows)
    out.print(f"{len(rows)} {what}, {passing} of them pass with every seed; tables and TAP in {folder}", soft_wrap=True)
    for job, why in failed:
        err.print(f"polypath: {job.test.name} with seed {job.seed} has no result: {why}", markup=False, soft_wrap=True)
    if as_json:
        without = [{"test": job.test.name, "seed": job.seed, "why": why} for job, why in failed]
        give({"folder": str(folder), "rows": [row.plain() for row in rows], "without_result": without, **more})
    if failed or any(row.seeds["fail"] for row in rows):
        raise typer.Exit(1)


def table_of(rows: Sequence[selftests.Row], *, title: str, show_all: bool) -> Table:
    """The subtests that do not always pass, and how many others each test has."""
    table = Table(*selftests.HEADS, title=title, title_justify="left")
    for test in dict.fromkeys(row.test for row in rows):
        own_rows = [row for row in rows if row.test == test]
        shown = own_rows if show_all else [row for row in own_rows if not row.always_passes]
        for row in shown:
            table.add_row(*row.cells())
        if len(shown) < len(own_rows):
            runs = str(max(row.runs for row in own_rows))
            rest = f"{len(own_rows) - len(shown)} {'others' if shown else 'subtests'}"
            table.add_row(test, rest, runs, runs, *[""] * (len(selftests.HEADS) - 4))
    return table
