"""From the name of a measured run to its set-up. Names are parsed, never looked up, so a new run
works too.

A name is `[v0_]GROUP_PARAMETERS_CC[_rN]`; N counts the repeats from 1 and decides seed or later
starts. What each group's network looks like is written at the function that builds it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from polypath.study import DEFAULT_KERNEL, OUT_OF_TREE

MBIT = 1_000_000
# Largest receive and send buffers of the runs, bytes; `d_defbuf_*` has the kernel's defaults.
LARGE_BUFFERS = (16_777_216, 16_777_216)
DEFAULT_BUFFERS = (6_291_456, 4_194_304)
# Seconds by which the second flow starts later in repeat 1, 2, 3 of groups b and f, so that two
# equal flows do not lock phase.
LATER_STARTS = (0.0, 0.37, 1.3)


class UnknownRunError(ValueError):
    """The name fits none of the known patterns; the message is a sentence."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """client =(fwd_ms)= router =(rate, queue, loss)= server =(rev_ms)=. Queue in packets, loss in
    percent, MTU in bytes.
    """

    rate: int
    queue: int
    fwd_ms: float
    rev_ms: float
    loss: float = 0.0
    mtu: int = 1500
    # MTU of the router's egress, where it is smaller than the hosts'.
    mtu_mid: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sender:
    """One flow; `paths` is the number of its client's interfaces."""

    cc: str
    mptcp: bool = False
    paths: int = 1
    start_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Everything that a run's name says about it."""

    id: str
    repeat: int
    group: str
    # "paths": disjoint paths, a router each. "shared": paths into one last hop. "dumbbell": pairs
    # of hosts through one bottleneck.
    shape: str
    paths: tuple[Path, ...]
    flows: tuple[Sender, ...]
    duration_s: float
    window_s: tuple[float, float]
    # shared: the last hop, whose rev_ms is its whole round-trip time.
    last: Path | None = None
    # netem's delay and rate on both ends of every link, as in the nitk paper.
    both_ends: bool = False
    scheduler: str | None = None
    # Subflows over the first path by different ports; None: one subflow an address.
    ndiffports: int | None = None
    buffers: tuple[int, int] = LARGE_BUFFERS
    bytes: int | None = None
    # Whether the routers' ICMP toward the client arrives.
    icmp: bool = True
    sysctl: dict[str, int] = field(default_factory=dict)
    # Of losses and of algorithms that draw; None: as the run was measured, where later repeats have
    # other seeds or other starts.
    seed: int | None = None
    # The kernel of the hosts.
    kernel: str = DEFAULT_KERNEL
    # "bulk" or "iperf3"; the simulator's application models both.
    tool: str = "bulk"

    @property
    def out_of_tree(self) -> bool:
        """Whether the run was measured on the MPTCP of multipath-tcp.org."""
        return self.kernel == OUT_OF_TREE

    @property
    def lossy(self) -> bool:
        return any(path.loss for path in self.paths)

    @property
    def cc(self) -> str:
        """The algorithm that the run is about: of the flow whose algorithm varies in its group."""
        return self.flows[1].cc if self.group == "b" else self.flows[0].cc


def parse(name: str) -> Setup:
    """The set-up of the run called `name`; raises UnknownRunError."""
    repeated = re.fullmatch(r"(.+?)_r(\d+)", name)
    base, repeat = (repeated[1], int(repeated[2])) if repeated else (name, 1)
    rest, tool = (base.removesuffix("_iperf3"), "iperf3") if base.endswith("_iperf3") else (base, "bulk")
    for pattern, build in _PATTERNS:
        match = re.fullmatch(pattern, rest)
        if match:
            kernel = OUT_OF_TREE if rest.startswith("v0_") else DEFAULT_KERNEL
            return replace(build(match.groupdict(), repeat), id=base, repeat=repeat, kernel=kernel, tool=tool)
    raise UnknownRunError(f"the name {name!r} fits no known set-up")


def _make(group: str, shape: str, paths: tuple[Path, ...], flows: tuple[Sender, ...], seconds: float, begin: float = 0.0) -> Setup:
    return Setup(id="", repeat=1, group=group, shape=shape, paths=paths, flows=flows, duration_s=seconds, window_s=(begin, seconds))


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _bandwidth_delay(rate: int, rtt_ms: float) -> int:
    """Packets of 1500 bytes in one round trip: the queue of groups a, b, e, f."""
    return round(rate * rtt_ms / 1000 / 8 / 1500)


