"""How many cells share as the testbed did: python studies/bbr-shared/compare.py cells [KERNEL], or
worst [KERNEL] for the twelve furthest away. With a kernel: the cells that the sample names.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from figure_tables import on_linux, simulated, table

HERE = Path(__file__).parent
KEYS = ["figure", "queue", "count"]
REPEATS = ["first", "second", "third"]
# Mbit/s; a tenth of it is what counts as the same.
CAPACITY = {"figure-2a": 10, "figure-2b": 50, "figure-2c": 10, "figure-5a": 10, "figure-5b": 50, "figure-5c": 10}
NEAR = 0.1
# Chosen before any result: the corners and the middle of BBRv1's two figures of 10 Mbit/s; and, when
# the simulator alone had run, a deep cell where BBRv3 is not as on the testbed. On Linux BBRv3 is
# the simulator's own C: if both share alike, neither endpoint nor queue makes the difference.
SAMPLE = [
    {"experiment": ["figure-2a", "figure-2c"], "queue": ["40ms", "320ms", "2560ms"], "count": ["1", "8"]},
    {"experiment": "figure-5a", "queue": "2560ms", "count": "8"},
]


def published() -> pd.DataFrame:
    """What BBR's flows had together, Mbit/s, three times a cell."""
    return pd.read_csv(HERE / "published.csv", dtype={"count": str}).set_index(KEYS)


def judged(measured: Mapping[tuple[str, ...], float]) -> pd.DataFrame:
    """A row a measured cell: the repeats' mean, ours, the distance in capacities, and whether it is
    the same.
    """
    said = published()
    rows = []
    for key, own in measured.items():
        repeats = said.loc[key, REPEATS].astype(float)
        apart = (own - repeats.mean()) / CAPACITY[key[0]]
        same = abs(apart) <= NEAR or repeats.min() <= own <= repeats.max()
        rows.append([*key, said.loc[key, "rival"], repeats.mean(), own, apart, same])
    return pd.DataFrame(rows, columns=[*KEYS, "rival", "published", "measured", "apart", "same"])


def measured(*kernel: str) -> pd.DataFrame:
    # Runs add to one folder, so what the last part gives back has all of them.
    results = [on_linux(HERE, kernel[0], only=part) for part in SAMPLE][-1] if kernel else simulated(HERE)
    runs = results.runs[results.runs["group"] == "bbr"]
    if not kernel:
        runs = runs[runs["engine"] == "sim"]
    # A row a connection: together they are what was measured.
    together = runs.groupby(["experiment", "queue", "count", "key"])["goodput_receiver_mbps"].sum()
    means = together.groupby(["experiment", "queue", "count"]).mean()
    return judged({(str(name), str(queue), str(count)): float(value) for (name, queue, count), value in means.items()})


def cells(*kernel: str) -> str:
    rows = []
    for figure, part in measured(*kernel).groupby("figure"):
        rows.append(
            [
                figure,
                len(part),
                int(part["same"].sum()),
                f"{part['same'].mean():.0%}",
                f"{part['apart'].mean():+.3f}",
                f"{part['apart'].abs().max():.3f}",
            ]
        )
    return table(["figure", "cells", "the same", "share", "mean distance, capacities", "largest"], rows)


def worst(*kernel: str) -> str:
    far = measured(*kernel)
    far = far[~far["same"]].sort_values("apart", key=abs, ascending=False).head(12)
    rows = [[*(row[key] for key in KEYS), f"{row['published']:.2f}", f"{row['measured']:.2f}"] for _, row in far.iterrows()]
    return table(["figure", "queue", "BBR flows", "testbed, Mbit/s", "here"], rows, left=3)


if __name__ == "__main__":
    print({"cells": cells, "worst": worst}[sys.argv[1]](*sys.argv[2:]))
