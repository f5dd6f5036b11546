from ._against import REFERENCE, PairStanding, against, metric_of, with_applications
from ._answers import answers, applications_in, of_paths, possible, with_limits
from ._applications import APPLICATIONS, BY_NAME, HEADS, Application, Metric, meant
from ._asked import HARMLESS, between, fewer_subflows, no_route, subflows_across, subflows_opened, tunnels_as_paths, without_route
from ._baselines import gains, single_paths
from ._bounds import flow_bounds, max_goodput, path_bounds
from ._claims import ClaimResult, Evidence, Verdict, evaluate, select
from ._compare import PLATFORM, TOLERANCE, WITHIN, Comparison, area_between, compare, platform_names, platforms_in_order
from ._distribution import LEVEL, Distance, Standing, discoveries, distance, in_words, significant
from ._fairness import fair_shares, with_fairness
from ._limits import limits, limits_of_cells
from ._names import FAIRNESS, POSSIBLE, SUBFLOW
from ._network import Hop, Path, asked, bare, hops, network_of, path_names, paths, unjoined
from ._paths import path_figures, short_queues, small_buffers
from ._published import beside, matches
from ._series import rates
from ._statistics import CONFIDENCE, groups, half_width, jain, summarise

__all__ = [
    "APPLICATIONS",
    "BY_NAME",
    "CONFIDENCE",
    "FAIRNESS",
    "HARMLESS",
    "HEADS",
    "LEVEL",
    "PLATFORM",
    "POSSIBLE",
    "REFERENCE",
    "SUBFLOW",
    "TOLERANCE",
    "WITHIN",
    "Application",
    "ClaimResult",
    "Comparison",
    "Distance",
    "Evidence",
    "Hop",
    "Metric",
    "PairStanding",
    "Path",
    "Standing",
    "Verdict",
    "against",
    "answers",
    "applications_in",
    "area_between",
    "asked",
    "bare",
    "beside",
    "between",
    "compare",
    "discoveries",
    "distance",
    "evaluate",
    "fair_shares",
    "fewer_subflows",
    "flow_bounds",
    "gains",
    "groups",
    "half_width",
    "hops",
    "in_words",
    "jain",
    "limits",
    "limits_of_cells",
    "matches",
    "max_goodput",
    "meant",
    "metric_of",
    "network_of",
    "no_route",
    "of_paths",
    "path_bounds",
    "path_figures",
    "path_names",
    "paths",
    "platform_names",
    "platforms_in_order",
    "possible",
    "rates",
    "select",
    "short_queues",
    "significant",
    "single_paths",
    "small_buffers",
    "subflows_across",
    "subflows_opened",
    "summarise",
    "tunnels_as_paths",
    "unjoined",
    "with_applications",
    "with_fairness",
    "with_limits",
    "without_route",
]