def _single(m: dict[str, str], repeat: int) -> Setup:
    """Group a: one TCP over 100 Mbit/s, queue of one bandwidth-delay product."""
    rtt = _number(m["rtt"])
    rate = 100 * MBIT
    path = Path(rate=rate, queue=_bandwidth_delay(rate, rtt), fwd_ms=rtt / 2, rev_ms=rtt / 2, loss=_number(m.get("loss") or "0"))
    return _make("a", "paths", (path,), (Sender(cc=m["cc"]),), 30, begin=5)


def _bottleneck(repeat: int) -> tuple[Path, float]:
    """The 20 Mbit/s, 40 ms bottleneck of groups b, f and n, and the second flow's start in this
    repeat.
    """
    if not 1 <= repeat <= len(LATER_STARTS):
        raise UnknownRunError(f"repeat {repeat} of a run with two flows has no known start time (1 to {len(LATER_STARTS)})")
    return Path(rate=20 * MBIT, queue=67, fwd_ms=20, rev_ms=20), LATER_STARTS[repeat - 1]


def _two_tcp(m: dict[str, str], repeat: int) -> Setup:
    """Group b: two TCP connections share a bottleneck."""
    path, start = _bottleneck(repeat)
    return _make("b", "dumbbell", (path,), (Sender(cc=m["first"]), Sender(cc=m["cc"], start_s=start)), 60, begin=10)


def _shared(m: dict[str, str], repeat: int) -> Setup:
    """Group c: two paths of 50 Mbit/s, 10 and 20 ms, into one hop of 10 Mbit/s, 4 ms and a queue of
    Q packets.
    """
    mptcp = not m.get("tcp")
    paths = tuple(Path(rate=50 * MBIT, queue=100, fwd_ms=ms, rev_ms=ms) for ms in (5, 10))
    setup = _make("c", "shared", paths, (Sender(cc=m["cc"], mptcp=mptcp, paths=2),), 20)
    return replace(setup, last=Path(rate=10 * MBIT, queue=int(m["queue"]), fwd_ms=0, rev_ms=4))


def _nitk(m: dict[str, str], repeat: int) -> Setup:
    """The nitk paper: `netem delay D rate R` with netem's default limit of 1000 packets on both
    ends of every link.
    """
    paths = tuple(Path(rate=50 * MBIT, queue=1000, fwd_ms=ms, rev_ms=ms) for ms in (5, 10))
    setup = _make("nitk", "shared", paths, (Sender(cc=m["cc"], mptcp=True, paths=2),), 20)
    return replace(setup, last=Path(rate=10 * MBIT, queue=1000, fwd_ms=2, rev_ms=2), both_ends=True)


def _two_paths(m: dict[str, str], repeat: int) -> Setup:
    """Groups d and s: MPTCP over two paths of 100 Mbit/s and 2 ms; path 1 gets D ms more each way,
    or loses L percent.
    """
    more, loss = _number(m.get("delay") or "0"), _number(m.get("loss") or "0")
    first = Path(rate=100 * MBIT, queue=167, fwd_ms=1 + more, rev_ms=1 + more, loss=loss)
    second = Path(rate=100 * MBIT, queue=167, fwd_ms=1, rev_ms=1)
    scheduler = m.get("scheduler")
    setup = _make("s" if scheduler else "d", "paths", (first, second), (Sender(cc=m.get("cc") or "cubic", mptcp=True, paths=2),), 30)
    return replace(setup, scheduler=scheduler, buffers=DEFAULT_BUFFERS if m.get("defbuf") else LARGE_BUFFERS)


def _fairness(m: dict[str, str], repeat: int) -> Setup:
    """Group f: MPTCP with two subflows against one TCP through the bottleneck."""
    path, start = _bottleneck(repeat)
    flows = (Sender(cc=m["cc"], mptcp=True, paths=2), Sender(cc=m.get("against") or m["cc"], start_s=start))
    return _make("f", "dumbbell", (path,), flows, 60, begin=10)


def _many_subflows(m: dict[str, str], repeat: int) -> Setup:
    """Group n: one MPTCP with N subflows on one path against M TCP connections with reno, which
    start one after the other.
    """
    path, _ = _bottleneck(1)
    count = int(m["tcps"])
    step = 0.37 if count == 1 else 0.13
    flows = (Sender(cc=m["cc"], mptcp=True), *(Sender(cc="reno", start_s=round(step * i, 2)) for i in range(1, count + 1)))
    return replace(_make("n", "dumbbell", (path,), flows, 60, begin=10), ndiffports=int(m["subflows"]))


