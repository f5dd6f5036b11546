"""Sets the simulator beside real MPT over Linux 6.1 (tests/data/reference/mpt-gre): compare.py
[PATTERN..] [--count|--repeats CSV]

A row of summary.csv is one run of MPT's daemon. Each was run three times more on the same kernel by
another program that speaks MPT's format (specs/notes/mpt-starts/linux-6.1.csv), and MPT's run is
one of four. The simulator begins at five moments of a tick of the kernel's clock, since nobody
knows at which one the kernel's run began, or has its losses from five seeds. The rule is that of
`polypath validate`: means agree within 10 %, or within the greatest distance of a run of the
kernel's from their mean. `--repeats` judges another kernel's runs, as that kernel, where a row that
ran once has no such distance.
"""

import argparse
import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean
from typing import Any

from polypath import _native
from polypath.study import Study, cells, scenario

HERE = Path(__file__).parent
REFERENCE = HERE.parent.parent / "tests/data/reference/mpt-gre/summary.csv"
REPEATS = HERE.parent.parent / "specs/notes/mpt-starts/linux-6.1.csv"
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
# As the reference says: the tunnel's MTU, and in `nic` a token bucket of one frame (1514 bytes
# and 24) at each interface, where the study has the interfaces themselves, through which a frame
# takes its time.
TUNNEL_MTU = 1464
BUCKET = 1538


def reference() -> list[dict[str, str]]:
    """The rows of the kernel's runs."""
    with REFERENCE.open() as file:
        return list(csv.DictReader(file))


def repeats(file: Path) -> tuple[str, dict[str, list[float]]]:
    """The kernel that a file of specs/notes/mpt-starts is named after, and by the reference's run
    the goodputs of the repeats, by start.
    """
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
        tunnel["mtu"] = TUNNEL_MTU
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
                if element["kind"] == "rate":
                    if row["mode"] == "router":
                        element["queue"] = {"packets": int(row["queue_pkts"])}
                    else:
                        element["burst_bytes"] = BUCKET
        yield plain


def is_asked(row: dict[str, str], patterns: list[str]) -> bool:
    """Whether a row's name is among the patterns, or there are none."""
    return not patterns or any(fnmatchcase(row["id"], pattern) for pattern in patterns)


def simulated(plain: dict[str, Any]) -> dict[str, Any]:
    """The outcome of a scenario."""
    outcome: dict[str, Any] = json.loads(_native.simulate(json.dumps(plain))[0])
    return outcome


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A row of the reference: goodputs of the kernel's runs and of the simulator's, Mbit/s."""

    row: dict[str, str]
    theirs: list[float]
    ours: list[float]

    @property
    def is_near(self) -> bool:
        """Whether the means are as near as agrees whatever the spread."""
        return abs(fmean(self.ours) - fmean(self.theirs)) <= TOLERANCE * fmean(self.theirs)

    @property
    def agrees(self) -> bool:
        """By the rule of `polypath validate`."""
        mean = fmean(self.theirs)
        return self.is_near or abs(fmean(self.ours) - mean) <= max(abs(each - mean) for each in self.theirs)


def judged(patterns: list[str], file: Path = REPEATS) -> list[Judged]:
    """The rows that were run on the kernel that a file is named after."""
    study = Study.load(HERE)
    kernel, known = repeats(file)
    theirs = {
        row["id"]: known.get(row["id"], []) + [float(row["goodput_mbps"])] * (kernel == MPT_KERNEL)
        for row in reference()
        if is_asked(row, patterns)
    }
    rows = [row for row in reference() if theirs.get(row["id"])]
    with ThreadPoolExecutor(2) as pool:
        work = [[pool.submit(simulated, plain) for plain in scenarios(row, study, SEEDS, kernel)] for row in rows]
        return [
            Judged(row=row, theirs=theirs[row["id"]], ours=[each.result()["flows"][0]["goodput_receiver_bps"] / 1e6 for each in futures])
            for row, futures in zip(rows, work, strict=True)
        ]


def span(values: list[float]) -> str:
    """Mean and range as two cells."""
    return f"{fmean(values):.2f} | {min(values):.2f} to {max(values):.2f}" if len(values) > 1 else f"{values[0]:.2f} | "


def main() -> None:
    """Prints the table or its rows that differ, or how many cells of each set-up agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patterns", nargs="*", help="names of runs, such as nic_rw1600_*")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--count", action="store_true")
    shape.add_argument("--differs", action="store_true", help="rows that differ, alone")
    shape.add_argument("--repeats", type=Path, default=REPEATS, help="a file of repeats on a kernel: specs/notes/mpt-starts/*.csv")
    given = parser.parse_args()
    found = judged(given.patterns, given.repeats)
    if given.count:
        print("| set-up | agree | of | within 10 % |\n| --- | ---: | ---: | ---: |")
        for mode in ("nic", "router"):
            own = [each for each in found if each.row["mode"] == mode]
            print(f"| {mode} | {sum(each.agrees for each in own)} | {len(own)} | {sum(each.is_near for each in own)} |")
        return
    print("| run | MPT | kernel: runs | mean | least to most | simulator: mean | least to most | |")
    print(f"| --- |{' ---: |' * 6} --- |")
    for each in found:
        if given.differs and each.agrees:
            continue
        verdict, mpt = "" if each.agrees else "differs", float(each.row["goodput_mbps"])
        print(f"| `{each.row['id']}` | {mpt:.2f} | {len(each.theirs)} | {span(each.theirs)} | {span(each.ours)} | {verdict} |")
    well = [each for each in found if len(each.theirs) >= LEAST_REPEATS]
    print(f"\nOf {len(well)} cells with {LEAST_REPEATS} runs or more {sum(each.agrees for each in well)} agree.")


if __name__ == "__main__":
    main()
