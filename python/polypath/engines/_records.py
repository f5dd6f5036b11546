"""Reads what the guest gives back (crates/guest/src/records.rs): records of fixed size with the
kernel's `tcp_info` in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from polypath.sockets import TCP_INFO, TCP_INFO_SIZE
from polypath.sockets import tcp_info as fields

Array = npt.NDArray[Any]

_HEAD: Mapping[str, tuple[int, str]] = {
    "time_ns": (0, "<u8"),
    "flow": (8, "<u4"),
    "subflow": (12, "<u4"),
    "flags": (16, "<u4"),
    "state": (20, "<u4"),
    "info_length": (24, "<u4"),
}
_HEAD_SIZE = 32


def _dtype(fields: Mapping[str, tuple[int, str]], size: int) -> np.dtype[Any]:
    names = list(fields)
    return np.dtype({"names": names, "formats": [fields[n][1] for n in names], "offsets": [fields[n][0] for n in names], "itemsize": size})


SOCKET = _dtype(
    {**_HEAD, **{name: (_HEAD_SIZE + offset, kind) for name, (offset, kind) in TCP_INFO.items()}},
    _HEAD_SIZE + TCP_INFO_SIZE,
)
QUEUE = np.dtype(
    {
        "names": ["time_ns", "link", "a_to_b", "packets", "bytes", "drops"],
        "formats": ["<u8", "<u4", "<u4", "<u4", "<u8", "<u8"],
        "offsets": [0, 8, 12, 16, 24, 32],
        "itemsize": 40,
    }
)

DATAGRAM = np.dtype([("received_ns", "<u8"), ("sent_ns", "<u8"), ("number", "<u4"), ("flow", "<u4")])

# `mptcpi_bytes_retrans` and `mptcpi_bytes_sent` in `struct mptcp_info` (include/uapi/linux/mptcp.h),
# there since 6.5.
_MPTCP_BYTES = slice(48, 64)


def tcp_info(text: str) -> tuple[dict[str, int], int]:
    """A `tcp_info` in hexadecimal, and its length."""
    raw = bytes.fromhex(text)
    return fields(raw), len(raw)


def reinjected_bytes(mptcp_info: str | None, subflows: Iterable[str]) -> int | None:
    """Bytes that an MPTCP connection gave to another subflow too, from its `mptcp_info` and the
    `tcp_info` of its subflows; None where the kernel does not say.

    The kernel's own count leaves out what it schedules anew when a subflow dies
    (`__mptcp_retransmit_pending_data`): that is what subflows were given beyond the data.
    """
    raw = bytes.fromhex(mptcp_info or "")[_MPTCP_BYTES]
    if len(raw) < _MPTCP_BYTES.stop - _MPTCP_BYTES.start:
        return None
    again, sent = (int(value) for value in np.frombuffer(raw, "<u8"))
    given = sum(info["bytes_sent"] - info["bytes_retrans"] + info["notsent_bytes"] for info, _ in map(tcp_info, subflows))
    return max(again, given - sent)


def records(raw: bytes, kind: np.dtype[Any]) -> Array:
    """Records of a file; a part of one at its end means that the machine died while it wrote."""
    if len(raw) % kind.itemsize:
        raise ValueError(f"a file of records ends within one: {len(raw)} bytes are no multiple of {kind.itemsize}")
    return np.frombuffer(raw, dtype=kind)
