"""From a set-up to what the simulator reads: the same nodes, addresses and queueing disciplines as
in the measured runs.

Path k: client =(delay)= router =(loss, rate, queue)= server =(delay)=. Rates count the IP packet
and 14 bytes, the packet in service counts as queued, and the way back has a delay but no rate.
"""

from typing import Any, TypeAlias

from polypath.validate._ids import Path, Sender, Setup

Json: TypeAlias = dict[str, Any]

SERVER = "10.9.0.1"
SECOND = 1_000_000_000
# Simulated seconds after which a transfer is given up.
PATIENCE_S = 120


def build(setup: Setup, *, series: bool = False) -> Json:
    """The scenario of one repeat, in the form of crates/sim/src/scenario.rs."""
    world = _World(setup)
    flows = world.dumbbell() if setup.shape == "dumbbell" else world.multipath()
    last = max(flow["start_ns"] for flow in flows)
    length = PATIENCE_S if setup.bytes else setup.duration_s + 1
    return {
        "seed": _seed(setup),
        "duration_ns": last + _ns(length),
        "series_interval_ns": SECOND // 10 if series else None,
        "nodes": [node if node.get("router") else {**node, "kernel": setup.kernel} for node in world.nodes],
        "links": world.links,
        "flows": flows,
    }


def _seed(setup: Setup) -> int:
    """Repeats were measured with seeds of their own, but where they start later: those all had the
    first one.

    Losses are drawn, and so is what cdg, bbr, nv and others do; a repeat where nothing is drawn
    gives the same run again.
    """
    if setup.seed is not None:
        return setup.seed
    return 1 if any(flow.start_s for flow in setup.flows) else setup.repeat


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)


def _delay(ms: float) -> list[Json]:
    return [{"kind": "delay", "delay_ns": round(ms * 1_000_000)}] if ms else []


def _rate(path: Path) -> list[Json]:
    # netem draws the loss when a packet arrives, before it looks at the queue.
    loss = [{"kind": "loss", "model": "bernoulli", "probability": path.loss / 100}] if path.loss else []
    return [*loss, {"kind": "rate", "bits_per_s": path.rate, "queue": {"packets": path.queue}}]


def _changed(sysctl: dict[str, int]) -> dict[str, int]:
    """Settings other than Linux's default: no MTU probing."""
    return {name: value for name, value in sysctl.items() if (name, value) != ("net.ipv4.tcp_mtu_probing", 0)}


# What an element that says nothing of it has; a plan for a kernel wants everything written out.
_DEFAULTS: dict[str, Json] = {
    "delay": {"jitter_ns": 0, "reorder": False, "changes": []},
    "loss": {"changes": []},
    "rate": {"framing_bytes": 14, "hold_ns": 0, "changes": []},
}


def for_kernel(scenario: Json, kernel: str) -> Json:
    """The same scenario as an engine that runs kernels reads it: no default goes without saying."""

    def written(elements: list[Json]) -> list[Json]:
        return [{**_DEFAULTS.get(element["kind"], {}), **element} for element in elements]

    def managed(flow: Json) -> Json:
        manager = flow["mptcp"].get("path_manager", {"kind": "fullmesh"})
        if manager["kind"] == "endpoints":
            manager = {**manager, "addresses": [{"backup": False, "remove_at_ns": None, **entry} for entry in manager["addresses"]]}
        return {"routes": [], **flow, "mptcp": {"scheduler": None, **flow["mptcp"], "path_manager": manager}}

    return {
        **scenario,
        "kernel": kernel,
        "nodes": [{"router": False, "addresses": [], "sysctl": {}, **_without_kernel(node)} for node in scenario["nodes"]],
        "links": [{**link, **{side: written(link[side]) for side in ("a_to_b", "b_to_a")}} for link in scenario["links"]],
        "flows": [managed(flow) for flow in scenario["flows"]],
    }


def _without_kernel(node: Json) -> Json:
    return {name: value for name, value in node.items() if name != "kernel"}


