"""`polypath linux ab`."""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath import linux, programs, selftests
from polypath.engines import NONE, find, prove
from polypath.results import DEFAULT_OUT, Results, plan
from polypath.study import FEWEST_STARTS, StudyError, Time

from . import _studies
from ._console import err, give, out, quantity_of, say
from ._linux_bisect import Jobs
from ._linux_selftests import DEFAULT_OUT as SELFTESTS_OUT
from ._linux_selftests import VARIANT, number_of_tests, sources_of, tell_worst, tests_of, write
from ._linux_selftests import carry_out as carry_out_tests
from ._work import AsJson, Only, Short, Workers, carry_out, choices, in_form

if TYPE_CHECKING:
    from polypath.analysis import Comparison, Distance

STARTS = 20
# As wide as the lines of a commit message.
_WIDTH = 75
_SIDES = ("before", "after")


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

    Ends with a text for the commit message. Tests leave their tables in before/ and after/ of the
    folder; exit status 1 if a subtest newly fails that its test does not ignore, or a run has no
    result.
    """
    if len(tree) != 2:
        raise StudyError("ab compares two kernels: name both, like --tree linux-before --tree linux-after")
    if len({Path(each).resolve() if Path(each).exists() else each for each in tree}) == 1:
        raise StudyError(f"both --tree are {tree[0]}, so there is nothing to compare")
    if what[0] == "selftests":
        _selftests(what[1:], tree, out_folder, workers, jobs, as_json=as_json)
        return
    if len(what) > 1:
        raise StudyError(f"ab compares one study, and {len(what)} are named; tests come behind `-- selftests`")
    (study,) = what
    within = quantity_of("--spread", spread, Time, StudyError)
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
    text = _text(loaded.name, _sources(tree, kernels), compared, starts)
    _tell(text, plans[-1].folder, _rows(compared), as_json=as_json)


def _selftests(words: list[str], tree: list[str], out_folder: Path, workers: int | None, jobs: int | None, *, as_json: bool) -> None:
    """Runs the tests of the second tree on both kernels, and tells what they say differently."""
    names, seeds = _tests_and_seeds(words)
    linux.require(say, selftests.USE)
    kernels = _kernels(tree, jobs, VARIANT)
    tests = tests_of(names or ["mptcp"], tree[1], say)
    folder = SELFTESTS_OUT if out_folder == DEFAULT_OUT else out_folder
    todo = selftests.jobs(tests, seeds)
    both = []
    without_result = False
    for side, kernel in zip(_SIDES, kernels, strict=True):
        records, failed = carry_out_tests(selftests.Runner(kernel, folder / "runs"), todo, workers, number_of_tests(tests), NONE)
        for job, why in failed:
            err.print(f"polypath: {job.test.name} with seed {job.seed} has no result on {kernel.name}: {why}", markup=False, soft_wrap=True)
        both.append(records)
        without_result |= bool(failed)
        write(folder / side, records, selftests.rows(records))
    pairs = selftests.pairs(*both)
    text = _summary(pairs, _sources(tree, kernels), len(seeds))
    _tell(
        text,
        folder,
        _rows_of(pairs),
        as_json=as_json,
        **tell_worst(((pair.test, seed, seed in pair.ignored) for pair in pairs for seed in pair.newly), tree[1], newly=True),
    )
    if without_result or any(pair.counts for pair in pairs):
        raise typer.Exit(1)


def _tell(text: str, folder: Path, rows: list[dict[str, Any]], *, as_json: bool, **more: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ab.txt").write_text(text, encoding="utf-8")
    out.print(text, markup=False, highlight=False, soft_wrap=True)
    out.print(f"for the commit message: {folder / 'ab.txt'}", soft_wrap=True)
    if as_json:
        give({"folder": str(folder), "text": text, "rows": rows, **more})


def _sources(trees: list[str], kernels: list[linux.Kernel]) -> str:
    """What both kernels were made of, as a reader of the commit message knows it."""
    before, after = (f"Linux {kernel.release}, {_source(tree)}" for tree, kernel in zip(trees, kernels, strict=True))
    return f"Before: {before}; after: {after}."


def _source(tree: str) -> str:
    """The commit of a git tree with its subject; another folder or a kernel by its name."""
    path = Path(tree).resolve()
    if not path.exists():
        return tree

    def git(*words: str) -> str:
        # A repository of another user's is read all the same: its owner asked for it.
        done = programs.run("git", "-c", "safe.directory=*", *words, cwd=path)
        return "" if done.returncode else done.stdout.strip()

    # A folder below a repository's root is another tree.
    if not path.is_dir() or programs.find("git") is None or not (top := git("rev-parse", "--show-toplevel")) or Path(top) != path:
        return path.name
    commit = git("log", "-1", '--format=%h ("%s")')
    return commit + " and changes that are not committed" * bool(git("status", "--porcelain", "--untracked-files=no"))


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


def _change(distance: Distance, p: float, *, significant: bool) -> dict[str, Any]:
    """A change for programs; what never finished is null."""
    figures = {"change": distance.difference, "interval": distance.interval, "p": p}
    return {name: value if math.isfinite(value) else None for name, value in figures.items()} | {"significant": significant}


def _rows_of(pairs: list[selftests.Pair]) -> list[dict[str, Any]]:
    """What became of each subtest, and of its milliseconds where it tells them."""
    from polypath.analysis import distance, significant

    distances = [distance(pair.after_ms, pair.before_ms) if len(pair.before_ms) > 1 else None for pair in pairs]
    # Of the test to which the interval belongs.
    real = iter(significant([each.p_mean for each in distances if each]))
    return [
        {"test": pair.test, "subtest": pair.subtest, "seeds": pair.seeds, "alone": pair.alone}
        | {"newly": pair.newly, "ignored": pair.ignored, "mended": pair.mended, "both": pair.both, "newly_p": pair.p}
        | (
            {}
            if each is None
            else {"before": each.reference, "after": each.ours, "unit": "ms", "n": each.n}
            | _change(each, each.p_mean, significant=next(real))
        )
        for pair, each in zip(pairs, distances, strict=True)
    ]


def _summary(pairs: list[selftests.Pair], sources: str, seeds: int) -> str:
    """First the subtests that newly fail, then the milliseconds, as a commit message quotes both."""
    tests = list(dict.fromkeys(pair.test for pair in pairs))
    label = {id(pair): pair.subtest if len(tests) == 1 else f"{pair.test}: {pair.subtest}" for pair in pairs}
    newly = sorted((pair for pair in pairs if pair.newly), key=lambda pair: not pair.counts)
    ignored = sum(not pair.counts for pair in newly)
    lines = _heading(len(newly), "fail", "passed", f" (the test itself ignores {ignored})" if ignored else "")
    lines += _listed([(pair, pair.newly, pair.mended, "" if pair.counts else "ignored: ") for pair in newly], label)
    mended = [pair for pair in pairs if pair.mended]
    lines += _heading(len(mended), "pass", "failed")
    lines += _listed([(pair, pair.mended, pair.newly, "") for pair in mended], label)
    if alone := [f"{label[id(pair)]} ({len(pair.alone)})" for pair in pairs if pair.alone]:
        lines += _named("skipped or not reached on one of both kernels, in so many seeds: ", alone)
    table, speaks = _times([pair for pair in pairs if len(pair.before_ms) > 1], label)
    lines += ["", *table]
    if bare := [label[id(pair)] for pair in pairs if len(pair.before_ms) < 2 and pair.subtest != selftests.EXIT and table]:
        lines += _named("without milliseconds on both: ", bare)
    about = (
        f"Selftests {tests[0] if len(tests) == 1 else f'({len(tests)} tests)'} with {_seeds(seeds)}, the same before and after, in virtual "
        f"time (polypath linux ab). {sources} A few seeds change with any other build; p is how probable so one-sided a change is by "
        "chance alone (McNemar's exact test)."
    )
    if speaks:
        about += (
            " Milliseconds are means over the seeds that have them on both, failed ones too, changes with their paired 95 % intervals. "
            f"By the paired t-test {sum(speaks)} of {_rows_in_words(len(speaks))} changed significantly{_by_chance(sum(speaks))}."
        )
    return "\n".join([*lines, "", *textwrap.wrap(about, _WIDTH, break_on_hyphens=False), ""])


def _rows_in_words(number: int) -> str:
    return "1 row" if number == 1 else f"{number} rows"


def _by_chance(number: int) -> str:
    """What the correction for many rows promises."""
    from polypath.analysis import LEVEL

    return f", at most {100 * LEVEL:.0f} % of them by chance alone (Benjamini and Hochberg)" if number else ""


def _seeds(number: int) -> str:
    return "1 seed" if number == 1 else f"{number} seeds"


def _heading(number: int, does: str, did: str, more: str = "") -> list[str]:
    """How many subtests changed so."""
    who, they = (
        (f"1 subtest {does}{'es' if does == 'pass' else 's'}", "it") if number == 1 else (f"{number or 'no'} subtests {does}", "they")
    )
    return _paragraph(f"{who} in seeds in which {they} {did} before{more}" + ":" * bool(number), "")


def _listed(changed: list[tuple[selftests.Pair, list[int], list[int], str]], label: dict[int, str]) -> list[str]:
    """A paragraph for each of the first subtests, with its seeds; with their number and p where not
    more of them changed the other way.
    """
    lines = []
    for pair, seeds, other, mark in changed[:_NAMED]:
        failing = (len(pair.both) + len(pair.mended), len(pair.both) + len(pair.newly))
        counts = f"{failing[0]} of {_seeds(len(pair.seeds))} failed before, {failing[1]} after; p {pair.p:.2g}"
        if len(other) > len(seeds):
            counts = f"{len(other)} seeds the other way"
        lines += _paragraph(f"{mark}{label[id(pair)]}: {selftests.seeds_text(seeds)} ({counts})")
    return lines + [f"  and {len(changed) - _NAMED} subtests more"] * (len(changed) > _NAMED)


def _paragraph(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)


def _named(what: str, names: list[str]) -> list[str]:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return _paragraph(what + ", ".join(names[:_NAMED]) + more, "")


def _times(timed: list[selftests.Pair], label: dict[int, str]) -> tuple[list[str], list[bool]]:
    """The table of milliseconds, and whose change is significant."""
    from polypath.analysis import distance, significant

    if not timed:
        return ["no subtest has milliseconds with two seeds on both kernels"], []
    distances = [distance(pair.after_ms, pair.before_ms) for pair in timed]
    speaks = significant([each.p_mean for each in distances])
    labels = [text if len(text := label[id(pair)]) <= _LONGEST else text[: _LONGEST - 1] + "…" for pair in timed]
    width = max(map(len, labels))
    lines = [f"{'':{width}}  seeds  {'before':>9}  {'after':>9}  ms  change"]
    for pair, each, text, real in zip(timed, distances, labels, speaks, strict=True):
        notes = ["not significant"] * (not real) + [f"newly fails with {len(pair.newly)}"] * bool(pair.newly)
        change = f"{100 * each.difference:+.1f} % ± {100 * each.interval:.1f}" + (f"  ({', '.join(notes)})" if notes else "")
        lines.append(f"{text:{width}}  {each.n:5}  {each.reference:9.1f}  {each.ours:9.1f}  ms  {change}")
    return lines, speaks


def _kernels(tree: list[str], jobs: int | None, variant: str = "") -> list[linux.Kernel]:
    kernels = [_kernel(tree, number, jobs, variant) for number in (0, 1)]
    if kernels[0].key == kernels[1].key:
        raise StudyError(f"{tree[0]} and {tree[1]} give the same kernel to the byte, so there is nothing to compare")
    return kernels


def _kernel(trees: list[str], number: int, jobs: int | None, variant: str) -> linux.Kernel:
    """The kernel that an argument means: one that was built, or one that is built now under a name
    of its own.
    """
    side, tree = _SIDES[number], trees[number]

    def tell(text: str) -> None:
        say(f"{side}: {text}")

    if not Path(tree).exists():
        # A release that was built is taken as it is.
        if any(kernel.name == tree and (kernel.variant or not variant) for kernel in linux.installed()):
            return linux.find(tree)
        sources, variant = sources_of(tree) if variant else (tree, "")
        return linux.build(sources, prove=prove, variant=variant, jobs=jobs, any_name=True, say=tell)
    path = Path(tree).resolve()
    tell(str(path))
    name = "ab-" + (re.sub(r"[^\w.+-]+", "-", path.name) or "tree")
    if Path(trees[1 - number]).resolve().name == path.name:
        name += f"-{side}"
    return linux.build(tree, prove=prove, name=name, variant=variant, jobs=jobs, any_name=True, say=tell)


_UNIT = {"completion_s": "s"}
_METRICS = {"completion_s": "completion time", "goodput_receiver_mbps": "goodput at the receiver"}


def _rows(compared: Comparison) -> list[dict[str, Any]]:
    """Of each cell and flow what changed."""
    from polypath.analysis import significant

    rows = compared.rows[compared.rows["distance"].notna()]
    distances: list[Distance] = list(rows["distance"])
    return [
        {name: str(row[name]) for name in compared.by}
        | {"before": each.reference, "after": each.ours, "unit": _UNIT.get(row["metric"], "Mbit/s")}
        | _change(each, each.p, significant=real)
        for (_, row), each, real in zip(rows.iterrows(), distances, significant([each.p for each in distances]), strict=True)
    ]


def _text(study: str, sources: str, compared: Comparison, starts: int) -> str:
    """A table and what of it is significant, as a commit message quotes it."""
    from polypath.analysis import PLATFORM, significant

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
        # The interval is of the mean; a distribution may change without it.
        alone = real and abs(distance.difference) <= distance.interval
        mark = "  (its distribution, not its mean)" if alone else "" if real else "  (not significant)"
        lines.append(
            f"{label:{width}}  {distance.reference:9.2f}  {distance.ours:9.2f}  {_UNIT.get(row['metric'], 'Mbit/s'):6}  {change}{mark}"
        )
    measured = " and ".join(_METRICS[metric] for metric in dict.fromkeys(rows["metric"]))
    about = (
        f"Study {study}, {starts} starts of every cell, the same before and after, in virtual time (polypath linux ab). {sources} "
        f"Changes are of the mean {measured}, with their paired 95 % intervals. By the paired t-test or that of Kolmogorov and Smirnov "
        f"{sum(speaks)} of {_rows_in_words(len(speaks))} changed significantly{_by_chance(sum(speaks))}."
    )
    assert compared.rows[PLATFORM].nunique() == 2
    return "\n".join([*textwrap.wrap(about, _WIDTH), "", *(line.rstrip() for line in lines), ""])
