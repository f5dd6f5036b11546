"""The coefficients of variation of this study: python studies/jittertrap/compare.py variation, or
order for what jitter costs with the order changed and kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from figure_tables import simulated, table

HERE = Path(__file__).parent
GOODPUT = "goodput_receiver_mbps"
# Committed before the first result: cubic varies by at least so much at 10 ms, and bbr by at most.
CUBIC_LEAST, BBR_MOST = 0.4, 0.3


def varies(runs: pd.DataFrame) -> pd.Series:
    """Standard deviation over mean of each cell's repeats."""
    by = runs.groupby(["jitter", "cc"], sort=False)[GOODPUT]
    return by.std() / by.mean()


def variation() -> str:
    said = pd.read_csv(HERE / "published.csv")
    said = said[said["experiment"] == "chaos"].set_index(["jitter", "cc"])["cv"]
    names = [f"chaos-{jitter}" for jitter in (8, 10, 12, 14)]
    own = varies(_runs(names))
    rows = [[jitter, cc, f"{said[jitter, cc]:.0%}", f"{value:.0%}"] for (jitter, cc), value in own.items()]
    held = own["10ms", "cubic"] >= CUBIC_LEAST and own["10ms", "bbr"] <= BBR_MOST
    return table(["jitter", "cc", "measured", "here"], [*rows, ["", "", "the claim", "holds" if held else "does not hold"]], left=2)


def order() -> str:
    names = [f"{way}-{cell}" for cell in ("25-4", "25-8", "25-12", "50-8", "50-12", "50-16", "50-20", "50-24") for way in ("cliff", "kept")]
    runs = _runs(names)
    means = runs.groupby(["delay", "jitter", "cc", "order"], sort=False)[GOODPUT].mean()
    said = pd.read_csv(HERE / "published.csv")
    said = said[(said["experiment"] == "cliff") & (said["rate"] == "80mbit")].set_index(["delay", "jitter", "cc"])["measured_mbps"]
    cells = dict.fromkeys(key[:3] for key in means.index)
    rows = [[*cell, f"{said[cell]:.1f}", f"{means[(*cell, 'netem')]:.1f}", f"{means[(*cell, 'kept')]:.1f}"] for cell in cells]
    return table(["delay each way", "jitter", "cc", "measured, Mbit/s", "here", "in order"], rows, left=3)


def _runs(names: list[str]) -> pd.DataFrame:
    runs = simulated("studies/jittertrap", only={"experiment": names, "rate": ["80mbit"]}).runs
    return runs[runs["experiment"].isin(names) & (runs["rate"] == "80mbit")]


if __name__ == "__main__":
    print({"variation": variation, "order": order}[sys.argv[1]]())
