"""`polypath linux bisect`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from polypath import linux, selftests
from polypath.engines import prove

from ._console import give, out, say
from ._work import AsJson

DEFAULT_OUT = Path("results/bisect")
REPORT = "report.md"
# Beyond the seeds of both ends a commit may take so many times more.
_MORE = 3
# What the step's exit statuses mean to git; every other one stops the search instead of passing for
# a bad commit.
_STATUSES = {"good": 40, "bad": 41, "skip": 42}
_AS_GIT = '"$@"; case $? in 40) exit 0;; 41) exit 1;; 42) exit 125;; *) exit 255;; esac'
_SELF = (sys.executable, "-c", "from polypath.cli import main; main()")

Workers = Annotated[int | None, typer.Option(min=1, help="Machines at once; default: one a core. It changes no verdict.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Compilers at once; default: one a core.")]


def bisect(
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND", help="selftests TEST... [--subtest NAME], or run STUDY --check CLAIM."),
    ],
    tree: Annotated[Path, typer.Option(help="A git repository with the sources of Linux; its checkout stays as it is.")],
    good: Annotated[str, typer.Option(help="A commit at which it was well.")],
    bad: Annotated[str, typer.Option(help="A later commit at which it is not.")],
    seeds: Annotated[str, typer.Option(help="Seeds with which both ends are run first, such as 1..10.")] = "1..10",
    error: Annotated[float, typer.Option(min=0.0001, max=0.2, help="How probable a wrong answer of the whole search may be.")] = 0.05,
    out_folder: Annotated[Path, typer.Option("--out", help="Its folder; the same command goes on with what is in it.")] = DEFAULT_OUT,
    workers: Workers = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Find the commit that broke a test or a claim: git's own bisect, and seeds that decide on each
    commit with a stated error.

    Both ends are run with all seeds first, and must differ. A commit between them takes only as
    many seeds as its verdict needs, and the build compiles only what changed. The folder gets
    report.md.
    """
    from polypath.bisect import Asked, BisectError, Session, git

    linux.require(say)
    wanted = tuple(selftests.seeds_of(seeds))
    source = tree.resolve()
    if not source.is_dir():
        raise BisectError(f"there is no folder {tree}")
    commits = {name: git(source, "rev-parse", "--verify", f"{name}^{{commit}}").strip() for name in (good, bad)}
    between = _between(source, commits[good], commits[bad])
    if not between:
        raise BisectError(f"{bad} does not come after {good} in {tree}: exchange them, or choose commits of one line")
    session = Session(out_folder)
    if session.answer() is None and not session.tree.is_dir():
        say(f"checking out {bad} in {session.tree}")
    session.begin(Asked(tree=str(source), good=commits[good], bad=commits[bad], command=_absolute(command), seeds=wanted, error=error))
    answer = session.answer() or _search(session, good, bad, len(between), workers, jobs)
    report = session.folder / REPORT
    out.print(report.read_text(encoding="utf-8"), markup=False, highlight=False, soft_wrap=True)
    out.print(f"report: {report}", soft_wrap=True)
    if as_json:
        give({"folder": str(session.folder), "report": str(report), **answer})
    if len(answer["commits"]) > 1:
        raise typer.Exit(1)


