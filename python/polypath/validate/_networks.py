"""Runs drawn networks in the simulator and on a kernel, over the same starts, and judges each flow
as a distribution.
"""

import csv
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TextIO, TypeAlias

import pandas as pd
from rich.console import Console

from polypath.analysis import Distance, Standing, distance, in_words
from polypath.engines import find
from polypath.results import Plan, execute, plan
from polypath.study import Run, Study
from polypath.validate._drawn import COLUMNS
from polypath.validate._show import table_of


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One flow of one drawn network. `linux` and `sim` have the goodput of each start, Mbit/s."""

    network: str
    title: str
    flow: str
    cc: str
    linux: tuple[float, ...]
    sim: tuple[float, ...]

    @property
    def kind(self) -> str:
        return self.network[0]

    @property
    def distance(self) -> Distance:
        return distance(self.sim, self.linux)


def run_networks(
    study: Study,
    *,
    kernel: str,
    out: Path,
    measured: Sequence[Flow] | None = None,
    workers: int | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, of: None,
) -> list[Flow]:
    """Every flow of every network, in the order of the draw. Finished runs are never run again.

    With `measured`, what an earlier call found of the same networks and starts, Linux's side is
    taken from there and only the simulator runs; a `ValueError` tells of other networks or starts.
    """
    linux = _rates(study, "linux", kernel, out, workers, progress) if measured is None else _of(study, measured)
    # The simulator's hosts have the same kernel.
    sim = _rates(study.model_copy(update={"kernel": kernel}), "sim", None, out, workers, progress)
    return [
        Flow(network=name, title=experiment.title or name, flow=flow, cc=flow_setup.cc, linux=linux[name, flow], sim=sim[name, flow])
        for name, experiment in study.all_experiments.items()
        for flow, flow_setup in (experiment.flows or study.flows).items()
    ]


_Rates: TypeAlias = Mapping[tuple[str, str], tuple[float, ...]]
"""By network and flow: the goodput of every start, Mbit/s."""


def _rates(
    study: Study, engine: str, kernel: str | None, out: Path, workers: int | None, progress: Callable[[str, int, int], None]
) -> _Rates:
    planned = plan(study, engine=find(engine), out=out, kernel=kernel)
    runs = execute(planned, workers=workers, progress=_counter(planned, progress)).runs
    engine_runs = runs[(runs["engine"] == engine) & runs["key"].isin({run.key for run in planned.runs})]
    return {
        (str(network), str(flow)): tuple(_by_seed(rows))
        for (network, flow), rows in engine_runs.groupby(["experiment", "flow"], sort=False)
    }


def _of(study: Study, measured: Sequence[Flow]) -> _Rates:
    """Linux's side of what was measured before, if it was of these networks and as many starts."""
    titles = {name: experiment.title for name, experiment in study.all_experiments.items()}
    if {flow.network: flow.title for flow in measured} != titles:
        raise ValueError("it has other networks")
    if any(len(flow.linux) != len(study.seeds) for flow in measured):
        raise ValueError(f"it has {len(measured[0].linux)} starts a flow, and {len(study.seeds)} are asked for")
    return {(flow.network, flow.flow): flow.linux for flow in measured}


def _counter(planned: Plan, progress: Callable[[str, int, int], None]) -> Callable[[Run], None]:
    done = 0

    def count(run: Run) -> None:
        nonlocal done
        done += 1
        progress(planned.engine.name, done, len(planned.pending))

    return count


def _by_seed(rows: pd.DataFrame) -> list[float]:
    """As `write_csv` keeps them, so that what was kept is judged as what was found."""
    return [float(f"{value:.6g}") for value in rows.sort_values("seed")["goodput_receiver_mbps"]]


def rows_of(flows: Iterable[Flow]) -> list[dict[str, Any]]:
    """A row a flow, with what COLUMNS names."""
    return [_row(flow, flow.distance) for flow in flows]


def _row(flow: Flow, distance: Distance) -> dict[str, Any]:
    figures = {"linux_mbps": distance.reference, "sim_mbps": distance.ours, **distance.figures}
    words = {"network": flow.network, "kind": flow.kind, "flow": flow.flow, "cc": flow.cc, "starts": distance.n}
    return {**words, **{name: _rounded(value) for name, value in figures.items()}, "title": flow.title}


