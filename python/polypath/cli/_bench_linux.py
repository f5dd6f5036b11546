"""`polypath bench --engine linux`: how fast a machine starts, and how much of a kernel's time
passes in a second of ours.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from rich.table import Column, Table

from polypath.engines import EngineError, LinuxEngine
from polypath.study import Study, StudyError, runs, unknown

from ._console import give, out, passing

# As short as a run may be over these links (10 ms there): a flow that sends next to nothing.
_START = "start"
_RATES = {"tcp-100mbit": ("100mbit", 30), "tcp-1gbit": ("1gbit", 10), "mptcp-2x100mbit": ("100mbit", 10), _START: ("1mbit", 0.02)}
CASES = tuple(name for name in _RATES if name != _START)

_MEASURE = "import sys; from polypath.cli._bench_linux import measure; measure(sys.argv[1], sys.argv[2])"


def case(name: str) -> Study:
    """One flow over a router, or over two with MPTCP; 20 ms, queues of one bandwidth-delay product,
    large buffers.
    """
    rate, seconds = _RATES[name]
    paths = (1, 2) if name.startswith("mptcp") else (1,)
    bits = {"100mbit": 10**8, "1gbit": 10**9, "1mbit": 10**6}[rate]
    queue = f"{max(bits // 8 * 20 // 1000 // 1514, 10)}packets"
    buffers = {"net.ipv4.tcp_rmem": [4096, 131072, 16777216], "net.ipv4.tcp_wmem": [4096, 16384, 16777216]}
    links: dict[str, Any] = {}
    for path in paths:
        links[f"near{path}"] = {"ends": ["client", f"router{path}"], "both": {"delay": "10ms"}}
        links[f"far{path}"] = {"ends": [f"router{path}", "server"], "forward": {"rate": rate, "queue": queue}, "backward": []}
    nodes: dict[str, Any] = {"client": {"sysctl": buffers}, "server": {"sysctl": buffers, "addresses": ["10.9.0.1"]}}
    nodes |= {f"router{path}": {"router": True} for path in paths}
    flow = {"client": "client", "server": "server", "transport": "mptcp" if len(paths) > 1 else "tcp", "server_address": "10.9.0.1"}
    return Study.model_validate(
        {
            "name": name,
            "topology": {"nodes": nodes, "links": links},
            "flows": {"f": flow},
            "duration": f"{round(seconds * 1000)}ms",
            "measure": {"series": None},
            "baselines": None,
        }
    )


def measure(name: str, kernel: str) -> None:
    """Runs a case once and prints what it took; in a process of its own, so that its memory is that
    of one machine.
    """
    engine = LinuxEngine()
    (run,) = runs(case(name), engine=engine.name, version=engine.versions(), kernel=kernel)
    scenario = {**run.scenario, "duration_ns": round(_RATES[name][1] * 1e9)}
    began = time.perf_counter()
    output = engine.run(scenario)
    wall = time.perf_counter() - began
    packets = sum(subflow["data_segments_sent"] for flow in output.outcome["flows"] for subflow in flow["subflows"])
    # The largest of the processes that ended: the kernel's.
    rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    sys.stdout.write(json.dumps({"wall_s": wall, "packets": packets, "rss_mb": rss, "simulated_s": scenario["duration_ns"] / 1e9}))


def bench(cases: list[str], repeat: int, kernel: str, *, as_json: bool) -> None:
    """Measures the cases and prints them."""
    for name in cases:
        if name not in CASES:
            raise StudyError(unknown("case", name, CASES))

    def times(name: str) -> list[dict[str, float]]:
        return [measured(name, [sys.executable, "-c", _MEASURE, name, kernel]) for _ in range(repeat)]

    start = median(times(_START))["wall_s"]
    rows = []
    for name in cases or CASES:
        passing(name)
        took = median(times(name))
        wall = max(took["wall_s"] - start, 1e-9)
        rows.append(
            {
                "name": name,
                "packets_per_s": took["packets"] / wall,
                "simulated_s_per_s": took["simulated_s"] / wall,
                "wall_s": wall,
                "rss_mb": took["rss_mb"],
            }
        )
    if as_json:
        give({"kernel": kernel, "start_s": start, "cases": rows})
        return
    heads = ("packets/s", "simulated s/s", "wall s", "peak MB")
    table = Table("case", *(Column(head, justify="right") for head in heads))
    for row in rows:
        figures = (f"{row['packets_per_s']:,.0f}", f"{row['simulated_s_per_s']:.1f}", f"{row['wall_s']:.2f}", f"{row['rss_mb']:.0f}")
        table.add_row(str(row["name"]), *figures)
    out.print(table)
    out.print(f"kernel {kernel}; a machine's start and end take {start:.2f} s, which is not counted above")


def median(measurements: Sequence[dict[str, float]]) -> dict[str, float]:
    """The measurement with the median time; memory is the largest of all."""
    ordered = sorted(measurements, key=lambda measured: measured["wall_s"])
    return {**ordered[(len(ordered) - 1) // 2], "rss_mb": max(measured["rss_mb"] for measured in measurements)}


def measured(case: str, command: Sequence[str]) -> dict[str, float]:
    """What a process that measures a case prints as JSON."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"the case {case} failed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'no message'}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
