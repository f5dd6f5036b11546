"""Sets the simulator beside real MPT over Linux 6.1 (tests/data/reference/mpt-gre): compare.py [PATTERN..] [--count|--starts|--repeats CSV]

A row of summary.csv is one run; the same set-up is simulated, with losses from five seeds. A cell agrees when the simulator's goodput is
within 10 % of the kernel's, as `polypath validate` judges a kernel that ran once. With `--starts` runs without losses begin at five moments
of a tick of the kernel's clock, since nobody knows at which one the kernel's run began. `--repeats` judges the rows that were run several
times on a kernel with another program that speaks MPT's format (specs/notes/mpt-starts), from the same starts and as that kernel, by the
whole of validate's rule: means agree within 10 %, or within the greatest distance of a repeat of the kernel's from their mean. On MPT's own
kernel MPT's run is one of them.
"""

import argparse
import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean
from typing import Any

from polypath import _native
from polypath.study import Study, cells, scenario

HERE = Path(__file__).parent
REFERENCE = HERE.parent.parent / "tests/data/reference/mpt-gre/summary.csv"
TOLERANCE = 0.10
SEEDS = 5
# On which MPT ran.
MPT_KERNEL = "6.1"
# Fewer of them say nothing of their spread.
LEAST_REPEATS = 3
# Of Linux's clock at 250 Hz, in nanoseconds.
TICK = 4_000_000
MS = 1_000_000
# The kernel's runs began three pings or four after the tunnel.
FIRST_PATH = "_synp1"


def reference() -> list[dict[str, str]]:
    """The rows of the kernel's runs."""
    with REFERENCE.open() as file:
        return list(csv.DictReader(file))


def repeats(file: Path) -> tuple[str, dict[str, list[float]]]:
    """The kernel that a file of specs/notes/mpt-starts is named after, and by the reference's run the goodputs of the repeats, by start."""
    found: dict[str, list[float]] = {}
    with file.open() as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            found.setdefault(row["id"], []).append(float(row["goodput_mbps"]))
    return file.stem.removeprefix("linux-"), found


def scenarios(row: dict[str, str], study: Study, starts: int = 1, kernel: str = MPT_KERNEL) -> Iterator[dict[str, Any]]:
    """What the simulator runs for a row."""
    lossy = float(row["loss_pct"] or 0) > 0
    like = next(cell for cell in cells(study) if cell.experiment == f"{row['mode']}-{'loss' if lossy else 'delay'}")
    for number in range(SEEDS if lossy else starts):
        plain = scenario(like.setup, 1 + number if lossy else 1)
        for node in plain["nodes"]:
            if "kernel" in node:
                node["kernel"] = kernel
        duration = int(float(row["dur_s"]) * 1e9)
        flow, tunnel = plain["flows"][0], plain["tunnels"][0]
        plain["duration_ns"] = duration + 2_000_000_000
        flow["start_ns"] = 0 if lossy else number * TICK // starts
        flow |= {"cc": row["cc"], "app": {"kind": "bulk", "duration_ns": duration}, "window_ns": [0, duration]}
        window = int(row["reorder_window"])
        tunnel["reorder"] = {"kind": "mpt", "window": window, "max_delay_ns": 300 * MS} if window else {"kind": "off"}
        tunnel["packets_before"] = 4 if row["id"].endswith(FIRST_PATH) else 3
        for link in plain["links"]:
            for element in (*link["a_to_b"], *link["b_to_a"]):
                # The study's other delays are a quarter of a millisecond.
                if (
                    element["kind"] == "delay"
                    and link["name"] == ("r1-b" if row["mode"] == "nic" else "a-r1")
                    and element["delay_ns"] != MS // 4
                ):
                    element["delay_ns"] = int(row["delay_ms"]) * MS
                if element["kind"] == "loss":
                    element["probability"] = float(row["loss_pct"] or 0) / 100
                if element["kind"] == "rate" and row["mode"] == "router":
                    element["queue"] = {"packets": int(row["queue_pkts"])}
        yield plain


def is_asked(row: dict[str, str], patterns: list[str]) -> bool:
    """Whether a row's name is among the patterns, or there are none."""
    return not patterns or any(fnmatchcase(row["id"], pattern) for pattern in patterns)


