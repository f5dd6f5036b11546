"""`polypath linux ab`."""

from __future__ import annotations

import math
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath import linux
from polypath.engines import find, prove
from polypath.results import DEFAULT_OUT, Results, plan
from polypath.study import FEWEST_STARTS, StudyError, Time

from . import _studies
from ._console import err, out
from ._linux_bisect import Jobs
from ._steps import say
from ._work import Only, Short, Workers, carry_out, choices, in_form

if TYPE_CHECKING:
    from polypath.analysis import Comparison, Distance

STARTS = 20
# As wide as the lines of a commit message.
_WIDTH = 75


def ab(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Folder or file of a study, or the name of one in ./studies.")],
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
) -> None:
    """Compare a study before and after a patch, over the same starts: what changed, by how much,
    and what of it is significant.

    Ends with a text for the commit message.
    """
    if len(tree) != 2:
        raise StudyError("ab compares two kernels: name both, like --tree linux-before --tree linux-after")
    try:
        within = Time(spread)
    except ValueError as error:
        raise StudyError(f"--spread: {error}") from None
    (loaded,) = in_form([_studies.load(study)], short=short)
    loaded = loaded.over_starts(starts, within)
    kernels = [_kernel(tree, number, jobs) for number in (0, 1)]
    if kernels[0].key == kernels[1].key:
        raise StudyError(f"{tree[0]} and {tree[1]} give the same kernel to the byte, so there is nothing to compare")
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
    file = plans[-1].folder / "ab.txt"
    file.write_text(text, encoding="utf-8")
    out.print(text, markup=False, highlight=False, soft_wrap=True)
    out.print(f"for the commit message: {file}", soft_wrap=True)


def _kernel(trees: list[str], number: int, jobs: int | None) -> linux.Kernel:
    """The kernel that an argument means: one that was built, or one that is built now under a name
    of its own.
    """
    tree = trees[number]
    if not Path(tree).exists() and tree in [kernel.name for kernel in linux.installed()]:
        return linux.find(tree)
    if not Path(tree).exists():
        return linux.build(tree, prove=prove, jobs=jobs, say=say)
    path = Path(tree).resolve()
    name = "ab-" + (re.sub(r"[^\w.+-]+", "-", path.name) or "tree")
    if Path(trees[1 - number]).resolve().name == path.name:
        name += ("-before", "-after")[number]
    return linux.build(tree, prove=prove, name=name, jobs=jobs, say=say)


def _text(study: str, kernels: list[linux.Kernel], compared: Comparison, starts: int) -> str:
    """A table and what of it is significant, as a commit message quotes it."""
    from polypath.analysis import LEVEL, PLATFORM, significant

    names = [name for name in compared.by if compared.rows[name].nunique(dropna=False) > 1]
    rows = compared.rows[compared.rows["distance"].notna()]
    distances: list[Distance] = list(rows["distance"])
    speaks = significant([distance.p for distance in distances])
    labels = [", ".join(str(row[name]) for name in names) or study for _, row in rows.iterrows()]
    width = max(map(len, ["", *labels]))
    unit = {"completion_s": "s"}
    lines = [f"{'':{width}}  {'before':>9}  {'after':>9}  {'':6}  change"]
    for (_, row), label, distance, real in zip(rows.iterrows(), labels, distances, speaks, strict=True):
        change = (
            f"{100 * distance.difference:+.1f} % ± {100 * distance.interval:.1f}"
            if math.isfinite(distance.difference)
            else "never finished"
        )
        mark = "" if real else "  (not significant)"
        lines.append(
            f"{label:{width}}  {distance.reference:9.2f}  {distance.ours:9.2f}  {unit.get(row['metric'], 'Mbit/s'):6}  {change}{mark}"
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
