"""`polypath diverge`."""

from __future__ import annotations

from typing import Annotated

import typer

from polypath import engines as engine_layer
from polypath.engines import SEGMENT_PARTS, describe_divergence, divergence_as_plain, find
from polypath.results import DEFAULT_OUT, plan
from polypath.study import Run, StudyError

from . import _studies
from ._console import give, out
from ._work import AsJson, CcPath, Only, Short, choices, in_form, names_in, use_custom


def diverge(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Folder or file of a study, or the name of one in ./studies.")],
    only: Only = None,
    kernel: Annotated[str | None, typer.Option(help="Linux kernel in place of the study's own.")] = None,
    short: Short = False,
    tolerance: Annotated[float, typer.Option(metavar="MS", min=0, help="How far apart times of the engines may be.")] = 0.1,
    ignore: Annotated[
        str | None, typer.Option(help=f"What of a segment is not compared, of {', '.join(SEGMENT_PARTS)}, with commas between.")
    ] = None,
    cc_path: CcPath = None,
    as_json: AsJson = False,
) -> None:
    """Find the first packet in which the simulator and a Linux kernel part in one run of a study.

    Both engines are exact, so the answer is a moment: the packet on each, what each sender knew
    then (windows, round trip, timeout, segments in flight), and the ten packets around it. Ports,
    first sequence numbers, keys and timestamps are no difference.

    Runs the first seed of the one cell that --only leaves. Exits with 1 if the engines part.
    """
    ignored = names_in(ignore)
    if unknown := [name for name in ignored if name not in SEGMENT_PARTS]:
        raise StudyError(f'--ignore: a segment has no part "{unknown[0]}"; there are {", ".join(SEGMENT_PARTS)}')
    use_custom(cc_path)
    (loaded,) = in_form([_studies.load(study)], short=short)
    engines = (find("sim"), find("linux"))
    first: list[Run] = []
    for engine in engines:
        work = plan(loaded, engine=engine, out=DEFAULT_OUT, only=choices(only), kernel=kernel)
        cells: dict[str, Run] = {}
        for run in work.every():
            if run.baseline is None:
                cells.setdefault(run.label.rpartition(", seed ")[0], run)
        if not cells:
            why = "; ".join(work.left_out) or "there is none"
            raise StudyError(f"{engine.name} runs no cell of {loaded.name} that --only leaves: {why}")
        if len(cells) > 1:
            raise StudyError(f"a divergence is of one cell: choose one of the {len(cells)} with --only ({'; '.join(cells)})")
        first.append(next(iter(cells.values())))
    on = first[1].kernel
    out.print(f"{loaded.name}: {first[0].label}, {on}", soft_wrap=True)
    difference = engine_layer.diverge(engines, (first[0].scenario, first[1].scenario), tolerance_s=tolerance / 1000, ignore=ignored)
    flows = [flow["name"] for flow in first[0].scenario["flows"]]
    if as_json:
        plain = None if difference is None else divergence_as_plain(difference, flows)
        give({"study": loaded.name, "cell": first[0].label, "kernel": on, "same": difference is None, "divergence": plain})
    if difference is None:
        out.print("the same packets on both engines")
        return
    out.print(describe_divergence(difference, flows), soft_wrap=True)
    raise typer.Exit(1)
