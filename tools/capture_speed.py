"""How fast `polypath pcap` reads, in processor time of one core, as Markdown.

Captures of one MPTCP connection over two paths, made by the simulator: of few bytes a packet, as a snap length of all headers leaves
them, and whole. The least of several readings counts: what else the machine does can only add to it.
"""

from __future__ import annotations

import json
import resource
import tempfile
from pathlib import Path
from typing import Any

from figure_tables import table

from polypath import _native

REPETITIONS = 15
WHOLE = 65_535
CASES = (("MTU 300, 128 bytes kept", 300, 128), ("MTU 1500, 128 bytes kept", 1500, 128), ("MTU 1500, whole packets", 1500, WHOLE))


def scenario(mtu: int, snaplen: int) -> dict[str, Any]:
    delay = {"kind": "delay", "delay_ns": 10_000_000}
    forward = [
        {"kind": "rate", "bits_per_s": 500_000_000, "queue": {"bytes": 2_500_000}},
        {"kind": "loss", "model": "bernoulli", "probability": 0.002},
        delay,
    ]
    ends = [("c", f"10.1.{number}.1", "s", f"10.1.{number}.2") for number in (1, 2)]
    links = [
        {
            "name": f"path{number}",
            "a": {"node": a, "address": near, "mtu": mtu},
            "b": {"node": b, "address": far, "mtu": mtu},
            "a_to_b": forward,
            "b_to_a": [delay],
        }
        for number, (a, near, b, far) in enumerate(ends, 1)
    ]
    flow = {"name": "f", "transport": "mptcp", "cc": "cubic", "client": "c", "server": "s", "app": {"kind": "bulk", "duration_ns": 10**10}}
    return {
        "seed": 1,
        "duration_ns": 10**10,
        "nodes": [{"name": "c"}, {"name": "s"}],
        "links": links,
        "flows": [{**flow, "window_ns": [0, 10**10]}],
        "captures": [{"node": "c", "link": link["name"], "snaplen": snaplen, "packets": 10**7} for link in links],
    }


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(mtu: int, snaplen: int) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, data in _native.simulate(json.dumps(scenario(mtu, snaplen)))[3].items():
            files.append(Path(folder) / name)
            files[-1].write_bytes(data)
        size = sum(file.stat().st_size for file in files)
        least, packets = float("inf"), 0
        for _ in range(REPETITIONS):
            before = processor_seconds()
            report = json.loads(_native.analyse_captures([str(file) for file in files], False))
            least = min(least, processor_seconds() - before)
            packets = sum(file["packets"] for file in report["files"])
    return [f"{size / 1e6:.1f}", str(packets), f"{size / least / 1e6:.0f}", f"{least / packets * 1e9:.0f}"]


def main() -> None:
    rows = [[about, *measured(mtu, snaplen)] for about, mtu, snaplen in CASES]
    print(table(["packets", "MB", "packets read", "MB of file a second", "ns a packet"], rows))


if __name__ == "__main__":
    main()
