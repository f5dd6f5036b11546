"""Which commit of a kernel's sources broke a test or a claim: git chooses the commits, seeds decide
on each, with a stated error.
"""

from ._errors import BisectError
from ._judge import Judged, Trial, judge, steps_of
from ._sequential import Sequential, Verdict, rate, told_apart
from ._state import Asked, Culprit, Session, git
from ._trials import trial_of

__all__ = [
    "Asked",
    "BisectError",
    "Culprit",
    "Judged",
    "Sequential",
    "Session",
    "Trial",
    "Verdict",
    "git",
    "judge",
    "rate",
    "steps_of",
    "told_apart",
    "trial_of",
]
