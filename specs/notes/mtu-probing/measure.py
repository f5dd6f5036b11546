"""Asks the linux engine for the cells of tests/data/reference/mtu, one file a kernel:
`python measure.py 6.12 linux-6.12.csv`.

The set-ups are those that `polypath validate` reads from the names of the runs. The size of a
segment is what stands in the packets that leave the client, retransmissions included: a kernel
counts probes too that it refuses itself (README.md).
"""

import csv
import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from polypath import _native
from polypath.engines import find
from polypath.validate._ids import Setup, parse
from polypath.validate._scenario import build, for_kernel

CELLS = (
    *(f"e_mptcp_1500first_probe{probing}_icmp{icmp}" for probing in (0, 1, 2) for icmp in ("ok", "drop")),
    *(f"e_{paths}_probe2_icmp{icmp}" for paths in ("mptcp_9000+1500", "tcp_1500mid") for icmp in ("ok", "drop")),
    "e_mptcp_9000+9000_probe2",
    "e_mptcp_1500+1500_probe2",
)
HEAD = "platform,id,group,flow,cc,mptcp,dur,win,goodput_mbps,retrans,nsub"
SUBFLOW = "src,acked_mbps,retrans,mean_srtt_ms,mean_cwnd,max_cwnd,min_rtt_ms,mss_last,pmtu_last,avg_seg"
SNAPLEN = 128
# More packets than any of these runs has on an interface.
PACKETS = 400_000


def captured(setup: Setup, kernel: str | None) -> dict[str, Any]:
    """The scenario of a set-up, with captures at the client."""
    plan = build(replace(setup, kernel=kernel) if kernel else setup)
    links = [link["name"] for link in plan["links"] if link["a"]["node"] == "c"]
    plan["captures"] = [{"node": "c", "link": name, "snaplen": SNAPLEN, "packets": PACKETS} for name in links]
    return plan


def simulated(name: str, kernel: str | None) -> list[float | None]:
    """Mean size of the segments of each subflow in the simulator's captures of a run, as this
    kernel or as the run's name says.
    """
    outcome, _series, _links, captures = _native.simulate(json.dumps(captured(parse(name), kernel)))
    found = []
    for subflow in json.loads(outcome)["flows"][0]["subflows"]:
        means = [mean_segment(io.BytesIO(data), subflow["source"]) for data in captures.values()]
        found.append(next((mean for mean in means if mean is not None), None))
    return found


def mean_segment(capture: io.BytesIO, source: str) -> float | None:
    """Mean bytes of data in the segments that an address sends, of those with any."""
    found = sizes_of(capture.read(), source)
    return sum(size * count for size, count in found.items()) / sum(found.values()) if found else None


def sizes_of(data: bytes, source: str) -> dict[int, int]:
    """How many segments of each size an IPv4 address sends, by the enhanced packet blocks of a
    pcapng (raw IP, or Ethernet).
    """
    wanted = bytes(map(int, source.split(".")))
    sizes: dict[int, int] = {}
    at, skip = 0, 0
    while at + 12 <= len(data):
        kind, length = (int.from_bytes(data[at + 4 * k : at + 4 * k + 4], "little") for k in (0, 1))
        if kind == 1:
            skip = 14 if int.from_bytes(data[at + 8 : at + 10], "little") == 1 else 0
        elif kind == 6:
            packet = data[at + 28 + skip : at + 28 + int.from_bytes(data[at + 20 : at + 24], "little")]
            head = 4 * (packet[0] & 15)
            if packet[12:16] == wanted and packet[9] == 6:
                size = int.from_bytes(packet[2:4], "big") - head - 4 * (packet[head + 12] >> 4)
                if size > 0:
                    sizes[size] = sizes.get(size, 0) + 1
        at += length
    return sizes


def row(name: str, kernel: str) -> list[str]:
    """A run on the linux engine as a row of the table."""
    setup = parse(name)
    output = find("linux").run(for_kernel(captured(setup, kernel), kernel))
    flow = output.outcome["flows"][0]
    sizes: dict[str, float | None] = {}
    for file in output.captures.values():
        data = io.BytesIO(file.read())
        for subflow in flow["subflows"]:
            source = subflow["source"].split(":")[0]
            sizes[source] = mean_segment(io.BytesIO(data.getvalue()), source) or sizes.get(source)
    text = lambda value, digits: "" if value is None else f"{value:.{digits}f}"  # noqa: E731
    cells = ["uml", name, "e", "c", setup.cc, str(int(setup.flows[0].mptcp)), "20", "0-20", text(flow["goodput_receiver_bps"] / 1e6, 3)]
    cells += [str(sum(s["retransmissions"] or 0 for s in flow["subflows"])), str(len(flow["subflows"]))]
    for subflow in flow["subflows"]:
        source = subflow["source"].split(":")[0]
        cells += [source, text((subflow["acked_bps"] or 0) / 1e6, 3), str(subflow["retransmissions"])]
        cells += [text(subflow["mean_srtt_us"] / 1e3, 2), text(subflow["mean_cwnd"], 1), str(subflow["max_cwnd"])]
        cells += [text(subflow["min_rtt_us"] / 1e3, 2), str(subflow["mss"]), str(subflow["pmtu"]), text(sizes[source], 1)]
    return cells


def main(kernel: str, file: str) -> None:
    head = HEAD.split(",") + [f"sf{i}_{name}" for i in (1, 2) for name in SUBFLOW.split(",")]
    with ThreadPoolExecutor(2) as pool, Path(file).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(head)
        for cells in pool.map(lambda name: row(name, kernel), CELLS):
            writer.writerow(cells + [""] * (len(head) - len(cells)))


if __name__ == "__main__":
    main(*sys.argv[1:])
