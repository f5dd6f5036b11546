"""Nodes as namespaces, and flows with what MPTCP needs to open their subflows."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ._errors import PlanError
from ._network import WIRE, Network
from ._stages import SIMULATOR
from ._ways import Graph, Scenario, Step, steps

FIRST_PORT = 5001
# Ports at which a server takes the further subflows of ndiffports.
FIRST_JOIN_PORT = 6001
# What the in-kernel path manager holds (MPTCP_PM_ADDR_MAX).
MOST_ENDPOINTS = 8
# Names of out-of-tree MPTCP for ours.
V0_SCHEDULERS = {"minrtt": "default"} | {name: name for name in ("blest", "ecf", "redundant", "roundrobin")}
# Its settings, which are the machine's and in no other namespace. Plain TCP stays TCP with 2: only
# sockets that ask for MPTCP have it. Checksums are on there by default; upstream and the simulator
# have them off.
V0_SETTINGS = {"net.mptcp.mptcp_enabled": "2", "net.mptcp.mptcp_checksum": "0"}
V0_ENABLED, V0_CHECKSUM = V0_SETTINGS
# How many subflows its ndiffports opens, for all connections.
V0_SUBFLOWS = "sys/module/mptcp_ndiffports/parameters/num_subflows"
# The kernel's defaults where it has memory enough, written out so that a machine's memory decides
# nothing.
RMEM, WMEM = "4096 131072 6291456", "4096 16384 4194304"
# A reader that sleeps is woken this much later than it asked for (its timer's slack):
# specs/notes/mptcp-two-paths.
SLACK_US = 20

# Settings that are the simulator's own: of the reading program, which the flow gets, and those that
# nothing here stands for.
LOW_WATER, READ_PERIOD = "receive_low_water", "read_period_us"
READER = (LOW_WATER, READ_PERIOD)
SIMULATED = ("initcwnd", "tso_bytes", "tick_us", "rto_min_us", "subflow_mtu_probing")

ALIASES = {"checksum_enabled": "net.mptcp.checksum_enabled", "mptcp_checksum": "net.mptcp.checksum_enabled"}

_MPTCP = "net.mptcp."
SCHEDULER = _MPTCP + "scheduler"

QUIET = (
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
)


def namespaces(scenario: Scenario, ccs: Mapping[str, str], flows: Flows, *, wire: bool, out_of_tree: bool) -> list[dict[str, Any]]:
    """One for each node, and one for the places inside links if there are any."""
    plans = [_namespace(node, ccs.get(node["name"]), flows, out_of_tree=out_of_tree) for node in scenario["nodes"]]
    return [*plans, {"name": WIRE, "sysctl": [list(pair) for pair in QUIET]}] if wire else plans


def machine(scenario: Scenario, flows: Flows) -> list[list[str]]:
    """Files of the whole machine and what is written to them: the settings of out-of-tree MPTCP."""
    settings, of = dict(V0_SETTINGS), dict.fromkeys(V0_SETTINGS, "")
    for node in scenario["nodes"]:
        for name, value in node["sysctl"].items():
            full, text = _out_of_tree(_full(node["name"], name)) if name not in READER else "", _text(value)
            if full == V0_ENABLED and text != settings[V0_ENABLED]:
                sentence = f"{V0_ENABLED} is {settings[V0_ENABLED]} in every run, so that only flows with `transport: mptcp` are MPTCP"
                raise PlanError(("nodes", node["name"], name), sentence)
            if not full.startswith(_MPTCP):
                continue
            if of.get(full) and settings[full] != text:
                sentence = f"out-of-tree MPTCP has one {full} for the whole machine, and {of[full]} says {settings[full]}"
                raise PlanError(("nodes", node["name"], name), sentence)
            settings[full], of[full] = text, node["name"]
    writes = [[f"proc/sys/{name.replace('.', '/')}", text] for name, text in settings.items()]
    return [*writes, [V0_SUBFLOWS, str(flows.ndiffports)]] if flows.ndiffports else writes


def _out_of_tree(name: str) -> str:
    """The name that out-of-tree MPTCP has for upstream's."""
    return V0_CHECKSUM if name == ALIASES["checksum_enabled"] else name


