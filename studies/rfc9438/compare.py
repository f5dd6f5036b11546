"""Windows of runs beside those of RFC 9438, in segments: python studies/rfc9438/compare.py even, or
random KERNEL.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from figure_tables import on_linux, simulated, table

HERE = Path(__file__).parent
LOSSES = ["1:100", "1:1000", "1:10000", "1:100000", "1:1000000"]
ALGORITHMS = ["reno", "cubic", "highspeed"]
SEGMENT_BITS = 1448 * 8


def windows(runs: pd.DataFrame) -> pd.Series:
    """What was under way on average: the goodput of a round trip."""
    seconds = runs["rtt"].str.removesuffix("ms").astype(float) / 1000
    return (runs["goodput_receiver_mbps"] * 1e6 * seconds / SEGMENT_BITS).groupby([runs[key] for key in ("rtt", "loss", "cc")]).mean()


def said() -> pd.DataFrame:
    return pd.read_csv(HERE / "windows.csv", dtype={"loss": str}).set_index(["rtt", "loss"])


def even() -> str:
    names = [name for name in _experiments() if not name.startswith("random-") and "1e-7" not in name]
    own = windows(_named(simulated(HERE, only={"experiment": names}).runs, names))
    rows = []
    for rtt in ("100ms", "10ms"):
        for loss in LOSSES:
            pairs = [(said().loc[(rtt, loss), cc], own[rtt, loss, cc]) for cc in ALGORITHMS]
            rows.append([rtt, loss, *(f"{rfc} / {got:.0f} ({got / rfc - 1:+.0%})" for rfc, got in pairs)])
    return table(["RTT", "loss", *(f"{cc}, RFC / run" for cc in ALGORITHMS)], rows, left=2)


def random(kernel: str) -> str:
    names = ["random-1e-2", "random-1e-3"]
    here = windows(_named(simulated(HERE, only={"experiment": names}).runs, names))
    there = windows(_named(on_linux(HERE, kernel, only={"experiment": names}).runs, names))
    rows = [
        [loss, cc, said().loc[(rtt, loss), cc], f"{here[rtt, loss, cc]:.1f}", f"{value:.1f}"] for (rtt, loss, cc), value in there.items()
    ]
    return table(["loss", "cc", "RFC", "simulator", "Linux"], rows, left=2)


def _named(runs: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return runs[runs["experiment"].isin(names)]


def _experiments() -> list[str]:
    from polypath.study import Study

    return list(Study.load(HERE).experiments)


if __name__ == "__main__":
    print({"even": even, "random": random}[sys.argv[1]](*sys.argv[2:]))
