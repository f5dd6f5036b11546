"""Analysis maps tables to tables: bounds, what limited a flow, confidence, published beside measured, claims. Never touches the disk."""

from ._baselines import gains, single_paths
from ._bounds import flow_bounds, max_goodput, path_bounds
from ._claims import ClaimResult, Evidence, Verdict, evaluate, select
from ._limits import limits, limits_of_cells
from ._network import Hop, Path, hops, paths
from ._published import beside
from ._series import rates
from ._statistics import half_width, jain, summarise, transient

__all__ = [
    "ClaimResult",
    "Evidence",
    "Hop",
    "Path",
    "Verdict",
    "beside",
    "evaluate",
    "flow_bounds",
    "gains",
    "half_width",
    "hops",
    "jain",
    "limits",
    "limits_of_cells",
    "max_goodput",
    "path_bounds",
    "paths",
    "rates",
    "select",
    "single_paths",
    "summarise",
    "transient",
]
