"""Group e of the bundled tables: mean sizes of segments within 5 % by table, and those that are
further away.

Sizes here are those of captures at the client, and those there too in `mtu/`. In the other tables
they are bytes sent by segments sent, which count probes that the host itself refused.
`PYTHONPATH=tools python specs/notes/mtu-probing/segments.py`
"""

import csv
from itertools import zip_longest

from figure_tables import ROOT, table
from measure import simulated

TABLES = ROOT / "tests" / "data" / "reference"
NAMES = ("linux-6.12", "linux-6.1", "mptcp-v0")
NEAR = 0.05


def main() -> None:
    """A line a table, and a line a subflow whose mean size is further away."""
    counted, outside = [], []
    for name in (*NAMES, "mtu/linux-6.12", "mtu/linux-6.1"):
        with (TABLES / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.DictReader(stream) if row["group"] == "e"]
        kernel = name.rpartition("-")[2] if "linux" in name else None
        here = {row["id"]: simulated(row["id"], kernel) for row in rows}
        near = total = 0
        for row in rows:
            linux = [float(row[f"sf{i}_avg_seg"]) for i in (1, 2) if row.get(f"sf{i}_avg_seg")]
            for i, (theirs, ours) in enumerate(zip_longest(linux, here[row["id"]]), 1):
                if theirs is None and ours is None:
                    continue
                agrees = theirs is not None and ours is not None and abs(ours - theirs) <= NEAR * theirs
                total, near = total + 1, near + agrees
                if not agrees:
                    outside.append([name, f"`{row['id']}`", str(i), *("–" if size is None else f"{size:.0f}" for size in (theirs, ours))])
        counted.append([name, f"{near} of {total}"])
    listed = table(["table", "run", "subflow", "kernel, bytes", "here"], outside, left=3)
    print(table(["table", "mean sizes within 5 %"], counted), listed, sep="\n\n")


main()
