"""Goodput of single cells of groups a and b of the Linux 6.12 table over many seeds and later starts, in the simulator and on Linux.

python job.py: some minutes.
"""

from __future__ import annotations

import statistics
import tempfile
from typing import Any

from polypath import Study, run

HOST: dict[str, Any] = {"sysctl": {"net.ipv4.tcp_rmem": [4096, 131072, 16777216], "net.ipv4.tcp_wmem": [4096, 16384, 16777216]}}


def loss(cc: str, seeds: int) -> dict[str, Any]:
    """a_rtt20_loss1: one TCP over 100 Mbit/s and 20 ms with 1 % random loss, 30 s."""
    links = {
        "first": {"ends": ["c", "r"], "both": {"delay": "10ms"}},
        "second": {"ends": ["r", "s"], "both": {"rate": "100mbit", "queue": "167packets", "loss": "1%"}},
    }
    topology = {"nodes": {"c": HOST, "r": {"router": True}, "s": HOST}, "links": links}
    return {"topology": topology, "flows": {"f": {"client": "c", "server": "s", "cc": cc}}, "duration": "30s", "seeds": seeds}


def rivals(cc: str, first: str) -> dict[str, Any]:
    """b_cubic_vs_CC: 20 Mbit/s, 40 ms, queue of 67 packets; the second flow starts up to 3 s later."""
    links = {
        "c1": {"ends": ["c1", "ra"], "forward": {"delay": "20ms"}},
        "c2": {"ends": ["c2", "ra"], "forward": {"delay": "20ms"}},
        "m": {"ends": ["ra", "rb"], "forward": {"rate": "20mbit", "queue": "67packets"}},
        "s1": {"ends": ["rb", "s1"], "backward": {"delay": "20ms"}},
        "s2": {"ends": ["rb", "s2"], "backward": {"delay": "20ms"}},
    }
    reader = {"sysctl": {**HOST["sysctl"], "receive_low_water": 32768}}
    nodes = {"c1": HOST, "c2": HOST, "ra": {"router": True}, "rb": {"router": True}, "s1": reader, "s2": reader}
    flows = {"f0": {"client": "c1", "server": "s1", "cc": first}, "f": {"client": "c2", "server": "s2", "cc": cc, "start": "${start}"}}
    return {
        "topology": {"nodes": nodes, "links": links},
        "flows": flows,
        "matrix": {"start": [f"{ms}ms" for ms in range(1, 3000, 230)]},
        "duration": "63s",
        "measure": {"window": ["10s", "60s"]},
    }


def show(name: str, engine: str, setup: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as out:
        runs = run(Study.model_validate({"name": "cell", "baselines": None, **setup}), engine=engine, out=out).runs
    rates = runs[runs.flow == "f"]["goodput_receiver_mbps"].tolist()
    deviation = statistics.stdev(rates)
    print(f"{name:24} {engine:6} {len(rates):3} {statistics.mean(rates):6.2f} {deviation:6.2f} {deviation / len(rates) ** 0.5:6.2f}", flush=True)


print("cell                     engine runs  mean deviation error of the mean")
for engine, kernels in (("sim", ""), ("linux", "@linux")):
    for cc, seeds in (("illinois", 24), ("yeah", 16), ("nv", 16)):
        show(f"a_rtt20_loss1_{cc}", engine, loss(cc + kernels, seeds))
    for cc in ("illinois", "yeah", "nv", "veno"):
        show(f"b_cubic_vs_{cc}", engine, rivals(cc + kernels, "cubic" + kernels))
