"""The link emulator: the network of a topology in namespaces of this machine, its links in real
time.

`network` turns a scenario into what the emulator (crates/emu) takes; `up`, `down`, `status` and
`entrance` keep one such network for a person to work in; `run` carries out a whole run in real
time; `bench` measures the emulator.
"""

from ._bench import bench
from ._errors import EmuError, require_root
from ._lab import Lab, Report, down, entrance, status, up
from ._network import LATE_LIMIT_NS, carried, network
from ._run import run, stop

__all__ = [
    "LATE_LIMIT_NS",
    "EmuError",
    "Lab",
    "Report",
    "bench",
    "carried",
    "down",
    "entrance",
    "network",
    "require_root",
    "run",
    "status",
    "stop",
    "up",
]
