"""Two engines over many starts.

One run of a queue that draws, or that meets another moment of a tick, is one draw, and which one
hangs on the kernel's link of the day. So figures that move so are compared as means over starts,
and the claim must hold for the whole interval of their difference.
"""

import math
import statistics

from scipy import stats

# Of the one-sided interval: engines further apart than what is claimed pass at most this often.
ERROR = 0.05


def most_apart(ours, theirs):
    """Welch's interval, since neither engine's starts are the other's."""
    variances = [statistics.variance(each) / len(each) for each in (ours, theirs)]
    apart = abs(statistics.fmean(ours) - statistics.fmean(theirs))
    if sum(variances) == 0:
        return apart
    # Welch and Satterthwaite.
    freedom = sum(variances) ** 2 / sum(each**2 / (len(of) - 1) for each, of in zip(variances, (ours, theirs), strict=True))
    return apart + float(stats.t.ppf(1 - ERROR, freedom)) * math.sqrt(sum(variances))


def agree(ours, theirs, *, rel=0.0, within=0.0):
    """Whether the means are as near as claimed, `within` or `rel` of the kernel's mean. Equal
    engines need enough starts for a yes.
    """
    return most_apart(ours, theirs) <= within + rel * abs(statistics.fmean(theirs))
