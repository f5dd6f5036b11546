"""One look at the sockets of a namespace."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from polypath import _native

from ._errors import SocketsError
from ._info import COUNTS_TIMEOUTS, tcp_info

_NAMES = Path("/run/netns")
# MPTCP_SUBFLOW_FLAG_* (include/uapi/linux/mptcp.h).
_CAPABLE, _ASKED, _JOIN, _BACKUP = 1, 2, 4 | 8, 16 | 32
# What the kernel writes for "not yet": ssthresh before the first loss, the least round-trip time
# before the first sample.
_NO_SSTHRESH, _NO_RTT = 0x7FFF_FFFF, 0xFFFF_FFFF
_SYN_SENT = 2
_STATES = {
    1: "established", 2: "syn-sent", 3: "syn-received", 4: "fin-wait-1", 5: "fin-wait-2", 8: "close-wait", 9: "last-ack", 11: "closing",
    12: "syn-received",
}  # fmt: skip
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class Subflow:
    """A TCP socket at one moment. Without a token it is no subflow of MPTCP. None: the kernel does
    not know yet, or does not tell.
    """

    source: str
    source_port: int
    destination: str
    destination_port: int
    token: int | None
    local_id: int
    remote_id: int
    joined: bool
    """It came after the connection's first subflow."""
    backup: bool
    state: str
    cc: str
    cwnd: int
    ssthresh: int | None
    srtt_ms: float | None
    min_rtt_ms: float | None
    rto_ms: float
    pacing_mbps: float | None
    delivery_mbps: float
    mss: int
    pmtu: int
    in_flight: int
    retransmissions: int
    timeouts: int | None
    bytes_acked: int
    bytes_received: int
    busy_s: float
    rwnd_limited_s: float
    sndbuf_limited_s: float
    fell_back: bool = False
    """It asked for MPTCP, or had it, and is plain TCP now."""


class Sockets:
    """The sockets of a network namespace: of this one, or of one that has a name (`ip netns`) or a
    file.
    """

    def __init__(self, netns: str | None = None) -> None:
        self.netns = netns
        require_linux()
        self._native = inside(netns, _open)

    def look(self) -> list[Subflow]:
        """All TCP sockets that neither listen nor wait out their time."""
        try:
            return [subflow(*row) for row in self._native.look() if row[-1]]
        except OSError as error:
            raise SocketsError(f"the kernel does not tell of its sockets: {error}") from None


def _open() -> _native.Sockets:
    try:
        return _native.Sockets()
    except OSError as error:
        raise SocketsError(f"the kernel does not tell of its sockets: {error}") from None


def subflow(
    source: str, source_port: int, destination: str, destination_port: int, state: int, cc: str, flags: int, token: int | None,
    local_id: int, remote_id: int, raw: bytes,
) -> Subflow:  # fmt: skip
    """What the kernel said, in the units of the result tables."""
    info = tcp_info(raw)
    rtt, least, pacing = info["srtt_us"], info["min_rtt_us"], info["pacing_rate"]
    # A connection that fell back to TCP keeps its token, and its peer knows none.
    speaks = bool(flags & (_CAPABLE | _JOIN) or (flags & _ASKED and state == _SYN_SENT))
    return Subflow(
        source=source,
        source_port=source_port,
        destination=destination,
        destination_port=destination_port,
        token=token if speaks else None,
        local_id=local_id,
        remote_id=remote_id,
        joined=bool(flags & _JOIN),
        backup=bool(flags & _BACKUP),
        state=_STATES.get(state, str(state)),
        cc=cc,
        cwnd=info["cwnd"],
        ssthresh=None if info["ssthresh"] >= _NO_SSTHRESH else info["ssthresh"],
        srtt_ms=rtt / 1e3 if rtt else None,
        min_rtt_ms=None if least in (0, _NO_RTT) else least / 1e3,
        rto_ms=info["rto_us"] / 1e3,
        pacing_mbps=None if pacing in (0, 2**64 - 1) else pacing * 8e-6,
        delivery_mbps=info["delivery_rate"] * 8e-6,
        mss=info["snd_mss"],
        pmtu=info["pmtu"],
        in_flight=max(info["unacked"] - info["sacked"] - info["lost"] + info["retrans"], 0),
        retransmissions=info["total_retrans"],
        timeouts=info["total_rto"] if len(raw) >= COUNTS_TIMEOUTS else None,
        # The kernel counts the SYN as a byte.
        bytes_acked=max(info["bytes_acked"] - 1, 0),
        bytes_received=info["bytes_received"],
        busy_s=info["busy_us"] / 1e6,
        rwnd_limited_s=info["rwnd_limited_us"] / 1e6,
        sndbuf_limited_s=info["sndbuf_limited_us"] / 1e6,
        fell_back=token is not None and not speaks,
    )


def devices(netns: str | None = None) -> dict[str, str]:
    """The addresses of a namespace, each with the name of its device."""
    from pyroute2 import IPRoute  # Slow to load.

    def ask() -> dict[str, str]:
        with IPRoute() as route:
            names = {message["index"]: str(message.get_attr("IFLA_IFNAME")) for message in route.get_links()}
            addresses = [
                (message.get_attr("IFA_LOCAL") or message.get_attr("IFA_ADDRESS"), message["index"]) for message in route.get_addr()
            ]
        return {str(address): names.get(index, "") for address, index in addresses}

    return inside(netns, ask)


def require_linux() -> None:
    """Namespaces and socket diagnostics are Linux's."""
    if not sys.platform.startswith("linux"):
        raise SocketsError("live sockets are read from Linux: run this on Linux")


def namespace_file(netns: str) -> Path:
    """Where a namespace is found: a name of `ip netns`, or a file such as /proc/PID/ns/net."""
    name_file = Path(netns) if "/" in netns else _NAMES / netns
    if not name_file.exists():
        there = sorted(file.name for file in _NAMES.glob("*")) if "/" not in netns else []
        others = f"; there are {', '.join(there)}" if there else ""
        raise SocketsError(
            f'there is no network namespace "{netns}"{others} (ip netns lists names; a file like /proc/PID/ns/net will do too)'
        )
    return name_file


def inside(netns: str | None, work: Callable[[], _Result]) -> _Result:
    """Does something in a namespace, on a thread of its own, since a namespace belongs to a thread;
    None: here.
    """
    if netns is None:
        return work()
    require_linux()
    file = namespace_file(netns)
    done: list[_Result] = []
    failure: list[BaseException] = []

    def enter() -> None:
        try:
            try:
                _native.enter_network(str(file))
            except OSError as error:
                reason = "entering a namespace needs root: run this with sudo" if os.geteuid() else str(error)
                raise SocketsError(f'the network namespace "{netns}" cannot be entered: {reason}') from None
            done.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return done[0]