def _transfer(m: dict[str, str], repeat: int) -> Setup:
    """60 MB over 100 Mbit/s, 2 ms and 8 Mbit/s, 20 ms."""
    paths = (Path(rate=100 * MBIT, queue=100, fwd_ms=1, rev_ms=1), Path(rate=8 * MBIT, queue=50, fwd_ms=10, rev_ms=10))
    setup = _make("done", "paths", paths, (Sender(cc=m["cc"], mptcp=True, paths=2),), 10)
    return replace(setup, bytes=60_000_000)


def _mtu(m: dict[str, str], repeat: int) -> Setup:
    """Group e: paths of 50 Mbit/s and 10 ms with other MTUs; 9000+1500 and 1500mid have 9000 at the
    hosts and 1500 behind the router.
    """
    queue = _bandwidth_delay(50 * MBIT, 10)

    def path(mtu: int, mtu_mid: int | None = None) -> Path:
        return Path(rate=50 * MBIT, queue=queue, fwd_ms=5, rev_ms=5, mtu=mtu, mtu_mid=mtu_mid)

    shapes = {
        "1500+1500": (path(1500), path(1500)),
        "9000+9000": (path(9000), path(9000)),
        "9000+1500": (path(9000), path(9000, 1500)),
        "9000+1500hosts": (path(9000), path(1500)),
        "1500first": (path(9000, 1500), path(9000)),
        "1500mid": (path(9000, 1500),),
        "1500": (path(1500),),
        "9000": (path(9000),),
    }
    if m["mtus"] not in shapes:
        raise UnknownRunError(f"the MTUs {m['mtus']!r} are none of {', '.join(shapes)}")
    sysctl: dict[str, int] = {}
    if m.get("probe"):
        sysctl["net.ipv4.tcp_mtu_probing"] = int(m["probe"])
    if m.get("base"):
        sysctl |= {"net.ipv4.tcp_mtu_probing": 1, "net.ipv4.tcp_base_mss": int(m["base"])}
    paths = shapes[m["mtus"]]
    flow = Sender(cc=m.get("cc") or "cubic", mptcp=m["transport"] == "mptcp", paths=len(paths))
    return replace(_make("e", "paths", paths, (flow,), 20), sysctl=sysctl, icmp=m.get("icmp") != "drop")


_CC = r"(?P<cc>[a-z][a-z0-9]*)"
_DECIMAL = r"\d+(?:\.\d+)?"
_MTU = (
    r"(?:v0_)?e_(?P<transport>mptcp|tcp)_(?P<mtus>[0-9+]+(?:hosts|first|mid)?)"
    rf"(?:_probe(?P<probe>[012])|_base(?P<base>\d+))?(?:_icmp(?P<icmp>ok|drop))?(?:_{_CC})?"
)
_PATTERNS: tuple[tuple[str, Callable[[dict[str, str], int], Setup]], ...] = (
    (rf"(?:v0_)?a_rtt(?P<rtt>{_DECIMAL})(?:_loss(?P<loss>{_DECIMAL}))?_{_CC}", _single),
    (rf"(?:v0_)?b_(?P<first>[a-z][a-z0-9]*)_vs_{_CC}", _two_tcp),
    (rf"(?:v0_)?c_q(?P<queue>\d+)_(?:(?P<tcp>tcp)_)?{_CC}", _shared),
    (rf"v0_nitk_{_CC}", _nitk),
    (rf"(?:v0_)?d_(?:(?P<defbuf>defbuf)_)?(?:delay(?P<delay>{_DECIMAL})|loss(?P<loss>{_DECIMAL}))_{_CC}", _two_paths),
    (rf"v0_s_(?P<scheduler>[a-z]+)_(?:delay(?P<delay>{_DECIMAL})|loss(?P<loss>{_DECIMAL}))", _two_paths),
    (rf"(?:v0_)?f_{_CC}(?:_vs_(?P<against>[a-z][a-z0-9]*))?", _fairness),
    (rf"v0_n(?P<subflows>\d+)_{_CC}_vs_(?P<tcps>\d+)tcp", _many_subflows),
    (rf"v0_done_{_CC}", _transfer),
    (_MTU, _mtu),
)
