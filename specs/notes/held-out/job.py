"""Cells of the kinds of the Linux tables that are in no table: drawn at random once, run on Linux 6.12 and in the simulator, judged.

python job.py linux|sim [--only PATTERN]: runs them, the kernel in some seven minutes on two cores; results in ./results.
python job.py judge [--half looked-into|counted] [--list]: the share that agrees by the rule of `polypath validate`.
python job.py look --only CELL [--repeat N] [--until SECONDS]: one run on both, side by side every 10 ms, with captures of the kernel's.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import math
import random
from pathlib import Path
from typing import Any

import pandas as pd

from polypath import Study, run

# The sixteen of the tables.
ALGORITHMS = ["reno", "cubic", "bic", "westwood", "vegas", "veno", "illinois", "hybla"]
ALGORITHMS += ["scalable", "highspeed", "htcp", "bbr", "lp", "yeah", "nv", "cdg"]
BUFFERS = {"net.ipv4.tcp_rmem": [4096, 131072, 16777216], "net.ipv4.tcp_wmem": [4096, 16384, 16777216]}
CLIENT: dict[str, Any] = {"sysctl": BUFFERS}
# As in studies/linux-reference: how the measuring program reads.
SERVER: dict[str, Any] = {"sysctl": {**BUFFERS, "receive_low_water": 32768, "read_period_us": 2020}}
ROUTER = {"router": True}
REPEATS = 4


class Draw:
    """What a cell is made of; the same for ever."""

    def __init__(self) -> None:
        self.random = random.Random(20_261_122)

    def log(self, low: float, high: float) -> float:
        """Between the two, with two significant digits; each factor as likely."""
        value = math.exp(self.random.uniform(math.log(low), math.log(high)))
        return float(f"{value:.2g}")

    def queue(self, mbit: float, rtt_ms: float) -> int:
        """Packets of 1514 bytes: a third to twice of what the path holds."""
        return max(10, round(self.log(0.33, 2) * mbit * rtt_ms * 1000 / 8 / 1514))


def bulk(transport: str, cc: str, number: int, start_us: float, seconds: int) -> dict[str, Any]:
    flow = {
        "client": f"c{number}",
        "server": f"s{number}",
        "server_address": f"10.9.{number}.1",
        "transport": transport,
        "cc": cc,
        "start": f"{start_us}us",
        "app": {"kind": "bulk", "duration": f"{seconds}s"},
    }
    if transport == "mptcp":
        flow["path_manager"] = {"kind": "endpoints", "addresses": [{"address": "10.12.1.1"}]}
    return flow


def ends(left: str, right: str, net: str) -> list[dict[str, str]]:
    return [{"node": left, "address": f"{net}.1"}, {"node": right, "address": f"{net}.2"}]


def path(number: int, half_ms: float, mbit: float, queue: int, loss: float, to: str) -> dict[str, Any]:
    """From the client over a router: delay, then loss, rate and queue; the way back has a delay alone."""
    return {
        f"c-p{number}": {"ends": ends("c1", f"p{number}", f"10.1{number}.1"), "forward": {"delay": f"{half_ms}ms"}},
        f"p{number}-x": {
            "ends": ends(f"p{number}", to, f"10.1{number}.3"),
            "forward": {"loss": f"{loss}%", "rate": f"{mbit}mbit", "queue": f"{queue}packets"},
            "backward": {"delay": f"{half_ms}ms"},
        },
    }


def dumbbell(mbit: float, half_ms: float, queue: int, mptcp: bool) -> dict[str, Any]:
    links = {
        "c1-ra-1": {"ends": ends("c1", "ra", "10.11.1"), "forward": {"delay": f"{half_ms}ms"}},
        "c2-ra": {"ends": ends("c2", "ra", "10.22.1"), "forward": {"delay": f"{half_ms}ms"}},
        "bottleneck": {"ends": ends("ra", "rb", "10.40.1"), "forward": {"rate": f"{mbit}mbit", "queue": f"{queue}packets"}},
        "rb-s1": {"ends": ends("rb", "s1", "10.61.1"), "backward": {"delay": f"{half_ms}ms"}},
        "rb-s2": {"ends": ends("rb", "s2", "10.62.1"), "backward": {"delay": f"{half_ms}ms"}},
    }
    if mptcp:
        links["c1-ra-2"] = {"ends": ends("c1", "ra", "10.12.1"), "forward": {"delay": f"{half_ms}ms"}}
    servers = {f"s{number}": {**SERVER, "addresses": [f"10.9.{number}.1"]} for number in (1, 2)}
    return {"nodes": {"c1": CLIENT, "c2": CLIENT, "ra": ROUTER, "rb": ROUTER, **servers}, "links": links}


def one_server(routers: list[str], links: dict[str, Any]) -> dict[str, Any]:
    nodes = {"c1": CLIENT, **dict.fromkeys(routers, ROUTER), "s1": {**SERVER, "addresses": ["10.9.1.1"]}}
    return {"nodes": nodes, "links": links}


def experiment(title: str, topology: dict[str, Any], flows: dict[str, Any], window: tuple[int, int], repeat: str) -> dict[str, Any]:
    """`repeat`: seeds where losses are random, else the moment between two ticks, or the later flow's start."""
    values: dict[str, list[str]] = {
        "seed": ["739us"],
        "moment": ["739us", "1739us", "2739us", "3739us"],
        "later": ["1330us", "371330us", "801330us", "1301330us"],
    }
    return {
        "title": title,
        "topology": topology,
        "flows": flows,
        "duration": f"{window[1] + (2 if repeat == 'later' else 0)}s",
        "measure": {"window": [f"{window[0]}s", f"{window[1]}s"], "series": "100ms"},
        "matrix": {"start": values[repeat]},
        "seeds": REPEATS if repeat == "seed" else 1,
    }


