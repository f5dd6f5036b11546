"""Live TCP sockets of this host or of a network namespace, subflows of MPTCP among them, of any
program.

`Sockets` looks at them (crates/guest/src/diag.rs asks the kernel), `History` keeps what was seen:
rates between two looks, and the last counters of those that are gone.
"""

from ._errors import SocketsError
from ._history import Entry, History, Key
from ._info import COUNTS_TIMEOUTS, TCP_INFO, TCP_INFO_SIZE, tcp_info
from ._look import Sockets, Subflow, devices, inside

__all__ = [
    "COUNTS_TIMEOUTS",
    "TCP_INFO",
    "TCP_INFO_SIZE",
    "Entry",
    "History",
    "Key",
    "Sockets",
    "SocketsError",
    "Subflow",
    "devices",
    "inside",
    "tcp_info",
]
