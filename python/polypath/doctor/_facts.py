"""What a host or a namespace is like for MPTCP, at one moment; nothing here asks the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from typing import Literal

from polypath.programs import Thing
from polypath.sockets import Subflow

# Parts of Polypath by their use in the list of programs, and what is so without one of theirs.
PARTS = {
    "linux": "polypath linux build cannot build kernels",
    "cc": "polypath cc cannot be built, and so the engine host has no algorithms of ours",
    "iperf3": "not every flow of the engine host can have `program: iperf3`",
}

Ability = Literal["works", "off", "absent", "out-of-tree"]
Role = Literal["client", "server", "both"]


@dataclass(frozen=True, kw_only=True)
class Address:
    address: str
    prefix: int

    @property
    def subnet(self) -> str:
        return str(ip_interface(f"{self.address}/{self.prefix}").network)

    @property
    def version(self) -> int:
        return ip_address(self.address).version

    def near(self, address: str) -> bool:
        """Whether the other address is of the same subnet."""
        return ip_address(address) in ip_interface(f"{self.address}/{self.prefix}").network


@dataclass(frozen=True, kw_only=True)
class Device:
    name: str
    up: bool
    mtu: int
    loopback: bool = False
    carrier: bool = True
    addresses: tuple[Address, ...] = ()
    gateways: tuple[str, ...] = ()
    """Next hops of its routes, of whatever table."""
    met: tuple[str, ...] = ()
    """Without such a next hop: the other host that it has met on its link, if it has met one alone,
    of each family.
    """
    shaper: str | None = None
    """Kind of its root queueing discipline, if that delays or limits packets."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An MPTCP endpoint (ip mptcp endpoint)."""

    address: str
    id: int
    flags: frozenset[str]
    device: str | None = None
    port: int | None = None


@dataclass(frozen=True, kw_only=True)
class Way:
    """Which device the kernel sends packets from an address to another by; None where it has no
    way.
    """

    source: str
    destination: str
    device: str | None


@dataclass(frozen=True, kw_only=True)
class Facts:
    release: str
    mptcp: Ability
    root: bool = True
    sysctls: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] | None = None
    """The kernel's configuration; None where it does not tell."""
    btf: bool = True
    limits: tuple[int, int] | None = None
    """Subflows, and announced addresses that are taken up."""
    endpoints: tuple[Endpoint, ...] = ()
    devices: tuple[Device, ...] = ()
    ways: tuple[Way, ...] = ()
    first: frozenset[str] = frozenset()
    """Addresses that the kernel chooses for packets without one, as those of a connection's first
    subflow.
    """
    tables: frozenset[int] = frozenset()
    """Routing tables in use."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """MPTcpExt of /proc/net/netstat."""
    lines: tuple[tuple[str, str], ...] = ()
    """File and name of settings in /etc/sysctl.conf and /etc/sysctl.d."""
    subflows: tuple[Subflow, ...] = ()
    """Live subflows of MPTCP."""
    plain: Mapping[str, int] = field(default_factory=dict)
    """How many live connections that this host opened to each address that was asked about are
    plain TCP, unasked for MPTCP.
    """
    fell_back: Mapping[str, int] = field(default_factory=dict)
    """How many that asked for MPTCP and did not get it."""
    came_plain: Mapping[tuple[str, int, bool], int] = field(default_factory=dict)
    """How many came from such an address to a port here, and whether who listens there speaks
    MPTCP.
    """
    missing: tuple[Thing, ...] = ()
    """Programs and files that parts of Polypath use, and that are not there."""

    def number(self, name: str) -> int | None:
        """A sysctl that is one number."""
        text = self.sysctls.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else None

    def largest(self, name: str) -> int | None:
        """The last of a sysctl's three numbers."""
        words = self.sysctls.get(name, "").split()
        return int(words[2]) if len(words) == 3 else None

    @property
    def outward(self) -> tuple[Device, ...]:
        """Devices that lead somewhere."""
        return tuple(device for device in self.devices if device.up and not device.loopback and device.addresses)

    @property
    def named(self) -> tuple[Endpoint, ...]:
        """Endpoints that somebody set; the kernel adds others (implicit) for addresses of live
        subflows.
        """
        return tuple(endpoint for endpoint in self.endpoints if "implicit" not in endpoint.flags)

    @property
    def announced(self) -> int:
        """How often another host announced an address to this one."""
        return self.counters.get("AddAddr", 0)

    def joined_from(self, address: str) -> bool:
        """Whether a live subflow beside the first of its connection uses this address here."""
        return any(subflow.joined and subflow.source == address and subflow.state == "established" for subflow in self.subflows)

    @property
    def joined(self) -> bool:
        """Whether some live connection has a further subflow."""
        return any(subflow.joined and subflow.state == "established" for subflow in self.subflows)

    @property
    def all_used(self) -> bool:
        """Whether some live connection has a subflow on each device that leads somewhere."""
        used: dict[int | None, set[str | None]] = {}
        for subflow in self.subflows:
            if subflow.state == "established":
                used.setdefault(subflow.token, set()).add(self.holds(subflow.source))
        return any(devices >= {device.name for device in self.outward} for devices in used.values())

    def holds(self, address: str) -> str | None:
        """The name of the device that has an address."""
        holder = self.holder(address)
        return holder.name if holder else None

    def holder(self, address: str) -> Device | None:
        """The device that has an address."""
        return next((device for device in self.devices if any(entry.address == address for entry in device.addresses)), None)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be judged. Rates and round-trip times are those of the paths, in any order."""

    role: Role | None = None
    rates_bps: tuple[int, ...] = ()
    rtts_ns: tuple[int, ...] = ()


Severity = Literal["wrong", "doubt", "note"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """wrong: MPTCP cannot do what it is for; doubt: it may not; note: worth knowing before
    measuring.
    """

    id: str
    severity: Severity
    sentence: str
    run: tuple[str, ...] = ()
    """Commands that mend it."""