def draw() -> dict[str, dict[str, Any]]:
    """152 cells, by name: kind, number, algorithms."""
    draw, found = Draw(), {}
    for number, cc in enumerate(ALGORITHMS * 3):
        mbit, rtt, loss = draw.log(5, 200), draw.log(5, 160), draw.log(0.05, 2) if number % 3 == 2 else 0
        queue = draw.queue(mbit, rtt)
        flow = bulk("tcp", cc, 1, 0, 25) | {"start": "${start}"}
        links = path(1, rtt / 2, mbit, queue, loss, "s1")
        title = f"{mbit:g} Mbit/s, {rtt:g} ms, queue {queue}, loss {loss:g} %"
        topology = one_server(["p1"], links)
        found[f"a{number}-{cc}"] = experiment(title, topology, {"c1": flow}, (5, 25), "seed" if loss else "moment")
    pairs = [(left, ALGORITHMS[(index + step) % 16]) for step in (1, 3, 6) for index, left in enumerate(ALGORITHMS)][:40]
    for number, (left, right) in enumerate(pairs):
        mbit, rtt = draw.log(5, 50), draw.log(10, 100)
        queue = draw.queue(mbit, rtt)
        flows = {"c1": bulk("tcp", left, 1, 1269, 40), "c2": bulk("tcp", right, 2, 0, 40) | {"start": "${start}"}}
        title = f"{mbit:g} Mbit/s, {rtt:g} ms, queue {queue}"
        found[f"b{number}-{left}-{right}"] = experiment(title, dumbbell(mbit, rtt / 2, queue, False), flows, (10, 40), "later")
    for number, cc in enumerate(ALGORITHMS):
        rates, halves = [draw.log(20, 100), draw.log(20, 100)], [draw.log(1, 30), draw.log(1, 30)]
        hop, back = draw.log(5, 18), draw.log(1, 10)
        queue = draw.queue(hop, 2 * min(halves) + back)
        links = path(1, halves[0], rates[0], 100, 0, "h2") | path(2, halves[1], rates[1], 100, 0, "h2")
        hop_link = {"forward": {"rate": f"{hop}mbit", "queue": f"{queue}packets"}, "backward": {"delay": f"{back}ms"}}
        links["h2-s"] = {"ends": ends("h2", "s1", "10.30.1"), **hop_link}
        flow = bulk("mptcp", cc, 1, 0, 20) | {"start": "${start}"}
        title = f"{rates[0]:g} and {rates[1]:g} Mbit/s, {halves[0]:g} and {halves[1]:g} ms each way, into {hop:g} Mbit/s, queue {queue}"
        found[f"c{number}-{cc}"] = experiment(title, one_server(["p1", "p2", "h2"], links), {"c1": flow}, (0, 20), "moment")
    for number, cc in enumerate(ALGORITHMS * 2):
        rates, halves = [draw.log(10, 120), draw.log(10, 120)], [draw.log(1, 60), draw.log(1, 60)]
        queues = [draw.queue(rate, max(2 * half, 10)) for rate, half in zip(rates, halves, strict=True)]
        loss = draw.log(0.1, 5) if number % 3 == 0 else 0
        links = path(1, halves[0], rates[0], queues[0], loss, "s1") | path(2, halves[1], rates[1], queues[1], 0, "s1")
        flow = bulk("mptcp", cc, 1, 0, 25) | {"start": "${start}"}
        title = f"{rates[0]:g} and {rates[1]:g} Mbit/s, {halves[0]:g} and {halves[1]:g} ms each way, queues {queues[0]} and {queues[1]}"
        title += f", {loss:g} % loss on the first" if loss else ""
        topology = one_server(["p1", "p2"], links)
        found[f"d{number}-{cc}"] = experiment(title, topology, {"c1": flow}, (0, 25), "seed" if loss else "moment")
    for number, cc in enumerate(ALGORITHMS):
        mbit, rtt = draw.log(5, 50), draw.log(10, 100)
        queue = draw.queue(mbit, rtt)
        flows = {"c1": bulk("mptcp", cc, 1, 1416, 40), "c2": bulk("tcp", cc, 2, 0, 40) | {"start": "${start}"}}
        title = f"{mbit:g} Mbit/s, {rtt:g} ms, queue {queue}"
        found[f"f{number}-{cc}"] = experiment(title, dumbbell(mbit, rtt / 2, queue, True), flows, (10, 40), "later")
    return found