def _search(session: Any, good: str, bad: str, between: int, workers: int | None, jobs: int | None) -> dict[str, Any]:
    """Runs both ends, has git search between them and writes the report; what was found."""
    from polypath.bisect import BisectError, steps_of, told_apart

    asked = session.asked()
    ends = []
    for commit in (asked.good, asked.bad):
        kept = session.kept(commit)
        # Earlier versions wrote a verdict over an end.
        if kept is None or "verdict" in kept:
            session.checkout(commit)
            kept = _judge_tree(session, workers, jobs, None)
        ends.append((sum(kept["failed"].values()), len(kept["failed"])))
    chance = told_apart(*ends)
    if chance > asked.error:
        (few, runs), (many, of) = ends
        raise BisectError(
            f"the seeds do not tell the two ends apart: {few} of {runs} fail at {good}, {many} of {of} at {bad} (by chance with "
            f"p = {chance:.2g}); give more --seeds with another --out, or other commits"
        )
    session.start()
    # Of a single commit git knows the answer at once.
    if session.culprit() is None:
        options = [*(("--workers", str(workers)) if workers else ()), *(("--jobs", str(jobs)) if jobs else ())]
        session.run("sh", "-c", _AS_GIT, "sh", *_SELF, "linux", "bisect-step", str(session.folder), *options)
    culprits = session.culprit()
    if culprits is None:
        raise BisectError(f"git bisect ended without an answer; {session.folder}/commits has what was found")
    error_of_each = asked.error / steps_of(between) if between > 1 else None
    text = _report(session, culprits.commits, ends, chance, error_of_each)
    (session.folder / REPORT).write_text(text, encoding="utf-8")
    judged = [{**kept, "about": session.about(kept["commit"])} for kept in session.all_kept()]
    answer = {"commits": list(culprits.commits), "rows": judged}
    session.end(answer)
    return answer


def bisect_step(
    folder: Annotated[Path, typer.Argument(help="The folder of a bisect.")], workers: Workers = None, jobs: Jobs = None
) -> None:
    """Judge what the tree of a bisect is checked out at; git calls it."""
    from polypath.bisect import Sequential, Session, rate, steps_of

    session = Session(folder)
    asked, commit = session.asked(), session.commit()
    if commit in (asked.good, asked.bad):
        # What was found of an end stays; a verdict would take its place.
        raise typer.Exit(_STATUSES["good" if commit == asked.good else "bad"])
    kept = session.kept(commit)
    if kept is None:
        ends = [session.kept(commit) for commit in (asked.good, asked.bad)]
        low, high = (rate(sum(end["failed"].values()), len(end["failed"])) for end in ends if end)
        kept = _judge_tree(
            session, workers, jobs, Sequential(low, high, asked.error / steps_of(len(_between(session.tree, asked.good, asked.bad))))
        )
    raise typer.Exit(_STATUSES[kept["verdict"] or "skip"])


def _between(tree: Path, good: str, bad: str) -> list[str]:
    """The commits that may be the first bad one."""
    from polypath.bisect import git

    return git(tree, "rev-list", "--ancestry-path", f"{good}..{bad}").split()


def _judge_tree(session: Any, workers: int | None, jobs: int | None, test: Any) -> dict[str, Any]:
    """Builds what the tree is at, runs it and writes down what became of it."""
    from polypath.bisect import judge, trial_of

    asked, commit = session.asked(), session.commit()
    variant, make = trial_of(asked.command, session.folder, lambda: _tests(session), say)
    say(f"{session.about(commit)}: building")
    began = time.monotonic()
    name = f"bisect-{commit[:12]}"
    try:
        kernel = linux.build(str(session.tree), prove=prove, name=name, variant=variant, jobs=jobs)
    except linux.KernelError as error:
        if test is None:
            raise
        judgement: dict[str, Any] = {"verdict": "skip", "why": str(error), "failed": {}, "build_s": time.monotonic() - began, "runs_s": 0}
        say(f"{session.about(commit)}: skipped, it cannot be built")
    else:
        built = time.monotonic()
        first = (
            asked.seeds if test is None else (*asked.seeds, *range(max(asked.seeds) + 1, max(asked.seeds) + 1 + _MORE * len(asked.seeds)))
        )
        judged = judge(make(kernel), first, test, workers=workers or os.cpu_count() or 1)
        times = {"build_s": built - began, "runs_s": time.monotonic() - built}
        judgement = {"failed": {str(seed): failed for seed, failed in judged.failed.items()}, **times, "kernel": kernel.key}
        if test is not None:
            judgement["verdict"] = judged.verdict
        twin = _twin(session.all_kept(), judgement)
        same = f"; {_taken_over(session, twin)}" if twin else ""
        say(f"{session.about(commit)}: {judged.verdict or ('undecided' if test else 'an end')}, {_failing(judgement)}{same}")
        linux.remove(kernel.name)
    session.keep(commit, judgement)
    return judgement


