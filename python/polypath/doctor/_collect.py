"""Collects the facts of this host or of a namespace. The one module of the doctor that asks the
machine; it changes nothing.
"""

from __future__ import annotations

import errno
import gzip
import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any

from polypath import programs
from polypath.sockets import Sockets, SocketsError, inside

from ._facts import PARTS, Ability, Address, Device, Endpoint, Facts, Way

_IPPROTO_MPTCP = 262
# TCP_LISTEN (include/net/tcp_states.h).
_LISTEN = 10
# RTN_UNICAST, RTN_LOCAL, IFF_UP, IFF_LOOPBACK, IFF_LOWER_UP (include/uapi/linux).
_UNICAST, _LOCAL, _UP, _LOOPBACK, _LOWER_UP = 1, 2, 1, 8, 1 << 16
_FLAGS = {"signal": 1, "subflow": 2, "backup": 4, "fullmesh": 8, "implicit": 16, "laminar": 32}
# Queueing disciplines that hold packets back.
_SHAPERS = frozenset({"netem", "tbf", "htb", "hfsc", "cbq", "cake"})
_SYSCTLS = (
    "net/mptcp",
    "net/ipv4/tcp_available_congestion_control",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_no_metrics_save",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_wmem",
    "net/ipv4/conf/all/arp_ignore",
    "net/ipv4/conf/all/rp_filter",
)
_OPTIONS = (
    "CONFIG_MPTCP",
    "CONFIG_MPTCP_IPV6",
    "CONFIG_INET_MPTCP_DIAG",
    "CONFIG_INET_TCP_DIAG",
    "CONFIG_BPF_JIT",
    "CONFIG_DEBUG_INFO_BTF",
)
# An address for documentation: the way to it is the way to the world.
_WORLD = (ip_address("203.0.113.1"), ip_address("2001:db8::1"))
_Net = IPv4Network | IPv6Network


def collect(netns: str | None = None, to: Sequence[str] = ()) -> Facts:
    """The facts. `to`: addresses of peers; without any, those of live subflows, and the default
    route.
    """
    sockets = Sockets(netns)
    return inside(netns, lambda: _collect(sockets, to))


def _collect(sockets: Sockets, to: Sequence[str]) -> Facts:
    from pyroute2 import IPRoute  # Of Linux alone, and slow to load.

    live = sockets.look()
    subflows = tuple(subflow for subflow in live if subflow.token is not None)
    mptcp = ability()
    endpoints, limits = _path_manager(mptcp)
    with IPRoute() as route:
        network = _network(route)
        endpoints = tuple(_named(endpoint, network.names) for endpoint in endpoints)
        # The way to the world counts where there is one.
        worlds = [world for world in _WORLD if any(world in reach for reach, _, _ in network.reaches)]
        peers = (
            [*to]
            or list(dict.fromkeys(subflow.destination for subflow in subflows if not subflow.joined))
            or [str(world) for world in worlds]
        )
        sources = {endpoint.address: endpoint.device for endpoint in endpoints}
        if not sources:
            sources = {address.address: None for device in network.devices if not device.loopback for address in device.addresses}
        pairs = [(source, peer) for source in sources for peer in peers]
        pairs += [(subflow.source, subflow.destination) for subflow in subflows if subflow.source in sources]
        ways = tuple(_ways(route, sources, dict.fromkeys(pairs), network))
        # A connection that lives tells by which address it began; else the kernel would choose one
        # for the peer that is named first.
        begun = frozenset(subflow.source for subflow in subflows if not subflow.joined and (not to or subflow.destination in to))
        first = begun or frozenset(_first(route, peers[:1] if to else peers))
    plain = [connection for connection in live if connection.token is None and connection.destination in to]
    listens = _listeners() if plain else {}
    opened = [connection for connection in plain if connection.source_port not in listens]
    return Facts(
        release=os.uname().release,
        mptcp=mptcp,
        root=os.geteuid() == 0,
        sysctls=dict(_sysctls(network.devices)),
        config=_config(),
        btf=Path("/sys/kernel/btf/vmlinux").exists(),
        limits=limits,
        endpoints=endpoints,
        devices=network.devices,
        ways=ways,
        first=first,
        tables=network.tables,
        counters=_counters(),
        lines=tuple(_lines()),
        subflows=subflows,
        plain=Counter(connection.destination for connection in opened if not connection.fell_back),
        fell_back=Counter(connection.destination for connection in opened if connection.fell_back),
        came_plain=Counter(
            (connection.destination, connection.source_port, listens[connection.source_port])
            for connection in plain
            if connection.source_port in listens
        ),
        missing=tuple(programs.missing(*PARTS)),
    )


def ability() -> Ability:
    """What becomes of a program that asks for MPTCP here."""
    if Path("/proc/sys/net/mptcp/mptcp_enabled").exists():
        return "out-of-tree"
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP).close()
    except OSError as error:
        return "off" if error.errno == errno.ENOPROTOOPT else "absent"
    return "works"


