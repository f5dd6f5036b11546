"""The kernel's `struct tcp_info` (include/uapi/linux/tcp.h)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# Offsets, the same in all releases; later ones only append.
TCP_INFO: Mapping[str, tuple[int, str]] = {
    "ca_state": (1, "u1"),
    "rto_us": (8, "<u4"),
    "snd_mss": (16, "<u4"),
    "unacked": (24, "<u4"),
    "sacked": (28, "<u4"),
    "lost": (32, "<u4"),
    "retrans": (36, "<u4"),
    "pmtu": (60, "<u4"),
    "srtt_us": (68, "<u4"),
    "rttvar_us": (72, "<u4"),
    "ssthresh": (76, "<u4"),
    "cwnd": (80, "<u4"),
    "reordering": (88, "<u4"),
    "total_retrans": (100, "<u4"),
    "pacing_rate": (104, "<u8"),
    "bytes_acked": (120, "<u8"),
    "bytes_received": (128, "<u8"),
    "notsent_bytes": (144, "<u4"),
    "min_rtt_us": (148, "<u4"),
    "data_segs_out": (156, "<u4"),
    "delivery_rate": (160, "<u8"),
    "busy_us": (168, "<u8"),
    "rwnd_limited_us": (176, "<u8"),
    "sndbuf_limited_us": (184, "<u8"),
    "bytes_sent": (200, "<u8"),
    "bytes_retrans": (208, "<u8"),
    "total_rto": (240, "<u2"),
}
TCP_INFO_SIZE = 288
# From this length on the kernel counts timeouts (6.7).
COUNTS_TIMEOUTS = 244

_INFO = np.dtype(
    {
        "names": list(TCP_INFO),
        "formats": [kind for _, kind in TCP_INFO.values()],
        "offsets": [offset for offset, _ in TCP_INFO.values()],
        "itemsize": TCP_INFO_SIZE,
    }
)


def tcp_info(raw: bytes) -> dict[str, Any]:
    """The fields of a `tcp_info`; those that this kernel's does not reach to are 0."""
    values = np.frombuffer(raw[:TCP_INFO_SIZE].ljust(TCP_INFO_SIZE, b"\0"), dtype=_INFO)[0]
    return {name: int(values[name]) for name in TCP_INFO}
