"""Cells of the Linux 6.12 table over many starts or seeds, on Linux (recorded) and here: python
figures.py PAGE.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pandas as pd
from figure_tables import ROOT, interval, recorded, span, table

from polypath import _native
from polypath.validate import build, read

FOLDER = "specs/notes/many-starts"
TICK_NS = 4_000_000
MS_NS = 1_000_000


def variants(scenario: dict[str, Any], vary: str) -> list[dict[str, Any]]:
    """The same scenario with other starts, or other seeds."""
    kind, many, *step = vary.split()
    listed = []
    for k in range(int(many)):
        other = json.loads(json.dumps(scenario))
        if kind == "seeds":
            other["seed"] = k + 1
        for number, flow in enumerate(other["flows"]):
            if kind == "tick":
                flow["start_ns"] += k * TICK_NS // int(many)
            if kind == "later" and number:
                flow["start_ns"] = MS_NS + k * int(step[0]) * MS_NS
        other["duration_ns"] += max(flow["start_ns"] for flow in other["flows"])
        listed.append(other)
    return listed


def goodput(scenario: dict[str, Any], flow: str) -> float:
    """Of one run, Mbit/s."""
    outcome = json.loads(_native.simulate(json.dumps(scenario))[0])
    return float(next(own for own in outcome["flows"] if own["name"] == flow)["goodput_receiver_bps"] / 1e6)


def shown(values: list[float], how: str) -> str:
    """Mean and range, mean and its error, or mean and its 95 % interval."""
    if how == "range":
        return span(values, 1)
    return interval(values, 1) if how == "interval" else f"{pd.Series(values).mean():.1f} ± {pd.Series(values).sem():.1f}"


def main(page: str) -> None:
    cells = {(cell.id, cell.flow): cell for cell in read(ROOT / "tests" / "data" / "reference" / "linux-6.12.csv")}
    lines = recorded(f"{FOLDER}/linux-6.12.csv").query("page == @page")
    rows = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for line in lines.itertuples():
            cell = cells[line.id, line.flow]
            values = list(pool.map(lambda scenario, flow=line.flow: goodput(scenario, flow), variants(build(cell.setups[0]), line.vary)))
            measured = ", ".join(f"{row.mbps:.1f}" for row in cell.rows)
            rows.append([f"`{line.id}`", line.vary.split()[0], line.vary.split()[1], measured, line.linux, shown(values, line.show)])
    print(table(["cell", "varied", "runs", "in the table", "Linux 6.12", "here"], rows, left=2))


main(*sys.argv[1:])
