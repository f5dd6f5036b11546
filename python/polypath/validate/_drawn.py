"""Networks drawn at random: what no table holds, so that no model can have been fitted to it.

The draw is the same for ever for a seed and a number of networks; nothing that an engine does can
change it.
"""

import math
import random
from pathlib import Path
from typing import Any, TypeAlias

from polypath.engines import SimEngine
from polypath.study import Study

Json: TypeAlias = dict[str, Any]

KINDS = {
    "a": "one TCP",
    "b": "two TCPs in one bottleneck",
    "c": "MPTCP into one hop",
    "d": "MPTCP over two paths",
    "f": "MPTCP beside TCP in one bottleneck",
    "g": "MPTCP over two paths, beside TCP on the first",
    "h": "MPTCP over three or four paths",
    "i": "a download by MPTCP over two paths",
    "j": "a TCP upload and a TCP download through one bottleneck",
    "k": "two TCPs in one bottleneck with an AQM",
    "l": "MPTCP over two paths, the first of them wireless",
}
USUAL = "abcdfg"
"""Kinds that are drawn if nothing is said."""
LARGE_BUFFERS = {"net.ipv4.tcp_rmem": [4096, 131_072, 16_777_216], "net.ipv4.tcp_wmem": [4096, 16_384, 16_777_216]}
SPREAD = "1s"
"""Every flow starts within this time, at a moment drawn from seed and name: the same on every
engine.
"""
SECONDS = 30
WINDOW = ("5s", "25s")
"""Since the connection stood; it stands within SPREAD of the start."""
FRAME = 1514

COLUMNS = (
    *("network", "kind", "flow", "cc", "starts", "linux_mbps", "sim_mbps", "difference", "interval", "p_mean", "p_ks", "standing"),
    *("title", "linux_starts", "sim_starts"),
)
"""Of the file that keeps what was found."""


def is_drawn(file: Path) -> bool:
    """Whether a file keeps what was found on drawn networks."""
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.readline().rstrip("\n").split(",") == [*COLUMNS]
    except (OSError, UnicodeDecodeError):
        return False


class _Draw:
    """Uses nothing of `random` but numbers in [0, 1), which no version of Python changes."""

    def __init__(self, seed: int) -> None:
        self._next = random.Random(seed).random

    def log(self, low: float, high: float) -> float:
        """Between the two, with two significant digits; every factor is as likely."""
        return float(f"{math.exp(math.log(low) + (math.log(high) - math.log(low)) * self._next()):.2g}")

    def one(self, of: list[Any]) -> Any:
        return of[int(self._next() * len(of))]

    def path(self, *, slowest: float = 5.0, fastest: float = 100.0, lossy: float = 0.25) -> Json:
        """5 to 100 Mbit/s, 4 to 160 ms, a queue of a third to twice of what the path holds; a share
        `lossy` loses 0.02 to 2 %.
        """
        rate, rtt = self.log(slowest, fastest), self.log(4, 160)
        queue = self.queue(rate, rtt)
        lost, loss = self._next(), self.log(0.02, 2)
        return {"rate": rate, "rtt": rtt, "queue": queue, "loss": loss if lost < lossy else 0.0}

    def queue(self, rate: float, rtt: float) -> int:
        """Packets: a third to twice of what fits into one round trip, at least 10."""
        return max(10, round(self.log(1 / 3, 2) * rate * rtt * 1000 / 8 / FRAME))


def algorithms() -> list[str]:
    """What both the simulator and a kernel have, by name."""
    return sorted(algorithm.name for algorithm in SimEngine().algorithms() if algorithm.counterpart)


