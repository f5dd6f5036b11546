"""One run closely: what its machine wrote down of packets, sockets and counters, made readable."""

from __future__ import annotations

import csv
import ipaddress
import struct
from pathlib import Path

# Of struct tcp_info (include/uapi/linux/tcp.h): name, offset, form. Times in microseconds, windows in segments unless they say bytes.
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


def readable(folder: Path) -> list[Path]:
    """Turns what an observing machine left into tables: sockets as CSV, counters that are not 0 as lines. All files of the folder."""
    for raw in sorted(folder.glob("*.sockets")):
        with raw.with_suffix(".sockets.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(HEADS)
            lines = raw.read_text(encoding="ascii").splitlines()
            table.writerows(_socket(line) for line in lines)
        raw.unlink()
    for raw in sorted(folder.glob("*.counters")):
        raw.write_text("".join(f"{name} {value}\n" for name, value in counters(raw.read_text(encoding="ascii")) if value), encoding="ascii")
    return sorted(file for file in folder.iterdir() if file.is_file())


def _socket(line: str) -> list[object]:
    at, source, destination, state, flags, token, cc, info = (*line.split(" "), "")[:8]
    raw = bytes.fromhex(info)
    values = [
        struct.unpack_from(f"={form}", raw, offset)[0] if len(raw) >= offset + struct.calcsize(form) else "" for _, offset, form in _FIELDS
    ]
    kind = "join" if int(flags) & _JOIN else "first" if int(flags) & _CAPABLE else ""
    return [f"{int(at) / 1e6:.3f}", _plain(source), _plain(destination), _STATES[int(state)], kind, token, cc, *values]


def _plain(address: str) -> str:
    """An IPv4 address in an IPv6 socket as IPv4."""
    host, _, port = address.rpartition(":")
    parsed = ipaddress.ip_address(host.strip("[]"))
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return f"{mapped}:{port}" if mapped else address


def counters(text: str) -> list[tuple[str, int]]:
    """The counters in the texts of /proc/net/snmp and netstat: pairs of lines, names and values."""
    found = []
    lines = text.splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group, *heads = names.split()
        found += [(f"{group.rstrip(':')}{head}", int(value)) for head, value in zip(heads, values.split()[1:], strict=True)]
    return found