def _path_manager(mptcp: Ability) -> tuple[tuple[Endpoint, ...], tuple[int, int] | None]:
    if mptcp not in ("works", "off"):
        return (), None
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.generic.mptcp import MPTCP

    try:
        with MPTCP() as manager:
            shown = [message.get_attr("MPTCP_PM_ATTR_ADDR") for message in manager.endpoint("show")]
            (message,) = manager.limits("show")
    except (NetlinkError, OSError) as error:
        raise SocketsError(f"the kernel does not tell of its MPTCP endpoints: {error}") from None
    limits = (message.get_attr("MPTCP_PM_ATTR_SUBFLOWS") or 0, message.get_attr("MPTCP_PM_ATTR_RCV_ADD_ADDRS") or 0)
    return tuple(_endpoint(shown_endpoint) for shown_endpoint in shown if shown_endpoint is not None), limits


def _endpoint(shown: Any) -> Endpoint:
    def said(name: str) -> Any:
        return shown.get_attr(f"MPTCP_PM_ADDR_ATTR_{name}")

    flags, index = said("FLAGS") or 0, said("IF_IDX")
    if isinstance(index, str):
        # pyroute2 gives the four bytes as "02:00:00:00".
        index = int.from_bytes(bytes.fromhex(index.replace(":", "")), "little")
    return Endpoint(
        address=said("ADDR4") or said("ADDR6"),
        id=said("ID") or 0,
        flags=frozenset(name for name, bit in _FLAGS.items() if flags & bit),
        device=str(index) if index else None,
        port=said("PORT"),
    )


def _named(endpoint: Endpoint, names: dict[int, str]) -> Endpoint:
    if endpoint.device is None:
        return endpoint
    fields = {**vars(endpoint), "device": names.get(int(endpoint.device), f"number {endpoint.device}")}
    return Endpoint(**fields)


@dataclass(frozen=True, kw_only=True)
class _Network:
    devices: tuple[Device, ...]
    names: dict[int, str]
    """Devices by number."""
    tables: frozenset[int]
    reaches: tuple[tuple[_Net, int, str | None], ...]
    """Networks that some table has a route to, by which device, and by which next hop if not
    directly.
    """


def _network(route: Any) -> _Network:
    addresses: dict[int, list[Address]] = {}
    gateways: dict[int, list[str]] = {}
    shapers: dict[int, str] = {}
    tables: set[int] = set()
    reaches: list[tuple[_Net, int, str | None]] = []
    for message in route.get_addr():
        if message["family"] not in (socket.AF_INET, socket.AF_INET6):
            continue
        address = message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS")
        if not address.startswith("fe80:"):
            addresses.setdefault(message["index"], []).append(Address(address=address, prefix=message["prefixlen"]))
    for family, everything in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        for message in route.get_routes(family=family):
            tables.add(message.get_attr("RTA_TABLE") or message["table"])
            if message["type"] != _UNICAST:
                continue
            to = ip_network(f"{message.get_attr('RTA_DST') or everything}/{message['dst_len']}", strict=False)
            for hop, index in _hops(message):
                reaches.append((to, index, hop))
                if hop:
                    gateways.setdefault(index, []).append(hop)
    met = _neighbours(route, addresses, frozenset(gateways))
    for message in route.get_rules():
        tables.add(message.get_attr("FRA_TABLE") or message["table"])
    for message in route.get_qdiscs():
        kind = message.get_attr("TCA_KIND")
        if kind in _SHAPERS:
            shapers.setdefault(message["index"], kind)
    names, devices = {}, []
    for message in route.get_links():
        index, name = message["index"], message.get_attr("IFLA_IFNAME")
        names[index] = name
        device = Device(
            name=name,
            up=bool(message["flags"] & _UP),
            carrier=bool(message["flags"] & _LOWER_UP),
            mtu=message.get_attr("IFLA_MTU"),
            loopback=bool(message["flags"] & _LOOPBACK),
            addresses=tuple(addresses.get(index, ())),
            gateways=tuple(dict.fromkeys(gateways.get(index, ()))),
            met=met.get(index, ()),
            shaper=shapers.get(index),
        )
        devices.append(device)
    return _Network(devices=tuple(devices), names=names, tables=frozenset(tables), reaches=tuple(reaches))


def _neighbours(route: Any, addresses: dict[int, list[Address]], routed: frozenset[int]) -> dict[int, tuple[str, ...]]:
    """The only other host that each device without a router has met, of each family."""
    met: dict[tuple[int, int], set[str]] = {}
    for message in route.get_neighbours():
        hop, index = message.get_attr("NDA_DST"), message["ifindex"]
        subnets = [ip_network(address.subnet) for address in addresses.get(index, ())]
        if hop and index not in routed and any(ip_address(hop) in subnet for subnet in subnets):
            met.setdefault((index, ip_address(hop).version), set()).add(hop)
    alone: dict[int, tuple[str, ...]] = {}
    for (index, _), hops in met.items():
        if len(hops) == 1:
            alone[index] = (*alone.get(index, ()), *hops)
    return alone


def _hops(message: Any) -> Iterator[tuple[str | None, int]]:
    """Next hop and device of a route, of each one where it has several."""
    if message.get_attr("RTA_OIF"):
        yield message.get_attr("RTA_GATEWAY"), message.get_attr("RTA_OIF")
    for hop in message.get_attr("RTA_MULTIPATH") or ():
        yield hop.get_attr("RTA_GATEWAY"), hop["oif"]