def _tests(session: Any) -> Path:
    """The tests of the bad commit's sources, the same for every commit."""
    file = session.folder / "tests"
    if not file.exists():
        at = session.commit()
        session.checkout(session.asked().bad)
        file.write_text(str(linux.selftests(str(session.tree), say) / linux.TESTS), encoding="utf-8")
        session.checkout(at)
    return Path(file.read_text(encoding="utf-8"))


def _absolute(command: list[str]) -> tuple[str, ...]:
    """The study as a path that means the same in any folder."""
    from . import _studies

    return tuple(str(_studies.path(word).resolve()) if number == 1 and command[0] == "run" else word for number, word in enumerate(command))


def _failing(judgement: dict[str, Any]) -> str:
    runs = judgement["failed"]
    return f"{sum(runs.values())} of {len(runs)} seeds fail, build {judgement['build_s']:.0f} s, runs {judgement['runs_s']:.0f} s"


def _twin(earlier: list[dict[str, Any]], judgement: dict[str, Any]) -> str | None:
    """The commit judged before whose kernel is the same to the byte: what it ran is taken over."""
    kernel = judgement.get("kernel")
    return next((kept["commit"] for kept in earlier if kernel and kept.get("kernel") == kernel), None)


def _taken_over(session: Any, twin: str) -> str:
    return f"the same kernel to the byte as {session.about(twin).split()[0]}, whose runs are taken over"


def _report(session: Any, culprits: tuple[str, ...], ends: list[tuple[int, int]], chance: float, error_of_each: float | None) -> str:
    """`error_of_each` is that of a commit's verdict, None where no commit lies between the ends."""
    from polypath.bisect import git

    asked = session.asked()
    lines = ["# Bisect", "", f"`{' '.join(asked.command)}`", ""]
    if len(culprits) == 1:
        lines += [f"First bad commit: **{session.about(culprits[0])}**", ""]
        lines += [f"    {line}".rstrip() for line in git(session.tree, "show", "--stat", "--format=fuller", culprits[0]).splitlines()]
    else:
        lines += ["One of these commits is the first bad one; the seeds do not decide which:", ""]
        lines += [f"- {session.about(culprit)}" for culprit in culprits]
    (few, runs), (many, of) = ends
    lines += [
        "",
        f"At the good end {few} of {runs} seeds fail, at the bad end {many} of {of} (Fisher's exact test: p = {chance:.2g}).",
    ]
    if error_of_each is not None:
        lines.append(
            f"Wald's sequential test judges each commit between them, with an error of {error_of_each:.2g}. The answer is wrong with a "
            f"probability of at most {asked.error:.2g}, if each commit fails as often as one of the two ends."
        )
    lines += ["", "| commit | verdict | fails with | seeds that fail | build, s | runs, s |", "|---|---|---|---|---|---|"]
    rows = session.all_kept()
    twins = {kept["commit"]: twin for number, kept in enumerate(rows) if (twin := _twin(rows[:number], kept))}
    for kept in rows:
        failing = [int(seed) for seed, failed in kept["failed"].items() if failed]
        verdict = kept["verdict"] or "undecided" if "verdict" in kept else "good end" if kept["commit"] == asked.good else "bad end"
        cells = (session.about(kept["commit"]), verdict, f"{len(failing)} of {len(kept['failed'])}", selftests.seeds_text(failing) or "–")
        lines.append("| " + " | ".join(cells) + f" | {kept['build_s']:.0f} | {kept['runs_s']:.0f} |")
    lines += [""] * bool(twins)
    lines += [f"{session.about(commit).split()[0]} gives {_taken_over(session, twin)}." for commit, twin in twins.items()]
    return "\n".join(lines) + "\n"
