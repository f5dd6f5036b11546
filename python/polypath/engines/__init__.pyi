from ._base import Algorithm, Engine, Output
from ._errors import EngineError
from ._fake import FakeEngine
from ._host import HostEngine
from ._linux import LinuxEngine
from ._packets import run_packets
from ._prove import proof, prove
from ._qualify import CONDITIONS, Replay, conditions, replay
from ._registry import ENGINES, check, find, notes
from ._script import run_script
from ._sim import SimEngine

__all__ = [
    "CONDITIONS",
    "ENGINES",
    "Algorithm",
    "Engine",
    "EngineError",
    "FakeEngine",
    "HostEngine",
    "LinuxEngine",
    "Output",
    "Replay",
    "SimEngine",
    "check",
    "conditions",
    "find",
    "notes",
    "proof",
    "prove",
    "replay",
    "run_packets",
    "run_script",
]
