"""How the simulator does against the published means of Linux 6.12: python figures.py counts,
outside, or unfair.
"""

import sys

import pandas as pd
from figure_tables import ROOT, choose, simulated, table

STUDY = "studies/linux-reference"
KEYS = ["cc", "transport", "half1", "loss", "mtu1", "mtu2", "middle", "oversize", "probing"]
CLOSE, NEAR = 0.03, 0.10


def rows() -> pd.DataFrame:
    """A line a published row: its figures, and ours."""
    published = pd.read_csv(ROOT / STUDY / "published.csv", dtype=dict.fromkeys(["experiment", "flow", *KEYS], str), keep_default_na=False)
    runs = simulated(STUDY).runs
    runs = runs[runs["engine"] == "sim"]
    ours = []
    for line in published.itertuples():
        own = runs[(runs["experiment"] == line.experiment) & (runs["flow"] == line.flow)]
        for key in KEYS:
            if getattr(line, key):
                own = own[own[key].astype(str).str.removesuffix(".0") == getattr(line, key)]
        if own.empty:
            raise SystemExit(f"{STUDY}/published.csv: no run is {line.id}, flow {line.flow}")
        ours.append(own["goodput_receiver_mbps"].mean())
    off = [abs(own - line.goodput_mbps) for own, line in zip(ours, published.itertuples(), strict=True)]
    return published.assign(ours=ours, off=off, group=published["experiment"].str[0])


def within(part: pd.DataFrame, share: float) -> pd.Series:
    """Whether each row lies within a share of the mean or the spread of its repeats."""
    return part["off"] <= pd.concat([share * part["goodput_mbps"], part["spread_mbps"]], axis=1).max(axis=1) + 1e-9


def counts() -> str:
    """A line a group."""
    everything = rows()
    parts = [*everything.groupby("group"), ("all", everything)]
    return table(
        ["group", "simulator: within 3 % or the spread", "within 10 % or the spread"],
        [[name, *(f"{within(part, share).sum()} of {len(part)}" for share in (CLOSE, NEAR))] for name, part in parts],
    )


def outside() -> str:
    """The rows outside of 3 % and the spread."""
    everything = rows()
    apart = everything[~within(everything, CLOSE)]
    lines = [[f"`{line.id}`, {line.flow}", f"{line.goodput_mbps:.2f} ± {line.spread_mbps:.2f}", f"{line.ours:.2f}"] for line in apart.itertuples()]
    return table(["row", "measured, Mbit/s", "simulator"], lines)


def unfair() -> str:
    """Group f: MPTCP and the TCP beside it."""
    everything = rows().query("group == 'f'")
    lines = []
    for cc, own in everything.groupby("cc", sort=False):
        lines.append([cc, *(" + ".join(f"{value:.1f}" for value in own[column]) for column in ("goodput_mbps", "ours"))])
    return table(["f, Mbit/s: MPTCP + the TCP beside it", "measured on 6.12", "simulator"], lines)


choose(sys.argv, {"counts": counts, "outside": outside, "unfair": unfair})
