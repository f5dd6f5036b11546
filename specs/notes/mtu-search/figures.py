"""The table of docs/concepts/path-mtu.md: python figures.py compare."""

import sys

from figure_tables import choose, simulated, table


def compare() -> str:
    """What each search sends and finds, and when."""
    results = simulated("specs/notes/mtu-search")
    of_subflow = results.subflows[["key", "mss", "mss_changed_s", "bytes_acked"]]
    runs = results.runs.merge(of_subflow, on="key").sort_values(["passes", "search"])
    rows = []
    for (passes, search), own in runs.groupby(["passes", "search"], sort=False):
        run = own.iloc[0]
        sent = run["mtu_probes_arrived"] + run["mtu_probes_lost"]
        share = 100 * run["mtu_probe_bytes"] / run["bytes_acked"]
        rows.append(
            [
                passes.removesuffix("B"),
                f"`{search}`",
                f"{run['mss'] + 52:.0f}",
                f"{sent:.0f}",
                f"{run['mtu_probes_lost']:.0f}",
                f"{run['mss_changed_s']:.2f}",
                f"{share:.3f}",
                f"{run['goodput_receiver_mbps']:.1f}",
            ]
        )
    counts = ["found", "probes", "lost", "last change after, s", "data in probes, %", "goodput of the first 2 s, Mbit/s"]
    return table(["path passes", "search", *counts], rows)


choose(sys.argv, {"compare": compare})
