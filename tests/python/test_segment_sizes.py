"""Mean sizes of segments in captures at the client."""

import csv
from pathlib import Path

import pytest
from study_data import module_of

ROOT = Path(__file__).parents[2]
TABLES = ROOT / "tests" / "data" / "reference" / "mtu"
NEAR = 0.05
# By kernel: runs, and which of their subflows, whose sizes differ (docs/limitations.md says why).
DIFFER: dict[str, set[tuple[str, int]]] = {
    "6.12": {("e_mptcp_1500first_probe2_icmpok", 1)},
    "6.1": {("e_mptcp_9000+1500_probe2_icmpok", 1)},
}


@pytest.mark.parametrize("kernel", sorted(DIFFER))
def test_segments_are_as_long_as_linux_sends_them(kernel):
    measure, differ = module_of(ROOT / "specs/notes/mtu-probing/measure.py"), set()
    with (TABLES / f"linux-{kernel}.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        wanted = [float(row[f"sf{i}_avg_seg"]) for i in (1, 2) if row[f"sf{i}_avg_seg"]]
        found = measure.simulated(row["id"], kernel)
        assert len(found) == len(wanted), row["id"]
        for i, (ours, linux) in enumerate(zip(found, wanted, strict=True), 1):
            if ours is None or abs(ours - linux) > NEAR * linux:
                differ.add((row["id"], i))
    assert differ == DIFFER[kernel]
