from ._baselines import gains, single_paths
from ._bounds import flow_bounds, max_goodput, path_bounds
from ._checked import check_claims
from ._claims import ClaimResult, Evidence, Verdict, evaluate, select
from ._compare import PLATFORM, Comparison, area_between, compare, platform_names, platforms_in_order
from ._distribution import Distance, Standing, discoveries, distance, in_words
from ._fairness import fair_shares, with_fairness
from ._limits import limits, limits_of_cells, queue_shares
from ._network import Hop, Path, hops, paths
from ._published import beside
from ._series import rates
from ._statistics import groups, half_width, jain, summarise, transient

__all__ = [
    "PLATFORM",
    "ClaimResult",
    "Comparison",
    "Distance",
    "Evidence",
    "Hop",
    "Path",
    "Standing",
    "Verdict",
    "area_between",
    "beside",
    "check_claims",
    "compare",
    "discoveries",
    "distance",
    "evaluate",
    "fair_shares",
    "flow_bounds",
    "gains",
    "groups",
    "half_width",
    "hops",
    "in_words",
    "jain",
    "limits",
    "limits_of_cells",
    "max_goodput",
    "path_bounds",
    "paths",
    "platform_names",
    "platforms_in_order",
    "queue_shares",
    "rates",
    "select",
    "single_paths",
    "summarise",
    "transient",
    "with_fairness",
]