def draw(seed: int, networks: int, starts: int, kinds: str = USUAL) -> Study:
    """A study with an experiment a network, kinds (letters of `KINDS`) and algorithms in turn. A
    kernel runs its own algorithms.
    """
    drawn, every = _Draw(seed), algorithms()
    first = int(drawn.log(1, 1e6)) % len(every)
    experiments = {}
    for number in range(networks):
        kind, cc = kinds[number % len(kinds)], every[(first + number) % len(every)]
        rival = drawn.one(every) if kind in "bfgjk" else None
        network = _network(drawn, kind, cc, rival)
        experiments[f"{kind}{number:02}-{cc}" + (f"-{rival}" if rival else "")] = network
    setup = next(iter(experiments.values()))
    return Study.model_validate(
        {
            "name": f"drawn-{seed}-{networks}" + ("" if kinds == USUAL else f"-{kinds}"),
            "baselines": None,
            "duration": f"{SECONDS}s",
            "seeds": starts,
            "measure": {"window": list(WINDOW), "series": None},
            "topology": setup["topology"],
            "flows": setup["flows"],
            "experiments": experiments,
        }
    )


def _network(drawn: _Draw, kind: str, cc: str, rival: str | None) -> Json:
    buffers = drawn.one([LARGE_BUFFERS, {}])
    if kind in "bfjk":
        path = drawn.path(fastest=50.0, lossy=0.0)
        if kind == "k":
            path["aqm"] = drawn.one(["codel", "fq_codel", "pie", "red"])
        title = _words(path)
        topology = _dumbbell(path, buffers, mptcp=kind == "f", both_ways=kind == "j")
    elif kind == "c":
        paths = [drawn.path(slowest=20.0, lossy=0.0), drawn.path(slowest=20.0, lossy=0.0)]
        rate, rtt = drawn.log(5, 18), drawn.log(1, 10)
        # Its queue follows the whole round trip over the shorter path.
        hop = {"rate": rate, "rtt": rtt, "queue": drawn.queue(rate, rtt + min(path["rtt"] for path in paths)), "loss": 0.0}
        title = f"{_words(paths[0])} and {_words(paths[1])}, into {_words(hop)}"
        topology = _shared_hop(paths, hop, buffers)
    else:
        count = {"a": 1, "h": drawn.one([3, 4]) if kind == "h" else 0}.get(kind, 2)
        paths = [drawn.path() for _ in range(count)]
        if kind == "l":
            paths[0] |= {"radio": drawn.one(["wifi6", "5g"]), "loss": 0.0}
        title = " and ".join(map(_words, paths))
        topology = _paths(paths, buffers, rival=kind == "g", download=kind == "i")
    flows = {"c1": _flow(1, "mptcp" if kind in "cdfghil" else "tcp", cc)}
    if kind == "i":
        flows["c1"]["direction"] = "download"
    if kind == "h":
        flows["c1"]["path_manager"]["addresses"] = [{"address": f"10.1{number}.1.1"} for number in range(2, len(paths) + 1)]
    if rival:
        flows["c2"] = _flow(2, "tcp", rival) | ({"direction": "download"} if kind == "j" else {})
    size = "large buffers" if buffers else "the kernel's own buffers"
    return {"title": f"{title}; {size}", "topology": topology, "flows": flows}


def _words(path: Json) -> str:
    loss = f", loss {path['loss']:g} %" if path["loss"] else ""
    more = "".join(f", {path[name]}" for name in ("aqm", "radio") if name in path)
    return f"{path['rate']:g} Mbit/s, {path['rtt']:g} ms, queue {path['queue']}{loss}{more}"


def _flow(number: int, transport: str, cc: str) -> Json:
    flow: Json = {
        "client": f"c{number}",
        "server": f"s{number}",
        "server_address": f"10.9.{number}.1",
        "transport": transport,
        "cc": cc,
        "start_spread": SPREAD,
    }
    if transport == "mptcp":
        flow["path_manager"] = {"kind": "endpoints", "addresses": [{"address": "10.12.1.1"}]}
    return flow


def _ends(left: str, right: str, net: str) -> list[Json]:
    return [{"node": left, "address": f"{net}.1"}, {"node": right, "address": f"{net}.2"}]


def _half(path: Json) -> Json:
    return {"delay": f"{path['rtt'] / 2}ms"}


def _bottleneck(path: Json) -> Json | list[Json]:
    is_red = path.get("aqm") == "red"  # It counts bytes.
    queue = f"{path['queue'] * FRAME}B" if is_red else f"{path['queue']}packets"
    if "radio" in path:
        return [{"kind": "wireless", "radio": path["radio"], "peak": f"{path['rate']}mbit", "queue": queue}]
    loss = {"loss": f"{path['loss']}%"} if path["loss"] else {}
    return {**loss, "rate": f"{path['rate']}mbit", "queue": queue, **({"aqm": _aqm(path)} if "aqm" in path else {})}