def half(cell: str) -> str:
    """One half of the cells is looked into; the other is only counted."""
    return "looked-into" if hashlib.sha256(cell.encode()).digest()[0] % 2 == 0 else "counted"


def study(only: str, engine: str, repeat: int | None = None) -> Study:
    """`repeat`: one repeat alone, looked at closely."""
    chosen = {name: cell for name, cell in draw().items() if fnmatch.fnmatch(name, only)}
    for cell in chosen.values() if repeat is not None else ():
        starts = cell["matrix"]["start"]
        cell["matrix"] = {"start": [starts[min(repeat, len(starts) - 1)]]}
        cell["seeds"] = [repeat + 1] if len(starts) == 1 else 1
        cell["measure"]["series"] = "10ms"
        if engine == "linux":
            ends = [(end["node"], link) for link, at in cell["topology"]["links"].items() for end in at["ends"]]
            cell["measure"]["capture"] = [{"node": node, "link": link, "snaplen": "128B"} for node, link in ends if node[0] in "cs"]
    if engine == "linux":
        # The kernel's own algorithms, not ours compiled into it.
        for cell in chosen.values():
            for flow in cell["flows"].values():
                flow["cc"] += "@linux"
    # A study has a set-up of its own, though each cell here brings another.
    setup = next(iter(chosen.values()))
    general = {part: setup[part] for part in ("topology", "flows", "duration")}
    return Study.model_validate({"name": "held-out", "baselines": None, "kernel": "6.12", **general, "experiments": chosen})


def look(cell: str, repeat: int, until: float, folder: Path) -> None:
    tables = {}
    for engine in ("linux", "sim"):
        run(study(cell, engine, repeat), engine=engine, out=folder / f"look-{engine}")
        series = pd.read_parquet(folder / f"look-{engine}" / "held-out" / "series.parquet")
        series["subflow"] = series.flow + "." + series.subflow.astype(str)
        for column in ("cwnd", "in_flight", "srtt_ms", "retransmissions"):
            tables[engine, column] = series.pivot_table(index=series.time_s.round(2), columns="subflow", values=column, aggfunc="first")
    print(pd.concat(tables, axis=1).ffill().loc[:until].round(1).to_string())


def judge(folder: Path, which: str, referee: str, listed: bool) -> None:
    titles = {name: cell["title"] for name, cell in draw().items()}
    tables = {engine: pd.read_parquet(folder / engine / "held-out" / "runs.parquet") for engine in (referee, "sim")}
    rates = {engine: table.groupby(["experiment", "flow"]).goodput_receiver_mbps for engine, table in tables.items()}
    rows = []
    for (name, flow), linux in rates[referee]:
        if (name, flow) not in rates["sim"].groups or which not in ("all", half(name)):
            continue
        ours = rates["sim"].get_group((name, flow))
        cc = name.split("-")[int(flow[1]) if name[0] == "b" else 1]
        spread = (linux - linux.mean()).abs().max()
        away = ours.mean() - linux.mean()
        rows.append(
            {
                "kind": name[0],
                "cc": cc,
                "cell": name,
                "flow": flow,
                "linux": linux.mean(),
                "spread": spread,
                "sim": ours.mean(),
                "sim_spread": (ours - ours.mean()).abs().max(),
                "relative": away / linux.mean(),
                "agrees": abs(away) <= max(0.1 * linux.mean(), spread),
                "title": titles[name],
            }
        )
    table = pd.DataFrame(rows)
    for by in ("kind", "cc"):
        print(table.groupby(by, sort=False).agrees.agg(["sum", "count"]).T.to_string(), "\n")
    print(f"{which}: {table.agrees.sum()} of {len(table)} agree, {table.agrees.mean():.1%}")
    if listed:
        pd.set_option("display.width", 220)
        differs = table[~table.agrees].sort_values("relative", key=abs, ascending=False).drop(columns=["kind", "cc", "agrees"])
        print(differs.to_string(index=False, float_format=lambda value: f"{value:.2f}", max_colwidth=90))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["linux", "sim", "judge", "look"])
    parser.add_argument("--only", default="*")
    parser.add_argument("--half", default="all", choices=["all", "looked-into", "counted"])
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--until", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    kernels = "linux" if arguments.kernel == "6.12" else f"linux-{arguments.kernel}"
    if arguments.what == "judge":
        judge(arguments.out, arguments.half, kernels, arguments.list)
    elif arguments.what == "look":
        look(arguments.only, arguments.repeat, arguments.until, arguments.out)
    elif arguments.what == "linux":
        run(study(arguments.only, "linux"), engine="linux", kernel=arguments.kernel, out=arguments.out / kernels)
    else:
        run(study(arguments.only, "sim"), engine="sim", out=arguments.out / "sim")


if __name__ == "__main__":
    main()
