"""What a watched machine wrote down (cc/kernel/observe.c) as files that a person can use: captures,
tables of sockets, counters.
"""

from __future__ import annotations

import csv
import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

# Of struct tcp_info (include/uapi/linux/tcp.h): name, offset, form. Times in microseconds, windows
# in segments unless they say bytes.
_FIELDS = (
    ("ca_state", 1, "B"),
    ("rto_us", 8, "I"),
    ("unacked", 24, "I"),
    ("sacked", 28, "I"),
    ("lost", 32, "I"),
    ("retrans", 36, "I"),
    ("rtt_us", 68, "I"),
    ("rttvar_us", 72, "I"),
    ("ssthresh", 76, "I"),
    ("cwnd", 80, "I"),
    ("rcv_rtt_us", 92, "I"),
    ("rcv_space_bytes", 96, "I"),
    ("total_retrans", 100, "I"),
    ("pacing_bytes_s", 104, "Q"),
    ("bytes_acked", 120, "Q"),
    ("bytes_received", 128, "Q"),
    ("notsent_bytes", 144, "I"),
    ("min_rtt_us", 148, "I"),
    ("delivery_bytes_s", 160, "Q"),
    ("busy_us", 168, "Q"),
    ("rwnd_limited_us", 176, "Q"),
    ("sndbuf_limited_us", 184, "Q"),
    ("snd_wnd_bytes", 228, "I"),
)
HEADS = ("ms", "source", "destination", "state", "subflow", "token", "cc", *(name for name, *_ in _FIELDS))
_STATES = (
    "",
    "established",
    "syn-sent",
    "syn-recv",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
)
# MPTCP_SUBFLOW_FLAG_MCAP_REM, and _JOIN_REM or _JOIN_LOC.
_CAPABLE, _JOIN = 1, 4 | 8
# The machine's clock begins on 1 January 2025 (crates/guest/src/machine.rs).
START_NS = 1_735_689_600_000_000_000
_PACKET, _SOCKET, _COUNTERS, _LOG, _REFUSED, _PACKETS = 1, 2, 3, 4, 5, 6
_HEAD = struct.Struct("=QII")
_PACKET_HEAD = struct.Struct("=IIII16s")
_SOCKET_HEAD = struct.Struct("=IHHHHII16s16s16s")
# Bytes kept of a packet.
_SNAPLEN = 160
RECORDS, NAMES, SHELL = "observed", "namespaces", "shell"
_AF_INET = 2


@dataclass
class _Namespace:
    """The files of one namespace, made when there is something for them."""

    base: Path
    packets: IO[bytes] | None = None
    devices: dict[tuple[int, bytes], int] = field(default_factory=dict)
    sockets: IO[str] | None = None

    def close(self) -> None:
        for file in (self.packets, self.sockets):
            if file:
                file.close()


@dataclass(frozen=True)
class Observation:
    """What a machine says of a run beside what happened in it."""

    # When the test's log became how long: nanoseconds since the machine's start, bytes.
    marks: tuple[tuple[int, int], ...]
    # Number and hash of all packets with their times: two runs with the same had the same packets.
    packets: tuple[int, int]
    # Kernel events that this kernel does not have.
    refused: tuple[str, ...]
    # Whether the person's shell has opened.
    shell: bool


def observation_of(folder: Path) -> Observation:
    """What the machine that left this folder says of its run."""
    marks, refused, packets = [], [], (0, 0)
    for at, kind, body in _records(folder / RECORDS):
        if kind == _LOG:
            marks.append((at, struct.unpack("=Q", body)[0]))
        elif kind == _REFUSED:
            refused.append(body.decode("ascii"))
        elif kind == _PACKETS:
            packets = struct.unpack("=QQ", body)
    return Observation(tuple(marks), packets, tuple(refused), (folder / SHELL).exists())


