"""A table's cells over many starts: the simulator's distribution, a kernel's over the same starts,
and where the measured row lies.
"""

import json
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.console import Console
from scipy import stats

from polypath.analysis import Distance, Standing, discoveries, distance, in_words
from polypath.engines import find
from polypath.study import start_offset
from polypath.validate._ids import Setup
from polypath.validate._judge import mbps
from polypath.validate._run import Selection, Simulated, Simulator, scenario_key, simulate
from polypath.validate._scenario import for_kernel
from polypath.validate._show import table_of
from polypath.validate._table import Cell, TableError, read

SPREAD_MS = 20
NEAR = 0.05


@dataclass(frozen=True, kw_only=True)
class Spread:
    """One cell over many starts. `sim` and `kernel` have for each start the mean over the cell's
    repeats, Mbit/s.
    """

    cell: Cell
    sim: tuple[float, ...] = ()
    kernel: tuple[float, ...] = ()
    why: str | None = None

    @property
    def percentile(self) -> float:
        """Share of the simulated starts below the measured row, half of those that equal it."""
        below, equal = (sum(relation(self.cell.mbps, value) for value in self.sim) for relation in (operator.gt, operator.eq))
        return float(below + equal / 2) / len(self.sim)

    @property
    def inside(self) -> bool:
        """Whether the measured row lies between the lowest and the highest simulated start."""
        return min(self.sim) <= self.cell.mbps <= max(self.sim)

    @property
    def p(self) -> float:
        """How often one more draw lies as far from the mean of the starts, were they normal:
        Student's prediction interval.
        """
        away, error = self.cell.mbps - fmean(self.sim), stdev(self.sim) * math.sqrt(1 + 1 / len(self.sim))
        if error == 0:
            return 1.0 if away == 0 else 0.0
        return float(2 * stats.t.sf(abs(away / error), len(self.sim) - 1))

    @property
    def deviation(self) -> float:
        """Of the mean over the starts, from the measured row and relative to it."""
        return (fmean(self.sim) - self.cell.mbps) / self.cell.mbps if self.cell.mbps else 0.0

    @property
    def near(self) -> bool:
        return abs(self.deviation) <= NEAR

    @property
    def distance(self) -> Distance | None:
        """From the kernel over the same starts, where one ran."""
        return distance(self.sim, self.kernel) if self.kernel else None

    @property
    def words(self) -> str:
        """As one draw: near the mean, one of the starts, or neither."""
        if self.why:
            return "not simulated"
        return "within 5 %" if self.near else "one of its draws" if self.inside else "outside"


def run_starts(
    file: Path,
    *,
    starts: int,
    spread_ms: float = SPREAD_MS,
    kernel: str | None = None,
    selection: Selection | None = None,
    platform: str | None = None,
    workers: int | None = None,
    progress: Callable[[str, int, int], None] = lambda name, done, of: None,
) -> list[Spread]:
    """Every selected cell over the same starts in the simulator and, if one is named, on a kernel.
    Raises TableError.
    """
    cells = [cell for cell in read(file, platform=platform, kernel=kernel) if cell in (selection or Selection())]
    if kernel is not None and (old := next((cell.id for cell in cells for setup in cell.setups if setup.out_of_tree), None)):
        raise TableError(f"{file}: {old} ran on out-of-tree MPTCP, and kernel {kernel} has the upstream one; leave --kernel out.")
    every = [moved(setup, start, spread_ms) for cell in cells for setup in cell.setups for start in range(1, starts + 1)]
    sim = simulate(every, workers=workers, progress=lambda done, of: progress("sim", done, of))
    there: dict[str, Simulated] = {}
    if kernel is not None:
        on_kernel = _on_kernel(kernel)
        there = simulate(every, workers=workers, simulator=on_kernel, progress=lambda done, of: progress(f"linux {kernel}", done, of))
    return [_spread(cell, starts, spread_ms, sim, there) for cell in cells]


