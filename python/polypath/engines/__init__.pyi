from ._base import Algorithm, Engine, Output
from ._differential import describe_parting, random_partings, script_partings
from ._diverge import SEGMENT_PARTS, Divergence, describe_divergence, diverge, divergence_as_plain
from ._errors import EngineError
from ._host import HostEngine
from ._linux import LinuxEngine
from ._list import list_cc
from ._measured import MeasuredEngine
from ._packetdrill import run_packetdrill
from ._packets import run_packets
from ._prove import Pair, pairs, proof, prove
from ._qualify import CONDITIONS, Replay, conditions, replay
from ._registry import ENGINES, check, find, notes
from ._script import run_script
from ._sim import SimEngine, check_cc
from ._variation import ALL, MOST_NS, NONE, VARIED, Kind, Variation, draws_of, happened, in_units, variation

__all__ = [
    "ALL",
    "CONDITIONS",
    "ENGINES",
    "MOST_NS",
    "NONE",
    "SEGMENT_PARTS",
    "VARIED",
    "Algorithm",
    "Divergence",
    "Engine",
    "EngineError",
    "HostEngine",
    "Kind",
    "LinuxEngine",
    "MeasuredEngine",
    "Output",
    "Pair",
    "Replay",
    "SimEngine",
    "Variation",
    "check",
    "check_cc",
    "conditions",
    "describe_divergence",
    "describe_parting",
    "diverge",
    "divergence_as_plain",
    "draws_of",
    "find",
    "happened",
    "in_units",
    "list_cc",
    "notes",
    "pairs",
    "proof",
    "prove",
    "random_partings",
    "replay",
    "run_packetdrill",
    "run_packets",
    "run_script",
    "script_partings",
    "variation",
]
