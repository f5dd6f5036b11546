"""The tables of this study's README: python studies/nitk/compare.py goodput, subflows, engines or
claims.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from figure_tables import recorded, simulated

from polypath.analysis import PLATFORM
from polypath.report import claim_results, material, other_views
from polypath.results import Results

HERE = Path(__file__).parent
GOODPUT, SENDER = "goodput_receiver_mbps", "goodput_sender_mbps"


def main(name: str) -> None:
    """Prints one table; what is missing runs first."""
    tables = {"goodput": lambda own: goodput(own.runs), "subflows": subflows, "engines": engines, "claims": claims}
    if name not in tables:
        raise SystemExit(f"name one of these tables: {', '.join(tables)}")
    print(tables[name](simulated("studies/nitk")), end="")


def goodput(runs: pd.DataFrame) -> str:
    """Paper, kernel and simulator by algorithm."""
    said = pd.read_csv(HERE / "published.csv").set_index("cc")
    kernel = pd.read_csv(HERE / "kernel-v0.csv").set_index("cc")[GOODPUT]
    ours = runs[runs["engine"] == "sim"].groupby(["experiment", "cc"], sort=False)[[GOODPUT, SENDER]].mean()
    rows = []
    for cc in kernel.index:
        paper = [f"{said.loc[cc, column]:.2f}" if cc in said.index else "–" for column in ("table_mbps", "text_mbps")]
        mine = [
            f"{ours.loc[key, column]:.2f}" if (key := (experiment, cc)) in ours.index else "–"
            for experiment, column in (("v0", SENDER), ("v0", GOODPUT), ("v0-16mib", GOODPUT), ("v1", GOODPUT))
        ]
        rows.append([cc, *paper, f"{kernel[cc]:.2f}", *mine])
    return _table(
        [
            "",
            "paper, table",
            "paper, text",
            "Linux 5.4, 16 MiB",
            "simulated 5.4, at the sender",
            "simulated 5.4",
            "simulated 5.4, 16 MiB",
            "simulated 6.12",
        ],
        rows,
    )


def subflows(results: Results) -> str:
    """How the load is shared between the paths, on the kernel and here."""
    kernel = pd.read_csv(HERE / "kernel-v0.csv").set_index("cc")
    own = results.subflows[results.subflows["experiment"] == "v0-16mib"]
    runs = results.runs[results.runs["experiment"] == "v0-16mib"].groupby("cc")["retransmissions"].mean()  # only the simulator has v0
    means = own.groupby(["cc", "source"])[["acked_mbps", "mean_srtt_ms"]].mean()
    rows = []
    for cc, line in kernel.iterrows():
        one, two = means.loc[(cc, "10.0.0.1")], means.loc[(cc, "192.168.0.1")]
        rows.append(
            [
                str(cc),
                f"{line['path1_acked_mbps']:.2f} + {line['path2_acked_mbps']:.2f}",
                f"{one['acked_mbps']:.2f} + {two['acked_mbps']:.2f}",
                f"{line['path1_mean_srtt_ms']:.0f}",
                f"{one['mean_srtt_ms']:.0f}",
                f"{line['retransmissions']:.0f}",
                f"{runs[cc]:.0f}",
            ]
        )
    heads = ["path 1 + path 2, Mbit/s", "RTT of path 1, ms", "retransmissions"]
    return _table(["", *(f"{head}: {who}" for head in heads for who in ("kernel", "here"))], rows)


def engines(results: Results) -> str:
    """Upstream MPTCP, simulated and on a real kernel (recorded)."""
    columns = {"goodput": (GOODPUT, 2), "sender": (SENDER, 2), "RTT, ms": ("srtt_ms", 0), "retransmissions": ("retransmissions", 0)}
    runs = results.runs[(results.runs["experiment"] == "v1") & (results.runs["engine"] == "sim")]
    means = runs.groupby("cc", sort=False)[[column for column, _ in columns.values()]].mean()
    kernel = recorded("studies/nitk/linux-6.12.csv").set_index("cc")
    rows = [
        [cc, *(value for column, digits in columns.values() for value in (f"{means.loc[cc, column]:.{digits}f}", kernel.loc[cc, column]))]
        for cc in means.index
    ]
    return _table(["", *(f"{head}: {name}" for head in columns for name in ("sim", "Linux 6.12"))], rows)


def claims(results: Results) -> str:
    """The verdicts on the simulator, which alone has v0."""
    tables = material(results)
    platform = str(tables.runs[PLATFORM].iloc[0])
    both = zip(claim_results(tables, platform), other_views(tables, platform), strict=True)
    rows = [[f"`{claim.id}`", claim.verdict, claim.why, other[1].verdict if other else "–"] for claim, other in both]
    return _table(["claim", "verdict", "why", "by the receiver’s view"], rows, left=4)


def _table(head: list[str], rows: list[list[str]], left: int = 1) -> str:
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, rule, *rows])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python studies/nitk/compare.py TABLE")
    main(sys.argv[1])