def _namespace(node: Mapping[str, Any], cc: str | None, flows: Flows, *, out_of_tree: bool) -> dict[str, Any]:
    limits = flows.limits.get(node["name"])
    for address in node["addresses"]:
        if ipaddress.ip_address(address).version != 4:
            raise PlanError(("nodes", node["name"], "addresses"), f"addresses of IPv6 are not yet set up on a kernel{SIMULATOR}")
    if node.get("mtu_search", "linux") != "linux":
        raise PlanError(("nodes", node["name"], "mtu_search"), f"a kernel searches for a path's MTU in its own way, `linux`{SIMULATOR}")
    sysctl = dict(QUIET)
    # What an earlier connection learned would decide how a later one begins.
    sysctl["net.ipv4.tcp_no_metrics_save"] = "1"
    if node["router"]:
        sysctl["net.ipv4.ip_forward"] = "1"
    else:
        sysctl |= {"net.ipv4.tcp_rmem": RMEM, "net.ipv4.tcp_wmem": WMEM}
    if cc is not None:
        sysctl["net.ipv4.tcp_congestion_control"] = cc
    # A kernel's own needs no word.
    if flows.schedulers.get(node["name"], "default") != "default":
        sysctl[SCHEDULER] = flows.schedulers[node["name"]]
    for name, value in node["sysctl"].items():
        full = _full(node["name"], name) if name not in READER else ""
        # Out-of-tree MPTCP has none of its settings here.
        if full and not (out_of_tree and full.startswith(_MPTCP)):
            sysctl[full] = _text(value)
    plan: dict[str, Any] = {"name": node["name"], "addresses": node["addresses"], "sysctl": [list(pair) for pair in sysctl.items()]}
    return {**plan, "limits": dict(limits)} if limits else plan


def _full(node: str, name: str) -> str:
    if name.startswith("net."):
        return name
    if name in ALIASES:
        return ALIASES[name]
    if name in SIMULATED or not name.startswith("tcp_"):
        raise PlanError(
            ("nodes", node, name), f"`{name}` is no sysctl of Linux, which begin with `net.`{SIMULATOR if name in SIMULATED else ''}"
        )
    return f"net.ipv4.{name}"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