def moved(setup: Setup, start: int, spread_ms: float) -> Setup:
    """The set-up with every flow up to `spread_ms` later, by what start and flow draw, and with a
    seed of its own.
    """
    flows = tuple(
        replace(flow, start_s=flow.start_s + start_offset(round(spread_ms * 1e6), start, f"{setup.id} {setup.repeat} {index}") / 1e9)
        for index, flow in enumerate(setup.flows)
    )
    return replace(setup, flows=flows, seed=1000 * setup.repeat + start)


def _on_kernel(kernel: str) -> Simulator:
    engine = find("linux")

    def run(scenario: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
        return json.dumps(engine.run(for_kernel(json.loads(scenario), kernel)).outcome), {}, {}

    return run


def _spread(cell: Cell, starts: int, spread_ms: float, sim: Mapping[str, Simulated], there: Mapping[str, Simulated]) -> Spread:
    if cell.why or not cell.setups:
        return Spread(cell=cell, why=cell.why)
    keys = [[scenario_key(moved(setup, start, spread_ms)) for setup in cell.setups] for start in range(1, starts + 1)]
    spreads = []
    for results in (sim, there) if there else (sim,):
        why = next((result for platform_keys in keys for key in platform_keys if isinstance(result := results[key], str)), None)
        if why:
            return Spread(cell=cell, why=why)
        spreads.append(tuple(_mean(cell, [results[key] for key in platform_keys]) for platform_keys in keys))
    return Spread(cell=cell, sim=spreads[0], kernel=spreads[1] if there else ())


def _mean(cell: Cell, results: Sequence[Simulated]) -> float:
    """Of the cell's flow, over its repeats."""
    flows = [next(flow for flow in result[0]["flows"] if flow["name"] == cell.flow) for result in results if not isinstance(result, str)]
    return fmean(mbps(setup, flow) for setup, flow in zip(cell.setups, flows, strict=True))


def outside(spreads: Sequence[Spread]) -> tuple[int, int, float]:
    """How many measured rows lie outside the simulator's starts, of how many, and how many would if
    each were one more start.

    Of n + 1 draws of one distribution a given one is the lowest or the highest with a chance of 2 /
    (n + 1).
    """
    judged = [spread for spread in spreads if spread.sim]
    return sum(not spread.inside for spread in judged), len(judged), sum(2 / (len(spread.sim) + 1) for spread in judged)


def surely_outside(spreads: Sequence[Spread]) -> list[Spread]:
    """Measured rows that chance does not explain although many were looked at, the surest first;
    near ones are left out.
    """
    judged = sorted((spread for spread in spreads if spread.sim), key=lambda spread: spread.p)
    return [spread for spread in judged[: discoveries([spread.p for spread in judged])] if not spread.near]


def summary(spreads: Sequence[Spread]) -> list[str]:
    """What the starts say of the table's rows, and of the kernel where one ran."""
    out, of, expected = outside(spreads)
    near = sum(spread.near for spread in spreads if spread.sim)
    far = sum(spread.words == "outside" for spread in spreads)
    lines = [
        f"Of {of} measured rows {near} are within 5 % of the simulator's mean, {of - near - far} more among its starts, {far} are neither."
    ]
    if of:
        chance = float(stats.binomtest(out, of, min(1.0, expected / of), alternative="greater").pvalue)
        lines.append(
            f"{out} of {of} lie outside the range of its starts, where {expected:.0f} would if each were one more start "
            f"(so many or more by chance: p = {chance:.2g}, as if rows were independent)."
        )
        far_off = surely_outside(spreads)
        names = ", ".join(f"{spread.cell.id} {spread.cell.flow}" for spread in far_off) or "none"
        lines.append(f"Rows that are no draw of it even among so many (Student; Benjamini and Hochberg at 5 %; beyond 5 %): {names}.")
    if distances := [distance for spread in spreads if (distance := spread.distance)]:
        lines.append(f"Against the kernel over the same starts: {in_words(distances)}")
    return lines


def to_json(spreads: Sequence[Spread]) -> dict[str, Any]:
    out, of, expected = outside(spreads)
    rows = []
    for spread in spreads:
        cell = spread.cell
        row: dict[str, Any] = {"id": cell.id, "group": cell.group, "flow": cell.flow, "measured_mbps": cell.mbps}
        row |= {"why": spread.why, "verdict": spread.words}
        if spread.sim:
            row |= {"sim_mbps": list(spread.sim), "deviation": spread.deviation, "percentile": spread.percentile, "inside": spread.inside}
            row["p"] = spread.p
        if distance := spread.distance:
            row |= {"kernel_mbps": list(spread.kernel), **distance.figures}
        rows.append(row)
    return {"rows": rows, "outside": out, "of": of, "outside_by_chance": expected, "summary": summary(spreads)}


def to_markdown(spreads: Sequence[Spread]) -> str:
    """By group: how measured rows lie in the simulator's starts; and each row that lies outside
    them and is not near.
    """
    lines = ["| group | within 5 % | one of its draws | neither | outside its range | expected |", "|---|---:|---:|---:|---:|---:|"]
    parts = [(group, [s for s in spreads if s.cell.group == group]) for group in dict.fromkeys(s.cell.group for s in spreads)]
    for name, part in [*parts, ("all", list(spreads))]:
        counts = [sum(spread.words == words for spread in part) for words in ("within 5 %", "one of its draws", "outside")]
        out, of, expected = outside(part)
        lines.append(f"| {name} | {' | '.join(map(str, counts))} | {out} of {of} | {expected:.0f} |")
    lines += ["", "| row | flow | measured | simulated, lowest to highest | mean | difference |", "|---|---|---:|---:|---:|---:|"]
    for spread in sorted((s for s in spreads if s.words == "outside"), key=lambda s: -abs(s.deviation)):
        figures = f"{spread.cell.mbps:.2f} | {min(spread.sim):.2f} to {max(spread.sim):.2f} | {fmean(spread.sim):.2f}"
        lines.append(f"| {spread.cell.id} | {spread.cell.flow} | {figures} | {100 * spread.deviation:+.0f} % |")
    return "\n".join(lines) + "\n"


def show(spreads: Sequence[Spread], console: Console, *, only_differing: bool = False) -> None:
    kernel = any(spread.kernel for spread in spreads)
    of_kernel = (">kernel", ">difference", ">p (means)", ">p (KS)", "verdict") if kernel else ()
    table = table_of("run", "flow", ">measured", ">simulated", ">lowest", ">highest", ">percentile", "as one draw", *of_kernel)
    for spread in spreads:
        distance = spread.distance
        if only_differing and spread.words != "outside" and (distance is None or distance.standing is not Standing.APART):
            continue
        line = [spread.cell.id, spread.cell.flow, f"{spread.cell.mbps:.2f}"]
        if not spread.sim:
            console.print(f"{spread.cell.id}: {(spread.why or '').split('; ')[0]}", style="yellow", soft_wrap=True)
            continue
        line += [f"{value:.2f}" for value in (fmean(spread.sim), min(spread.sim), max(spread.sim))]
        line += [f"{100 * spread.percentile:.0f} %", f"[{'red' if spread.words == 'outside' else 'green'}]{spread.words}[/]"]
        if distance:
            line += [f"{distance.reference:.2f}", f"{100 * distance.difference:+.1f} ± {100 * distance.interval:.1f} %"]
            line += [f"{distance.p_mean:.3f}", f"{distance.p_ks:.3f}"]
            line.append(f"[{'red' if distance.standing is Standing.APART else 'green'}]{distance.standing.value}[/]")
        table.add_row(*line)
    console.print(table)
    console.print("Mbit/s read by the receiver; simulated: mean over the starts. ± is a 95 % interval.", style="dim")
    for sentence in summary(spreads):
        console.print(sentence, soft_wrap=True, highlight=False)
