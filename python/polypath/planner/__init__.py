"""From a scenario to the plan of a run on a Linux kernel: namespaces, veth pairs, routes, netem,
endpoints, flows. Touches nothing.
"""

from ._errors import FieldPath, PlanError
from ._network import PlacedStage
from ._plan import FORMAT, PREFIX, Planned, algorithm, build, sample_ns
from ._stages import in_packets
from ._tunnels import PROGRAM
from ._ways import Graph, Hop, routes, steps

__all__ = [
    "FORMAT",
    "PREFIX",
    "PROGRAM",
    "FieldPath",
    "Graph",
    "Hop",
    "PlacedStage",
    "PlanError",
    "Planned",
    "algorithm",
    "build",
    "in_packets",
    "routes",
    "sample_ns",
    "steps",
]
