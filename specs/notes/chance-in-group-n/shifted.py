"""How far runs of the simulator agree with each other, and with Linux, when the second and later flows start up to 20 ms later.

    python shifted.py SUMMARY.csv GROUP[,GROUP...]

Applies the verdict rule of `polypath validate` to pairs of the simulator's own runs: what a perfect model could reach where chance decides.
"""

import itertools
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from polypath.validate import read
from polypath.validate._run import scenario_key, simulate

SHIFTS_MS = (0, 1, 2, 3, 5, 8, 13, 20)


def shifted(setup, ms):
    flows = (replace(flow, start_s=flow.start_s + ms * 1e-3 * index) if index else flow for index, flow in enumerate(setup.flows))
    return replace(setup, flows=tuple(flows))


def main(table: str, groups: str) -> None:
    cells = [cell for cell in read(Path(table)) if cell.group in groups.split(",") and cell.setups]
    setups = {(s.id, s.repeat, ms): shifted(s, ms) for cell in cells for s in cell.setups for ms in SHIFTS_MS}
    results = simulate(setups.values())
    own, linux = defaultdict(list), defaultdict(list)
    for cell in cells:
        runs = []
        for ms in SHIFTS_MS:
            outcomes = [results[scenario_key(setups[(s.id, s.repeat, ms)])] for s in cell.setups]
            if any(isinstance(outcome, str) for outcome in outcomes):
                break
            runs.append([next(f for f in o[0]["flows"] if f["name"] == cell.flow)["goodput_receiver_bps"] / 1e6 for o in outcomes])
        else:
            for a, b in itertools.permutations(runs, 2):
                mean = fmean(a)
                own[cell.cc].append(abs(fmean(b) - mean) <= max(0.1 * mean, *(abs(x - mean) for x in a)))
            means = [fmean(run) for run in runs]
            linux[cell.cc] += [abs(mean - cell.mbps) <= max(0.1 * cell.mbps, cell.spread) for mean in means]
            inside = "inside" if min(means) <= cell.mbps <= max(means) else ""
            print(f"{cell.id:24} {cell.flow:3} Linux {cell.mbps:6.2f}   ours {min(means):6.2f} to {max(means):6.2f}, mean {fmean(means):6.2f} {inside}")
    for name, found in (("pairs of our own runs agree", own), ("our runs agree with Linux's", linux)):
        everything = [agrees for listed in found.values() for agrees in listed]
        print(f"{name}: {fmean(everything):.0%} (" + ", ".join(f"{cc} {fmean(v):.0%}" for cc, v in sorted(found.items())) + ")")


main(*sys.argv[1:])
