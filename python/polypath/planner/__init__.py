"""From a scenario to the plan of a run on a Linux kernel: namespaces, veth pairs, routes, netem,
endpoints, flows. Touches nothing.
"""

from ._errors import FieldPath, PlanError
from ._network import PlacedStage
from ._plan import PREFIX, Planned, build
from ._stages import in_packets
from ._ways import Graph, Hop, routes, steps

__all__ = [
    "PREFIX",
    "FieldPath",
    "Graph",
    "Hop",
    "PlacedStage",
    "PlanError",
    "Planned",
    "build",
    "in_packets",
    "routes",
    "steps",
]