def simulated(plain: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a scenario."""
    outcome: dict[str, Any] = json.loads(_native.simulate(json.dumps(plain))[0])
    return outcome


def judged(patterns: list[str], starts: int = 1) -> Iterator[tuple[dict[str, str], float, list[float], bool]]:
    """Row, the kernel's goodput, those of the simulator's runs, and whether their mean agrees."""
    study = Study.load(HERE)
    rows = [row for row in reference() if is_asked(row, patterns)]
    with ThreadPoolExecutor(2) as pool:
        work = [[pool.submit(simulated, plain) for plain in scenarios(row, study, starts)] for row in rows]
        for row, futures in zip(rows, work, strict=True):
            ours = [future.result()["flows"][0]["goodput_receiver_bps"] / 1e6 for future in futures]
            kernel = float(row["goodput_mbps"])
            yield row, kernel, ours, abs(fmean(ours) - kernel) <= TOLERANCE * kernel


def show_repeats(file: Path, patterns: list[str]) -> None:
    """The rows that have repeats on a kernel."""
    kernel, known = repeats(file)
    study = Study.load(HERE)
    rows = [row for row in reference() if row["id"] in known and is_asked(row, patterns)]
    print(f"| run | MPT on 6.1 | Linux {kernel}: runs | mean | least to most | simulator: mean | least to most | |")
    print(f"| --- |{' ---: |' * 6} --- |")
    agreed, several = 0, 0
    with ThreadPoolExecutor(2) as pool:
        work = [[pool.submit(simulated, plain) for plain in scenarios(row, study, SEEDS, kernel)] for row in rows]
        for row, futures in zip(rows, work, strict=True):
            ours = [future.result()["flows"][0]["goodput_receiver_bps"] / 1e6 for future in futures]
            theirs = known[row["id"]] + [float(row["goodput_mbps"])] * (kernel == MPT_KERNEL)
            mean = fmean(theirs)
            agrees = abs(fmean(ours) - mean) <= max(TOLERANCE * mean, *(abs(each - mean) for each in theirs))
            known_well = len(theirs) >= LEAST_REPEATS
            several, agreed = several + known_well, agreed + (known_well and agrees)
            verdict = "too few" if not known_well else "" if agrees else "differs"
            spans = [f"{fmean(each):.2f} | {min(each):.2f} to {max(each):.2f}" for each in (theirs, ours)]
            print(f"| `{row['id']}` | {row['goodput_mbps']} | {len(theirs)} | {spans[0]} | {spans[1]} | {verdict} |")
    print(f"\nOf {several} cells with {LEAST_REPEATS} runs or more {agreed} agree.")


def main() -> None:
    """Prints the table, or how many cells of each set-up agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of runs, such as nic_rw1600_*")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--count", action="store_true")
    shape.add_argument("--starts", action="store_true")
    shape.add_argument("--repeats", type=Path, help="a file of repeats on a kernel, such as specs/notes/mpt-starts/linux-6.12.csv")
    given = parser.parse_args()
    if given.repeats:
        show_repeats(given.repeats, given.patterns)
        return
    found = list(judged(given.patterns, SEEDS if given.starts else 1))
    if given.count:
        print("| set-up | agree | of |\n| --- | ---: | ---: |")
        for mode in ("nic", "router"):
            own = [agrees for row, _, _, agrees in found if row["mode"] == mode]
            print(f"| {mode} | {sum(own)} | {len(own)} |")
        return
    if given.starts:
        print("| run | kernel, Mbit/s | simulator, least to most |\n| --- | ---: | ---: |")
        for row, kernel, ours, _ in found:
            print(f"| `{row['id']}` | {kernel:.2f} | {min(ours):.2f} to {max(ours):.2f} |")
        return
    print("| run | kernel, Mbit/s | simulator, Mbit/s | |\n| --- | ---: | ---: | --- |")
    for row, kernel, ours, agrees in found:
        print(f"| `{row['id']}` | {kernel:.2f} | {fmean(ours):.2f} | {'' if agrees else 'differs'} |")


if __name__ == "__main__":
    main()