class Flows:
    """The flows of a scenario, with the ways they need and the endpoints of MPTCP."""

    def __init__(
        self,
        scenario: Scenario,
        graph: Graph,
        net: Network,
        algorithm: Callable[[str, str], str],
        scheduler: Callable[[str, str | None], str],
        *,
        release: str,
        out_of_tree: bool,
    ) -> None:
        self.flows: list[dict[str, Any]] = []
        self.steps: list[Step] = []
        # By namespace: the congestion control of its first flow, the scheduler of all its flows,
        # and the path manager's limits.
        self.ccs: dict[str, str] = {}
        self.schedulers: dict[str, str] = {}
        self.limits: dict[str, dict[str, int]] = {}
        # Subflows of each connection whose path manager is out-of-tree MPTCP's ndiffports; 0: there
        # is none.
        self.ndiffports = 0
        self._endpoints: dict[str, list[dict[str, Any]]] = {}
        self._opener: dict[str, str] = {}
        self._graph, self._net, self._out_of_tree, self._scheduler = graph, net, out_of_tree, scheduler
        self._release = release
        settings = {node["name"]: node["sysctl"] for node in scenario["nodes"]}
        for number, flow in enumerate(scenario["flows"]):
            self._add(
                flow,
                FIRST_PORT + number,
                "" if flow["transport"] == "udp" else algorithm(flow["name"], flow["cc"]),
                settings[_reads(flow)],
            )

    @property
    def endpoints(self) -> list[dict[str, Any]]:
        return [endpoint for of_node in self._endpoints.values() for endpoint in of_node]

    def _add(self, flow: Mapping[str, Any], port: int, cc: str, reader: Mapping[str, Any]) -> None:
        graph, mptcp = self._graph, flow["transport"] == "mptcp"
        client, server = flow["client"], flow["server"]
        source = flow["client_address"] or graph.first_address(client)
        destination = flow["server_address"] or graph.first_address(server)
        for role, node in (("client", client), ("server", server)):
            if node in graph.routers:
                raise PlanError(("flows", flow["name"], role), f"{node} is a router: only hosts send and receive")
        sources, destinations = [source], [destination]
        named: dict[str, str] = {}
        if mptcp and self._out_of_tree:
            sources, destinations, named = self._open_out_of_tree(flow, source, destination)
        elif mptcp:
            self._keep_scheduler(flow)
            sources, destinations = self._open(flow, source, destination)
        by_hand = {(route["from"], route["to"]): graph.by_hand(flow, route) for route in flow["routes"]}
        for here in sources:
            for there in destinations:
                way = by_hand.get((here, there)) or graph.way(client, here, server, there)
                if way is not None:
                    self.steps += steps(way, graph, here, there, ("flows", flow["name"], "routes"))
                elif (here, there) == (source, destination):
                    sentence = f"no route leads from {here} at {client} to {there} at {server}: join them by links over routers"
                    raise PlanError(("flows", flow["name"], "server"), sentence)
        download = flow.get("direction") == "download"
        if cc:
            self.ccs.setdefault(client, cc)
            if download or flow["app"]["kind"] == "requests":
                self.ccs.setdefault(server, cc)
        self.flows.append(
            {
                "name": flow["name"],
                "mptcp": mptcp,
                "datagram_bytes": flow.get("datagram_bytes", 0),
                "cc": cc,
                "client": client,
                "server": server,
                "client_address": source,
                "server_address": destination,
                "port": port,
                "start_ns": flow["start_ns"],
                "app": flow["app"],
                "reading": _reading(_reads(flow), reader, mptcp=mptcp),
                **({"download": True} if download else {}),
                **named,
            }
        )

    def _open_out_of_tree(self, flow: Mapping[str, Any], source: str, destination: str) -> tuple[list[str], list[str], dict[str, str]]:
        """Of MPTCP v0, whose path manager and scheduler belong to the socket; the addresses at both
        ends between which it has subflows.
        """
        graph, manager = self._graph, flow["mptcp"]["path_manager"]
        scheduler = V0_SCHEDULERS.get(flow["mptcp"]["scheduler"] or "minrtt")
        if scheduler is None:
            schedulers = ", ".join(V0_SCHEDULERS)
            sentence = f"out-of-tree MPTCP has the schedulers {schedulers}"
            if flow["mptcp"]["scheduler"] == "default":
                # Ours of that name is upstream's.
                sentence += "; default is upstream's, and what an out-of-tree kernel calls so is minrtt"
            raise PlanError(("flows", flow["name"], "scheduler"), sentence)
        sources, destinations = [source], [destination]
        if manager["kind"] == "fullmesh":
            named = "fullmesh"
            sources += [address for address in graph.on_links(flow["client"]) if address != source]
            if graph.addresses[flow["server"]][destination] is not None:
                destinations += [address for address in graph.on_links(flow["server"]) if address != destination]
        elif manager["kind"] == "ndiffports" and manager["subflows"] == 1:
            named = "default"
        elif manager["kind"] == "ndiffports":
            named = "ndiffports"
            if self.ndiffports not in (0, manager["subflows"]):
                sentence = f"out-of-tree MPTCP has one number of subflows for all of its ndiffports, and another flow has {self.ndiffports}"
                raise PlanError(("flows", flow["name"], "path_manager"), sentence + SIMULATOR)
            self.ndiffports = manager["subflows"]
        else:
            sentence = f"out-of-tree MPTCP has fullmesh and ndiffports, and no endpoints of their own{SIMULATOR}"
            raise PlanError(("flows", flow["name"], "path_manager"), sentence)
        # A host that announces addresses out of reach gets subflows that never come up.
        server = "fullmesh" if len(destinations) > 1 else "default"
        return sources, destinations, {"path_manager": named, "server_path_manager": server, "scheduler": scheduler}

    def _open(self, flow: Mapping[str, Any], source: str, destination: str) -> tuple[list[str], list[str]]:
        """Endpoints and limits of an MPTCP flow; returns the addresses at both ends between which
        it has subflows.
        """
        graph, field = self._graph, ("flows", flow["name"], "path_manager")
        client, server, manager = flow["client"], flow["server"], flow["mptcp"]["path_manager"]
        if manager["kind"] == "ndiffports":
            return self._open_ports(flow, source, destination)
        named = manager["addresses"] if manager["kind"] == "endpoints" else []
        laminar = sum(1 for entry in named if entry.get("laminar") and entry["address"] != source)
        if any(entry.get("laminar") for entry in named) and not _has_laminar(self._release):
            raise PlanError(field, f"Linux {self._release} would take laminar endpoints for ones without a flag: run a kernel from 6.18 on")
        # An address of the server that belongs to no link is reached over every path: there is no
        # need for another.
        announces = graph.addresses[server][destination] is not None and (laminar > 0 or not named)
        others = [address for address in graph.on_links(server) if address != destination] if announces else []
        announced = [self._endpoint(server, address, field, signal=True) for address in others]
        if named:
            opened = [self._endpoint(client, entry["address"], field, **_flags(entry)) for entry in named]
        else:
            mesh = bool(announced)
            # For each address that the server announces, the kernel wants an endpoint for the first
            # address of the client too.
            sources_here = [address for address in graph.on_links(client) if mesh or address != source]
            opened = [self._endpoint(client, address, field, subflow=True, fullmesh=mesh) for address in sources_here]
        sources = list(dict.fromkeys([source, *(endpoint["address"] for endpoint in opened)]))
        destinations = [destination, *(endpoint["address"] for endpoint in announced)]
        # From a laminar endpoint there is one, if an announcement is left for it.
        count = len(sources) - 1 - laminar + min(laminar, len(announced)) if named else len(sources) * len(destinations) - 1
        if max(count, len(opened), len(announced)) > MOST_ENDPOINTS:
            raise PlanError(
                field, f"the kernel holds {MOST_ENDPOINTS} further subflows of a connection, and this one asks for {count}{SIMULATOR}"
            )
        self._keep(flow, client, opened, {"subflows": count, "add_addr_accepted": len(announced)})
        self._keep(flow, server, announced, {"subflows": count, "add_addr_accepted": 0})
        return sources, destinations

    def _open_ports(self, flow: Mapping[str, Any], source: str, destination: str) -> tuple[list[str], list[str]]:
        """Several subflows between the same addresses.

        The kernel opens only one from an endpoint of the client to each address; so the server
        announces its own address at other ports.
        """
        client, server, more = flow["client"], flow["server"], flow["mptcp"]["path_manager"]["subflows"] - 1
        hop = self._graph.addresses[server][destination]
        at = {"namespace": server, "address": destination, "device": "lo" if hop is None else self._net.devices[hop], "signal": True}
        announced = [{**at, "port": FIRST_JOIN_PORT + number} for number in range(more)]
        self._keep(flow, client, [], {"subflows": more, "add_addr_accepted": more})
        self._keep(flow, server, announced, {"subflows": more, "add_addr_accepted": 0})
        return [source], [destination]

    def _endpoint(self, node: str, address: str, field: tuple[str, ...], **flags: Any) -> dict[str, Any]:
        hop = self._graph.addresses[node][address]
        if hop is None:
            raise PlanError(
                field, f"the address {address} of {node} belongs to no link, so a kernel does not know by which one to leave{SIMULATOR}"
            )
        flags = {name: value for name, value in flags.items() if value}
        return {"namespace": node, "address": address, "device": self._net.devices[hop], **flags}

    def _keep_scheduler(self, flow: Mapping[str, Any]) -> None:
        """A scheduler is a setting of a namespace, so its flows must agree on it."""
        scheduler = self._scheduler(flow["name"], flow["mptcp"]["scheduler"])
        for node in (flow["client"], flow["server"]):
            if self.schedulers.setdefault(node, scheduler) != scheduler:
                sentence = (
                    f"another flow at {node} has the scheduler {self.schedulers[node]}, this one {scheduler}, and a host has one for all"
                )
                raise PlanError(("flows", flow["name"], "scheduler"), sentence + SIMULATOR)

    def _keep(self, flow: Mapping[str, Any], node: str, endpoints: Sequence[dict[str, Any]], limits: dict[str, int]) -> None:
        """Endpoints and limits hold for all of a host's connections, so its flows must agree on
        them.
        """
        kept = self._endpoints.setdefault(node, list(endpoints))
        other = self._opener.setdefault(node, flow["name"])
        if kept != list(endpoints) or self.limits.setdefault(node, limits) != limits:
            sentence = f"the flows {other} and {flow['name']} want other subflows at {node}, and a kernel's path manager serves all alike"
            raise PlanError(("flows", flow["name"], "path_manager"), sentence + SIMULATOR)