def _ways(route: Any, sources: dict[str, str | None], pairs: Iterable[tuple[str, str]], network: _Network) -> Iterator[Way]:
    """Asks the kernel, as a subflow would: one of an endpoint with a device is bound to that
    device.
    """
    from pyroute2.netlink.exceptions import NetlinkError

    indices = {name: index for index, name in network.names.items()}
    for source, peer in pairs:
        if _family(peer) != _family(source):
            continue
        device = sources[source]
        bound = {"oif": indices[device]} if device in indices else {}
        try:
            (answer, *_) = route.route("get", dst=peer, src=source, family=_family(peer), **bound)
        except NetlinkError:
            yield Way(source=source, destination=peer, device=None)
            continue
        index = answer.get_attr("RTA_OIF")
        # For a bound socket without a route Linux supposes that the other host is on the link
        # itself.
        direct = any(by == index and hop is None and ip_address(peer) in to for to, by, hop in network.reaches)
        decided = answer["type"] == _LOCAL or answer.get_attr("RTA_GATEWAY") or direct
        yield Way(source=source, destination=peer, device=network.names.get(index) if decided else None)


def _listeners() -> dict[int, bool]:
    """The TCP ports on which a program listens, and whether it speaks MPTCP there."""
    from pyroute2 import DiagSocket
    from pyroute2.netlink import NLM_F_MATCH, NLM_F_REQUEST, NLM_F_ROOT
    from pyroute2.netlink.diag import SOCK_DIAG_BY_FAMILY, inet_diag_req
    from pyroute2.netlink.exceptions import NetlinkError

    class Request(inet_diag_req):  # type: ignore[misc]
        # The number of MPTCP has no room in the field for the protocol
        # (include/uapi/linux/inet_diag.h).
        nla_map = (("NONE", "none"), ("BYTECODE", "hex"), ("SK_BPF_STORAGES", "hex"), ("PROTOCOL", "uint32"))

    listening: dict[int, bool] = {}
    with DiagSocket() as diagnostics:
        for protocol in (socket.IPPROTO_TCP, _IPPROTO_MPTCP):
            for family in (socket.AF_INET, socket.AF_INET6):
                request = Request()
                request["sdiag_family"], request["sdiag_protocol"] = family, protocol & 0xFF
                request["idiag_states"] = 1 << _LISTEN
                request["attrs"] = [("PROTOCOL", protocol)]
                try:
                    seen = list(diagnostics.nlm_request(request, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH))
                except NetlinkError:
                    continue  # A kernel without IPv6, or without socket diagnostics of MPTCP.
                listening |= {message["idiag_sport"]: protocol == _IPPROTO_MPTCP for message in seen}
    return listening


def _first(route: Any, peers: Sequence[str]) -> Iterator[str]:
    """The source addresses that the kernel chooses for packets to the peers."""
    from pyroute2.netlink.exceptions import NetlinkError

    for peer in peers:
        try:
            (answer, *_) = route.route("get", dst=peer, family=_family(peer))
        except NetlinkError:
            continue
        if answer.get_attr("RTA_PREFSRC"):
            yield answer.get_attr("RTA_PREFSRC")


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _sysctls(devices: Sequence[Device]) -> Iterator[tuple[str, str]]:
    root = Path("/proc/sys")
    names = [f"net/ipv4/conf/{device.name}/rp_filter" for device in devices]
    for start in (*_SYSCTLS, *names):
        folder = root / start
        for file in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
            try:
                text = file.read_text()
            except OSError:
                continue
            # A device's name may have dots, so they stay slashes there, as sysctl(8) writes them.
            yield str(file.relative_to(root)).replace("/", ".") if "conf" not in start else str(file.relative_to(root)), text.strip()


def _config() -> dict[str, str] | None:
    for file in (Path("/proc/config.gz"), Path("/boot") / f"config-{os.uname().release}"):
        try:
            text = gzip.decompress(file.read_bytes()).decode() if file.suffix == ".gz" else file.read_text()
        except OSError:
            continue
        lines = dict(line.split("=", 1) for line in text.splitlines() if line.startswith("CONFIG_") and "=" in line)
        return {name: lines.get(name, "n") for name in _OPTIONS}
    return None


def _counters() -> dict[str, int]:
    # Not /proc/net: that is of the namespace in which the program began.
    lines = [line.split() for line in Path("/proc/thread-self/net/netstat").read_text().splitlines() if line.startswith("MPTcpExt:")]
    if len(lines) != 2:
        return {}
    names, values = lines
    return {name: int(value) for name, value in zip(names[1:], values[1:], strict=False)}


def _lines() -> Iterator[tuple[str, str]]:
    for file in (Path("/etc/sysctl.conf"), *sorted(Path("/etc/sysctl.d").glob("*.conf"))):
        try:
            text = file.read_text(errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            name, equals, _ = line.strip().partition("=")
            if equals and not name.startswith(("#", ";")):
                yield str(file), name.strip().lstrip("-").replace("/", ".")