def readable(folder: Path, window: tuple[int, int] | None = None) -> list[Path]:
    """Turns what a watched machine left into captures, tables and counters, a set for each
    namespace; all files of the folder.

    `window` is from when to when packets and sockets are kept.
    """
    names: dict[int, str] = {}
    for line in (folder / NAMES).read_text(encoding="utf-8").splitlines():
        number, _, name = line.partition(" ")
        names[int(number)] = name
    there: dict[int, _Namespace] = {}
    first, last = window or (0, 1 << 64)

    def namespace(number: int) -> _Namespace:
        if number not in there:
            there[number] = _Namespace(folder / names.get(number, f"net-{number}"))
        return there[number]

    try:
        for at, kind, body in _records(folder / RECORDS):
            if kind == _COUNTERS:
                (number,) = struct.unpack_from("=I", body)
                text = "".join(f"{name} {value}\n" for name, value in counters(body[4:].decode("ascii")) if value)
                if text and (number in there or number in names):
                    namespace(number).base.with_name(f"{namespace(number).base.name}.counters").write_text(text, encoding="ascii")
            elif first <= at < last and kind == _PACKET:
                _packet(namespace(struct.unpack_from("=I", body)[0]), at, body)
            elif first <= at < last and kind == _SOCKET:
                _socket(namespace(struct.unpack_from("=I", body)[0]), at, body)
    finally:
        for files in there.values():
            files.close()
    for raw in (RECORDS, NAMES, SHELL):
        (folder / raw).unlink(missing_ok=True)
    return sorted(file for file in folder.iterdir() if file.is_file())


def _records(file: Path) -> Iterator[tuple[int, int, bytes]]:
    with file.open("rb") as raw:
        while len(head := raw.read(_HEAD.size)) == _HEAD.size:
            at, kind, length = _HEAD.unpack(head)
            yield at, kind, raw.read(length + (-length & 7))[:length]


def _packet(namespace: _Namespace, at: int, body: bytes) -> None:
    _, device, length, kept, name = _PACKET_HEAD.unpack_from(body)
    if namespace.packets is None:
        namespace.packets = namespace.base.with_name(f"{namespace.base.name}.pcapng").open("wb")
        namespace.packets.write(_block(0x0A0D0D0A, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1)))
    number = namespace.devices.get((device, name))
    if number is None:
        number = namespace.devices[device, name] = len(namespace.devices)
        # Ethernet; options: the device's name, and that times are nanoseconds.
        options = _option(2, name.rstrip(b"\0")) + _option(9, b"\x09") + _option(0, b"")
        namespace.packets.write(_block(1, struct.pack("=HHI", 1, 0, _SNAPLEN) + options))
    time = START_NS + at
    data = body[_PACKET_HEAD.size :]
    namespace.packets.write(_block(6, struct.pack("=IIIII", number, time >> 32, time & 0xFFFFFFFF, kept, length) + _padded(data)))


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("=II", kind, length) + body + struct.pack("=I", length)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + _padded(value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) & 3)


def _socket(namespace: _Namespace, at: int, body: bytes) -> None:
    _, family, state, sport, dport, token, flags, source, destination, cc = _SOCKET_HEAD.unpack_from(body)
    raw = body[_SOCKET_HEAD.size :]
    if namespace.sockets is None:
        namespace.sockets = namespace.base.with_name(f"{namespace.base.name}.sockets.csv").open("w", encoding="utf-8", newline="")
        csv.writer(namespace.sockets, lineterminator="\n").writerow(HEADS)
    values = [
        struct.unpack_from(f"={form}", raw, offset)[0] if len(raw) >= offset + struct.calcsize(form) else "" for _, offset, form in _FIELDS
    ]
    kind = "join" if flags & _JOIN else "first" if flags & _CAPABLE else ""
    ends = (_address(family, source, sport), _address(family, destination, dport))
    row = [f"{at / 1e6:.3f}", *ends, _STATES[state], kind, token, cc.rstrip(b"\0").decode("ascii"), *values]
    csv.writer(namespace.sockets, lineterminator="\n").writerow(row)


def _address(family: int, raw: bytes, port: int) -> str:
    """An IPv4 address in an IPv6 socket as IPv4."""
    if family == _AF_INET:
        return f"{ipaddress.IPv4Address(raw[:4])}:{port}"
    address = ipaddress.IPv6Address(raw)
    return f"{address.ipv4_mapped}:{port}" if address.ipv4_mapped else f"[{address}]:{port}"


def counters(text: str) -> list[tuple[str, int]]:
    """The counters in the texts of /proc/net/snmp and netstat: pairs of lines, names and values."""
    counts = []
    lines = text.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group, *heads = names.split()
        counts += [(f"{group.rstrip(':')}{head}", int(value)) for head, value in zip(heads, values.split()[1:], strict=True)]
    return counts
