"""The tables of docs/concepts/schedulers.md: python figures.py bursts, or endless."""

import sys

import pandas as pd
from figure_tables import choose, simulated, span, table

CELL = ["queue", "rmem", "delay"]
# studies/schedulers asks of more.
SHOWN = ["minrtt", "default", "roundrobin", "ecf", "sttf", "blest", "daps"]


def of(experiment: str) -> pd.DataFrame:
    """The runs of an experiment, the scheduler `minrtt` beside each of its cells."""
    runs = simulated("specs/notes/schedulers", only={"experiment": [experiment], "scheduler": SHOWN}).runs.query(
        f"experiment == '{experiment}'"
    )
    columns = ["goodput_receiver_mbps", "hol_delay_ms", "byte_delay_p95_ms"]
    beside = runs[runs["scheduler"] == "minrtt"].set_index(CELL)[columns].add_prefix("minrtt_")
    return runs.join(beside, on=CELL)


def bursts() -> str:
    """How long bytes wait for earlier ones, and when they are there."""
    rows = []
    for scheduler, own in of("bursts").groupby("scheduler", sort=False):
        cells = len(own)
        less, sooner = ((own[name] < own[f"minrtt_{name}"]).sum() for name in ("hol_delay_ms", "byte_delay_p95_ms"))
        beside = ["", ""] if scheduler == "minrtt" else [f"{less} of {cells}", f"{sooner} of {cells}"]
        rows.append([f"`{scheduler}`", span(own["hol_delay_ms"], 1), beside[0], span(own["byte_delay_p95_ms"], 0), beside[1]])
    head = [
        "scheduler",
        "a byte waits for earlier ones, ms",
        "less than `minrtt`",
        "95 % of the bytes are read within, ms",
        "sooner than `minrtt`",
    ]
    return table(head, rows)


def endless() -> str:
    """Goodput of an endless transfer by receive buffer."""
    rows = []
    runs = of("endless")
    for scheduler, own in runs.groupby("scheduler", sort=False):
        line = [f"`{scheduler}`"]
        for _, part in own.groupby("rmem"):
            more = (part["goodput_receiver_mbps"] > part["minrtt_goodput_receiver_mbps"]).sum()
            line += [span(part["goodput_receiver_mbps"], 1), "" if scheduler == "minrtt" else f"{more} of {len(part)}"]
        rows.append(line)
    head = ["scheduler"]
    for rmem in sorted(runs["rmem"].unique()):
        head += [f"{int(rmem) // 1000} kB: Mbit/s", "more than `minrtt`"]
    return table(head, rows)


choose(sys.argv, {"bursts": bursts, "endless": endless})