def _rounded(value: float | str) -> float | str | None:
    return value if isinstance(value, str) else round(value, 4) if math.isfinite(value) else None


def write_csv(flows: Iterable[Flow], stream: TextIO = sys.stdout) -> None:
    """A row a flow and, behind what was found, the goodput of each start on both: all figures can
    be computed again from it.
    """
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for flow in flows:
        row = _row(flow, flow.distance)
        starts = [" ".join(f"{value:.6g}" for value in values) for values in (flow.linux, flow.sim)]
        writer.writerow([*(row[name] for name in COLUMNS[:-2]), *starts])


def read_csv(file: Path) -> list[Flow]:
    """What `write_csv` wrote; verdicts follow from the starts, not from what stands beside them."""
    with file.open(newline="", encoding="utf-8") as stream:
        return [
            Flow(
                network=row["network"],
                title=row["title"],
                flow=row["flow"],
                cc=row["cc"],
                linux=tuple(map(float, row["linux_starts"].split())),
                sim=tuple(map(float, row["sim_starts"].split())),
            )
            for row in csv.DictReader(stream)
        ]


def summary(flows: list[Flow]) -> str:
    distances = [flow.distance for flow in flows]
    off = [abs(distance.difference) for distance in distances]
    ten = sum(share <= 0.1 for share in off) / len(off)
    return f"{in_words(distances)} The median flow is {100 * median(off):.1f} % off, {100 * ten:.0f} % are within 10 %."


def to_markdown(flows: list[Flow]) -> str:
    """The counts by kind of network, a row for each flow that differs, the furthest first, and what
    it comes to.
    """
    lines = ["| kind | within 5 % | not told apart | differs | share |", "|---|---:|---:|---:|---:|"]
    kinds = [(kind, [flow for flow in flows if flow.kind == kind]) for kind in dict.fromkeys(flow.kind for flow in flows)]
    for name, part in [*kinds, ("all", flows)]:
        near, alike, apart = (sum(flow.distance.standing is standing for flow in part) for standing in Standing)
        lines.append(f"| {name} | {near} | {alike} | {apart} | {100 * (near + alike) / len(part):.0f} % |")
    lines += ["", "| differs | flow | Linux | simulated | difference | p (means) | p (KS) | network |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|---|")
    for flow, gap in _differing(flows):
        figures = f"{gap.reference:.2f} | {gap.ours:.2f} | {100 * gap.difference:+.1f} ± {100 * gap.interval:.1f} %"
        lines.append(f"| {flow.network} | {flow.flow} | {figures} | {gap.p_mean:.3f} | {gap.p_ks:.3f} | {flow.title} |")
    return "\n".join([*lines, "", summary(flows)]) + "\n"


def _differing(flows: list[Flow]) -> list[tuple[Flow, Distance]]:
    pairs = [(flow, flow.distance) for flow in flows]
    return sorted(
        ((flow, distance) for flow, distance in pairs if distance.standing is Standing.APART), key=lambda pair: -abs(pair[1].difference)
    )


def show(flows: list[Flow], console: Console, *, only_differing: bool = False) -> None:
    table = table_of("network", "flow", ">Linux", ">simulated", ">difference", ">p (means)", ">p (KS)", "verdict")
    table.add_column("drawn", style="dim", overflow="fold")
    styles = {Standing.NEAR: "green", Standing.ALIKE: "green", Standing.APART: "red"}
    for flow in flows:
        distance = flow.distance
        if only_differing and distance.standing is not Standing.APART:
            continue
        table.add_row(
            flow.network,
            flow.flow,
            f"{distance.reference:.2f}",
            f"{distance.ours:.2f}",
            f"{100 * distance.difference:+.1f} ± {100 * distance.interval:.1f} %",
            f"{distance.p_mean:.3f}",
            f"{distance.p_ks:.3f}",
            f"[{styles[distance.standing]}]{distance.standing.value}[/]",
            flow.title,
        )
    console.print(table)
    console.print("Mbit/s read by the receiver, means over the same starts on both; ± is a 95 % interval.", style="dim")
    console.print(summary(flows), soft_wrap=True, highlight=False)
