"""How far runs of the simulator agree with each other, and with Linux, when the second and later flows start up to 20 ms later.

    python shifted.py shares GROUP...    pairs of our own runs that agree, ours that agree with Linux's, and Linux's within our range, by group
    python shifted.py cells PATTERN...   Linux's goodput and the range of ours, by cell

Applies the verdict rule of `polypath validate` to pairs of the simulator's own runs: what a perfect model could reach where chance decides.
"""

import itertools
import sys
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from statistics import fmean

from figure_tables import ROOT, table

from polypath.validate import Cell, Setup, read
from polypath.validate._run import scenario_key, simulate

TABLE = ROOT / "tests" / "data" / "reference" / "mptcp-v0.csv"
SHIFTS_MS = (0, 1, 2, 3, 5, 8, 13, 20)


@dataclass(frozen=True)
class Shifted:
    """A cell with our goodputs: a list of repeats for each shift."""

    cell: Cell
    runs: list[list[float]]

    @property
    def means(self) -> list[float]:
        return [fmean(run) for run in self.runs]

    @property
    def inside(self) -> bool:
        return min(self.means) <= self.cell.mbps <= max(self.means)

    def own_pairs(self) -> list[bool]:
        """Of each ordered pair of our runs: would one agree with the other, were that Linux's?"""
        agree = []
        for a, b in itertools.permutations(self.runs, 2):
            mean = fmean(a)
            agree.append(abs(fmean(b) - mean) <= max(0.1 * mean, *(abs(x - mean) for x in a)))
        return agree

    def with_linux(self) -> list[bool]:
        return [abs(mean - self.cell.mbps) <= max(0.1 * self.cell.mbps, self.cell.spread) for mean in self.means]


def shift(setup: Setup, ms: float) -> Setup:
    flows = (replace(flow, start_s=flow.start_s + ms * 1e-3 * index) if index else flow for index, flow in enumerate(setup.flows))
    return replace(setup, flows=tuple(flows))


def shifted(cells: list[Cell]) -> list[Shifted]:
    """Every cell that can be simulated, with its runs."""
    setups = {(s.id, s.repeat, ms): shift(s, ms) for cell in cells for s in cell.setups for ms in SHIFTS_MS}
    results = simulate(setups.values())
    found = []
    for cell in cells:
        runs = []
        for ms in SHIFTS_MS:
            outcomes = [results[scenario_key(setups[(s.id, s.repeat, ms)])] for s in cell.setups]
            broken = next((outcome for outcome in outcomes if isinstance(outcome, str)), None)
            if broken:
                raise SystemExit(f"{cell.id}: {broken}")
            runs.append([next(f for f in o[0]["flows"] if f["name"] == cell.flow)["goodput_receiver_bps"] / 1e6 for o in outcomes])
        found.append(Shifted(cell, runs))
    return found


def shares(*groups: str) -> str:
    """A line a group and algorithm."""
    rows = []
    for group in groups:
        own = shifted([cell for cell in read(TABLE) if cell.group == group and cell.setups])
        for cc in [None, *dict.fromkeys(each.cell.cc for each in own)]:
            part = [each for each in own if cc in (None, each.cell.cc)]
            pairs = fmean(agrees for each in part for agrees in each.own_pairs())
            linux = fmean(agrees for each in part for agrees in each.with_linux())
            within = f"{sum(each.inside for each in part)} of {len(part)}"
            rows.append([f"{group}, {cc}" if cc else f"**{group}**", f"{pairs:.0%}", f"{linux:.0%}", within])
    head = ["group", "pairs of our own runs agree", "our runs agree with Linux's", "cells in which Linux's figure lies within our eight"]
    return table(head, rows).replace("%", " %")


def cells(*patterns: str) -> str:
    """A line a cell; those in which Linux lies outside of our range are marked."""
    chosen = [cell for cell in read(TABLE) if cell.setups and any(fnmatchcase(cell.id, pattern) for pattern in patterns)]
    rows = []
    for each in shifted(chosen):
        ours = f"{fmean(each.means):.2f} ({min(each.means):.2f} to {max(each.means):.2f})"
        rows.append([f"`{each.cell.id}`", each.cell.flow, f"{each.cell.mbps:.2f}", ours, "inside" if each.inside else "outside"])
    return table(["run", "flow", "out-of-tree kernel, Mbit/s", "here, eight starts", "the kernel's is"], rows, left=2)


if __name__ == "__main__":
    kinds = {"shares": shares, "cells": cells}
    if len(sys.argv) < 3 or sys.argv[1] not in kinds:
        raise SystemExit(__doc__)
    print(kinds[sys.argv[1]](*sys.argv[2:]))