class _World:
    """Collects nodes and links."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.nodes: list[Json] = []
        self.links: list[Json] = []

    def host(self, name: str, *addresses: str, reader_of: Sender | None = None) -> None:
        rmem, wmem = self.setup.buffers
        sysctl: Json = {
            "net.ipv4.tcp_rmem": [4096, 131_072, rmem],
            "net.ipv4.tcp_wmem": [4096, 16_384, wmem],
            **_changed(self.setup.sysctl),
        }
        # The receiving program of the measured runs: SO_RCVLOWAT for plain TCP; upstream MPTCP had
        # none, so it sleeps 2 ms between reads there, which with the timer's slack comes to 2.02 ms
        # (specs/notes/mptcp-two-paths; the engine linux is seen to wake a sleeper so late). Little
        # rests on it: 2.00 to 2.10 ms move one row of 6.12's table and three of 6.1's.
        if reader_of and not reader_of.mptcp and not self.setup.out_of_tree:
            sysctl["receive_low_water"] = 32_768
        elif reader_of and not self.setup.out_of_tree:  # what read in the out-of-tree table is not known: at once
            sysctl["read_period_us"] = 2020
        self.nodes.append({"name": name, "addresses": list(addresses), "sysctl": sysctl})

    def router(self, name: str) -> None:
        self.nodes.append({"name": name, "router": True})

    def link(
        self, a: str, b: str, addresses: tuple[str, str], forward: list[Json], back: list[Json], mtus: tuple[int, int] = (1500, 1500)
    ) -> None:
        ends = [{"node": node, "address": address, "mtu": mtu} for node, address, mtu in zip((a, b), addresses, mtus, strict=True)]
        self.links.append({"name": f"{a}-{b}", "a": ends[0], "b": ends[1], "a_to_b": forward, "b_to_a": back})

    def multipath(self) -> list[Json]:
        """One client, one server, disjoint paths that may end in a last hop which they share."""
        setup, shared = self.setup, self.setup.last
        end = "h2" if shared else "s"
        self.host("c")
        self.host("s", SERVER, reader_of=setup.flows[0])
        if shared:
            self.router(end)
        for k, path in enumerate(setup.paths, 1):
            net = f"10.{10 + k}"
            if setup.both_ends:
                # netem with delay and rate together: the delay runs while a packet waits, so the
                # rate comes after it.
                chain = [*_delay(path.fwd_ms), *_rate(path)]
                self.link("c", end, (f"{net}.1.1", f"{net}.3.2"), chain, chain)
                self.links[-1]["name"] = f"c-{end}-{k}"
                continue
            router, middle = f"p{k}a", path.mtu_mid or path.mtu
            self.router(router)
            self.link("c", router, (f"{net}.1.1", f"{net}.1.2"), _delay(path.fwd_ms), [], (path.mtu, path.mtu))
            # A router's ICMP that never arrives is the same to the sender as one that was never
            # sent.
            narrow = [] if middle == path.mtu or setup.icmp else [{"kind": "mtu", "bytes": middle, "oversize": "silent"}]
            mtus = (path.mtu if narrow else middle, path.mtu)
            self.link(router, end, (f"{net}.3.1", f"{net}.3.2"), [*narrow, *_rate(path)], _delay(path.rev_ms), mtus)
        if shared:
            chain = [*_delay(shared.fwd_ms), *_rate(shared)]
            back = chain if setup.both_ends else _delay(shared.rev_ms)
            self.link(end, "s", ("10.30.1.1", "10.30.1.2"), chain, back)
        clients = [f"10.{10 + k}.1.1" for k in range(1, len(setup.paths) + 1)]
        return [self.flow(0, "c", "c", "s", clients, SERVER)]

    def dumbbell(self) -> list[Json]:
        """Pairs of hosts through one bottleneck between the routers ra and rb; a client has an
        interface for each of its paths.
        """
        path = self.setup.paths[0]
        self.router("ra")
        self.router("rb")
        self.link("ra", "rb", ("10.40.1.1", "10.40.1.2"), _rate(path), [])
        flows = []
        for i, sender in enumerate(self.setup.flows, 1):
            client, server, address = f"c{i}", f"s{i}", f"10.9.{i}.1"
            self.host(client)
            self.host(server, address, reader_of=sender)
            self.link("rb", server, (f"10.{60 + i}.1.1", f"10.{60 + i}.1.2"), [], _delay(path.rev_ms))
            sources = []
            for k in range(1, sender.paths + 1):
                net = f"10.{20 + i}.{k}"
                self.link(client, "ra", (f"{net}.1", f"{net}.2"), _delay(path.fwd_ms), [])
                self.links[-1]["name"] = f"{client}-ra-{k}"
                sources.append(f"{net}.1")
            flows.append(self.flow(i - 1, client, client, server, sources, address))
        return flows

    def flow(self, index: int, name: str, client: str, server: str, sources: list[str], address: str) -> Json:
        setup, sender = self.setup, self.setup.flows[index]
        # The plain TCP of the out-of-tree table carried MPTCP all the same, with one subflow: its
        # segments have 1428 bytes (sf1_mss_last), which leaves room for the DSS; without it they
        # would have 1448.
        single = setup.out_of_tree and not sender.mptcp
        begin, end = setup.window_s
        flow: Json = {
            "name": name,
            "transport": "mptcp" if sender.mptcp or single else "tcp",
            "cc": sender.cc,
            "client": client,
            "server": server,
            "client_address": sources[0],
            "server_address": address,
            "start_ns": _ns(sender.start_s),
            "app": {"kind": "transfer", "bytes": setup.bytes} if setup.bytes else {"kind": "bulk", "duration_ns": _ns(setup.duration_s)},
            "mptcp": {},
            "window_ns": [_ns(begin), _ns(end)],
        }
        if single:
            flow["mptcp"]["path_manager"] = {"kind": "ndiffports", "subflows": 1}
        if sender.mptcp:
            flow["mptcp"]["path_manager"] = self.path_manager(sources)
            if setup.scheduler and setup.scheduler != "default":
                flow["mptcp"]["scheduler"] = setup.scheduler
        return flow

    def path_manager(self, sources: list[str]) -> Json:
        if self.setup.ndiffports is not None:
            return {"kind": "ndiffports", "subflows": self.setup.ndiffports}
        if self.setup.out_of_tree:
            return {"kind": "fullmesh"}
        return {"kind": "endpoints", "addresses": [{"address": source} for source in sources[1:]]}