def _has_laminar(release: str) -> bool:
    """Earlier kernels ignore the flag."""
    number = re.match(r"(\d+)\.(\d+)", release)
    return number is not None and (int(number[1]), int(number[2])) >= (6, 18)


def _flags(endpoint: Mapping[str, Any]) -> dict[str, Any]:
    """Of an endpoint that a study names, with when it goes away."""
    kind = "laminar" if endpoint.get("laminar") else "subflow"
    return {kind: True, "backup": endpoint["backup"], "remove_at_ns": endpoint["remove_at_ns"]}


def _reads(flow: Mapping[str, Any]) -> str:
    """The host at which the data of a flow are read."""
    return str(flow["client" if flow.get("direction") == "download" else "server"])


def _reading(host: str, settings: Mapping[str, Any], *, mptcp: bool) -> dict[str, int]:
    """How the reading program of a host does it; plain TCP waits for bytes, MPTCP sleeps between
    reads.
    """
    reading: dict[str, int] = {}
    for name, wanted in ((LOW_WATER, not mptcp), (READ_PERIOD, mptcp)):
        if name in settings and not str(settings[name]).isdigit():
            raise PlanError(("nodes", host, name), f"`{name}` is {settings[name]}; it must be a whole number")
        if name in settings and wanted:
            number = int(settings[name])
            reading |= {"low_water": number} if name == LOW_WATER else {"sleep_ns": max(number - SLACK_US, 1) * 1000}
    return reading
