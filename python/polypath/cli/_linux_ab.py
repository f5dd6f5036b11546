"""`polypath linux ab`."""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath import linux, selftests
from polypath.engines import NONE, find, prove
from polypath.results import DEFAULT_OUT, Results, plan
from polypath.study import FEWEST_STARTS, StudyError, Time

from . import _studies
from ._console import err, give, out, say
from ._linux_bisect import Jobs
from ._linux_selftests import DEFAULT_OUT as SELFTESTS_OUT
from ._linux_selftests import VARIANT, tests_of
from ._linux_selftests import carry_out as carry_out_tests
from ._work import AsJson, Only, Short, Workers, carry_out, choices, in_form

if TYPE_CHECKING:
    from polypath.analysis import Comparison, Distance

STARTS = 20
# As wide as the lines of a commit message.
_WIDTH = 75


def ab(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="STUDY|-- selftests TEST...",
            help="A study, or the kernel's own tests as `linux selftests` takes them: -- selftests mptcp/simult_flows --seeds 1..20.",
        ),
    ],
    tree: Annotated[
        list[str], typer.Option(help="Twice: before and after. A folder or tarball with sources, a release, or a kernel of `linux list`.")
    ],
    starts: Annotated[int, typer.Option(min=FEWEST_STARTS, help="Starts of every cell, the same before and after.")] = STARTS,
    spread: Annotated[str, typer.Option(help="Flows without a `start_spread` of their own begin within this.")] = "500ms",
    out_folder: Annotated[Path, typer.Option("--out", help="Where the results go.")] = DEFAULT_OUT,
    only: Only = None,
    short: Short = False,
    workers: Workers = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Compare a study or the kernel's own tests before and after a patch, over the same starts or
    seeds: what changed, by how much, and what of it is significant.

    Ends with a text for the commit message.
    """
    if len(tree) != 2:
        raise StudyError("ab compares two kernels: name both, like --tree linux-before --tree linux-after")
    if len({Path(each).resolve() if Path(each).exists() else each for each in tree}) == 1:
        raise StudyError(f"both --tree are {tree[0]}, so there is nothing to compare")
    if what[0] == "selftests":
        _tell(*_selftests(what[1:], tree, out_folder, workers, jobs), as_json=as_json)
        return
    if len(what) > 1:
        raise StudyError(f"ab compares one study, and {len(what)} are named; tests come behind `-- selftests`")
    (study,) = what
    try:
        within = Time(spread)
    except ValueError as error:
        raise StudyError(f"--spread: {error}") from None
    (loaded,) = in_form([_studies.load(study)], short=short)
    loaded = loaded.over_starts(starts, within)
    kernels = _kernels(tree, jobs)
    plans = [plan(loaded, engine=find("linux"), out=out_folder, only=choices(only), kernel=kernel.name) for kernel in kernels]
    for work in plans:
        for line in work.left_out:
            err.print(f"{loaded.name}: {line}", soft_wrap=True)
        carry_out(work, workers)
    from polypath.report import comparison, material

    keys = {run.key for work in plans for run in work.runs}
    # The first one is what the other is measured by.
    compared = comparison(material(Results.open(plans[-1].folder, loaded)), runs=keys, reference=f"linux {kernels[0].name}")
    if compared is None:
        raise StudyError(f"there is nothing to compare: {loaded.name} has no runs on both kernels")
    text = _text(loaded.name, kernels, compared, starts)
    _tell(text, plans[-1].folder, _rows(compared), as_json=as_json)


def _selftests(
    words: list[str], tree: list[str], out_folder: Path, workers: int | None, jobs: int | None
) -> tuple[str, Path, list[dict[str, Any]]]:
    """Runs the tests of the second tree on both kernels: what they say differently."""
    names, seeds = _tests_and_seeds(words)
    linux.require(say, selftests.USE)
    kernels = _kernels(tree, jobs, VARIANT)
    tests = tests_of(names or ["mptcp"], tree[1], say)
    folder = SELFTESTS_OUT if out_folder == DEFAULT_OUT else out_folder
    todo = selftests.jobs(tests, seeds)
    found = []
    for kernel in kernels:
        records, failed = carry_out_tests(selftests.Runner(kernel, folder / "runs"), todo, workers, f"{len(tests)} tests", NONE)
        for job, why in failed:
            err.print(f"polypath: {job.test.name} with seed {job.seed} has no result on {kernel.name}: {why}", markup=False, soft_wrap=True)
        found.append(records)
    pairs = selftests.pairs(*found)
    return _told(pairs, kernels, len(seeds)), folder, _rows_of(pairs)


def _tell(text: str, folder: Path, rows: list[dict[str, Any]], *, as_json: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ab.txt").write_text(text, encoding="utf-8")
    out.print(text, markup=False, highlight=False, soft_wrap=True)
    out.print(f"for the commit message: {folder / 'ab.txt'}", soft_wrap=True)
    if as_json:
        give({"folder": str(folder), "text": text, "rows": rows})


def _tests_and_seeds(words: list[str]) -> tuple[list[str], list[int]]:
    """The tests behind `-- selftests`, and the seeds."""
    try:
        rest, seeds = selftests.option_of(words, "--seeds")
    except selftests.SelftestError as error:
        raise StudyError(f"{error}; behind `-- selftests` stand tests and --seeds N..M, everything else before it") from None
    return rest, selftests.seeds_of(seeds or "1..20")


_NAMED = 20
# Of a row's label.
_LONGEST = 60


def _change(distance: Distance, *, significant: bool) -> dict[str, Any]:
    """A change for programs; what never finished is null."""
    figures = {"change": distance.difference, "interval": distance.interval, "p": distance.p}
    return {name: value if math.isfinite(value) else None for name, value in figures.items()} | {"significant": significant}


def _rows_of(found: list[selftests.Pair]) -> list[dict[str, Any]]:
    """What became of each subtest, and of its milliseconds where it tells them."""
    from polypath.analysis import distance, significant

    distances = [distance(pair.after_ms, pair.before_ms) if len(pair.before_ms) > 1 else None for pair in found]
    real = iter(significant([each.p for each in distances if each]))
    return [
        {"test": pair.test, "subtest": pair.subtest, "seeds": pair.seeds}
        | {"newly": pair.newly, "mended": pair.mended, "both": pair.both, "newly_p": pair.p}
        | ({} if each is None else {"before": each.reference, "after": each.ours, "unit": "ms"} | _change(each, significant=next(real)))
        for pair, each in zip(found, distances, strict=True)
    ]


def _told(found: list[selftests.Pair], kernels: list[linux.Kernel], seeds: int) -> str:
    """First the seeds that newly fail, then the milliseconds, as a commit message quotes both."""
    from polypath.analysis import LEVEL, distance, significant

    before, after = kernels
    lines = []
    for one, more, name in (("newly fails", "newly fail", "newly"), ("no longer fails", "no longer fail", "mended")):
        changed = [pair for pair in found if getattr(pair, name)]
        seeds_of = sum(len(getattr(pair, name)) for pair in changed)
        lines += [(f"1 seed {one}" if seeds_of == 1 else f"{seeds_of or 'no'} seeds {more}") + (":" if changed else "")]
        for pair in changed[:_NAMED]:
            failing = (len(pair.both) + len(pair.mended), len(pair.both) + len(pair.newly), len(pair.seeds))
            counts = f"{failing[0]} of {failing[2]} fail before, {failing[1]} after"
            lines += textwrap.wrap(
                f"{pair.test}: {pair.subtest}: {selftests.seeds_text(getattr(pair, name))} ({counts}; McNemar p {pair.p:.2g})",
                _WIDTH,
                initial_indent="  ",
                subsequent_indent="    ",
            )
        lines += [f"  and {len(changed) - _NAMED} subtests more"] * (len(changed) > _NAMED)
    timed = [(pair, distance(pair.after_ms, pair.before_ms)) for pair in found if len(pair.before_ms) > 1]
    speaks = significant([each.p for _, each in timed])
    several = len({pair.test for pair in found}) > 1
    labels = [f"{pair.test}: {pair.subtest}" if several else pair.subtest for pair, _ in timed]
    width = min(max(map(len, labels), default=0), _LONGEST)
    lines += ["", f"{'':{width}}  {'before':>9}  {'after':>9}  ms  change"] if timed else ["", "no subtest tells its milliseconds"]
    for (_, each), label, real in zip(timed, labels, speaks, strict=True):
        label = label if len(label) <= width else label[: width - 1] + "…"
        change = f"{100 * each.difference:+.1f} % ± {100 * each.interval:.1f}"
        lines.append(f"{label:{width}}  {each.reference:9.1f}  {each.ours:9.1f}  ms  {change}" + ("" if real else "  (not significant)"))
    about = (
        f"Selftests with {seeds} seeds, the same before and after, in virtual time (polypath linux ab). Before: Linux {before.release} "
        f"({before.name}); after: Linux {after.release} ({after.name}). A failure that the test itself ignores counts. "
        "Milliseconds are means over the seeds that pass on both, changes with their paired 95 % intervals; "
        f"{sum(speaks)} of {len(timed)} are significant (of them at most {100 * LEVEL:.0f} % by chance, after Benjamini and Hochberg). "
        "A seed is another run on another build, so some seeds change by chance."
    )
    return "\n".join([*lines, "", *textwrap.wrap(about, _WIDTH), ""])


def _kernels(tree: list[str], jobs: int | None, variant: str = "") -> list[linux.Kernel]:
    kernels = [_kernel(tree, number, jobs, variant) for number in (0, 1)]
    if kernels[0].key == kernels[1].key:
        raise StudyError(f"{tree[0]} and {tree[1]} give the same kernel to the byte, so there is nothing to compare")
    return kernels


def _kernel(trees: list[str], number: int, jobs: int | None, variant: str) -> linux.Kernel:
    """The kernel that an argument means: one that was built, or one that is built now under a name
    of its own.
    """
    tree = trees[number]
    built = {kernel.name: kernel for kernel in linux.installed()}
    if not Path(tree).exists() and tree in built and (not variant or built[tree].variant):
        return linux.find(tree)
    if not Path(tree).exists():
        return linux.build(tree, prove=prove, variant=variant, jobs=jobs, say=say)
    path = Path(tree).resolve()
    say(f"{('before', 'after')[number]}: {path}")
    name = "ab-" + (re.sub(r"[^\w.+-]+", "-", path.name) or "tree")
    if Path(trees[1 - number]).resolve().name == path.name:
        name += ("-before", "-after")[number]
    return linux.build(tree, prove=prove, name=name, variant=variant, jobs=jobs, say=say)


_UNIT = {"completion_s": "s"}


def _rows(compared: Comparison) -> list[dict[str, Any]]:
    """Of each cell and flow what changed."""
    from polypath.analysis import significant

    rows = compared.rows[compared.rows["distance"].notna()]
    distances: list[Distance] = list(rows["distance"])
    return [
        {name: str(row[name]) for name in compared.by}
        | {"before": each.reference, "after": each.ours, "unit": _UNIT.get(row["metric"], "Mbit/s")}
        | _change(each, significant=real)
        for (_, row), each, real in zip(rows.iterrows(), distances, significant([each.p for each in distances]), strict=True)
    ]


def _text(study: str, kernels: list[linux.Kernel], compared: Comparison, starts: int) -> str:
    """A table and what of it is significant, as a commit message quotes it."""
    from polypath.analysis import LEVEL, PLATFORM, significant

    names = [name for name in compared.by if compared.rows[name].nunique(dropna=False) > 1]
    rows = compared.rows[compared.rows["distance"].notna()]
    distances: list[Distance] = list(rows["distance"])
    speaks = significant([distance.p for distance in distances])
    labels = [", ".join(str(row[name]) for name in names) or study for _, row in rows.iterrows()]
    width = max(map(len, ["", *labels]))
    lines = [f"{'':{width}}  {'before':>9}  {'after':>9}  {'':6}  change"]
    for (_, row), label, distance, real in zip(rows.iterrows(), labels, distances, speaks, strict=True):
        change = (
            f"{100 * distance.difference:+.1f} % ± {100 * distance.interval:.1f}"
            if math.isfinite(distance.difference)
            else "never finished"
        )
        mark = "" if real else "  (not significant)"
        lines.append(
            f"{label:{width}}  {distance.reference:9.2f}  {distance.ours:9.2f}  {_UNIT.get(row['metric'], 'Mbit/s'):6}  {change}{mark}"
        )
    before, after = kernels
    about = (
        f"Study {study}, {starts} starts of every cell, the same before and after, in virtual time (polypath linux ab). Before: Linux "
        f"{before.release} ({before.name}); after: Linux {after.release} ({after.name}). Changes are of the means, with their paired 95 % "
        f"intervals; {sum(speaks)} of {len(distances)} rows are significant (paired t-test or Kolmogorov-Smirnov; of them at most "
        f"{100 * LEVEL:.0f} % by chance, after Benjamini and Hochberg)."
    )
    assert compared.rows[PLATFORM].nunique() == 2
    return "\n".join([*textwrap.wrap(about, _WIDTH), "", *(line.rstrip() for line in lines), ""])