def _aqm(path: Json) -> Json:
    """The AQM as it comes; RED between a quarter and three quarters of the queue."""
    if path["aqm"] != "red":
        return {"kind": path["aqm"]}
    quarter = max(2, path["queue"] // 4) * FRAME
    return {"kind": "red", "min": f"{quarter}B", "max": f"{3 * quarter}B"}


def _nodes(routers: list[str], buffers: Json, ends: int) -> Json:
    client: Json = {"sysctl": buffers} if buffers else {}
    hosts = {f"c{number}": client for number in range(1, ends + 1)}
    servers = {f"s{number}": {**client, "addresses": [f"10.9.{number}.1"]} for number in range(1, ends + 1)}
    return {**hosts, **{name: {"router": True} for name in routers}, **servers}


def _dumbbell(path: Json, buffers: Json, *, mptcp: bool, both_ways: bool) -> Json:
    """Two pairs of hosts through one bottleneck; the first client has two interfaces for MPTCP."""
    half = _half(path)
    links: Json = {
        "c1-ra-1": {"ends": _ends("c1", "ra", "10.11.1"), "forward": half},
        "c2-ra": {"ends": _ends("c2", "ra", "10.22.1"), "forward": half},
        "bottleneck": {"ends": _ends("ra", "rb", "10.40.1"), "forward": _bottleneck(path)},
        "rb-s1": {"ends": _ends("rb", "s1", "10.61.1"), "backward": half},
        "rb-s2": {"ends": _ends("rb", "s2", "10.62.1"), "backward": half},
    }
    if both_ways:
        links["bottleneck"]["backward"] = _bottleneck(path)
    if mptcp:
        links["c1-ra-2"] = {"ends": _ends("c1", "ra", "10.12.1"), "forward": half}
    return {"nodes": _nodes(["ra", "rb"], buffers, 2), "links": links}


def _shared_hop(paths: list[Json], hop: Json, buffers: Json) -> Json:
    """Two paths, a router each, into a last hop that is narrower than either."""
    links = {}
    for number, path in enumerate(paths, 1):
        links[f"c-p{number}"] = {"ends": _ends("c1", f"p{number}", f"10.1{number}.1"), "forward": _half(path)}
        links[f"p{number}-h"] = {
            "ends": _ends(f"p{number}", "h", f"10.1{number}.3"),
            "forward": _bottleneck(path),
            "backward": _half(path),
        }
    links["h-s"] = {"ends": _ends("h", "s1", "10.30.1"), "forward": _bottleneck(hop), "backward": {"delay": f"{hop['rtt']}ms"}}
    return {"nodes": _nodes(["p1", "p2", "h"], buffers, 1), "links": links}


def _paths(paths: list[Json], buffers: Json, *, rival: bool, download: bool) -> Json:
    """Disjoint paths, two routers each; with `rival` a second pair of hosts shares the first path's
    bottleneck, with `download` it is on the way to the client.
    """
    links, routers = {}, []
    data, acks = ("backward", "forward") if download else ("forward", "backward")
    for number, path in enumerate(paths, 1):
        near, far = f"p{number}", f"q{number}"
        routers += [near, far]
        links[f"c-{near}"] = {"ends": _ends("c1", near, f"10.1{number}.1"), data: _half(path)}
        links[f"{near}-{far}"] = {"ends": _ends(near, far, f"10.1{number}.2"), data: _bottleneck(path)}
        links[f"{far}-s"] = {"ends": _ends(far, "s1", f"10.1{number}.3"), acks: _half(path)}
    if rival:
        links["c2-p1"] = {"ends": _ends("c2", "p1", "10.22.1"), "forward": _half(paths[0])}
        links["q1-s2"] = {"ends": _ends("q1", "s2", "10.22.3"), "backward": _half(paths[0])}
    return {"nodes": _nodes(routers, buffers, 2 if rival else 1), "links": links}
