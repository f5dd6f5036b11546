"""Which congestion control, scheduler, queue and buffers suit somebody's paths and uses.

    from polypath.advise import advise, path_in_words

    found = advise([path_in_words("50/10mbit 20ms", 1), path_in_words("30/10mbit 60ms", 2)], "download,call", folder="advice")
    found.ranking.advice.setting.name

It searches on the simulator, over networks drawn from what is known of the paths, and writes an
ordinary study that repeats the answer.
"""

from ._advice import Advice, advise, as_json
from ._answer import Left
from ._capture import paths_in
from ._commands import Command, commands, script, variables
from ._conclusion import by_use, left_early, share
from ._confirm import Confirmation, Confirmed
from ._errors import AdviceError
from ._file import paths_of_file
from ._host import Uplink, completed, device_speeds, uplinks
from ._path_text import path_in_words
from ._paths import Path, Span
from ._ranking import Rank, Ranking
from ._score import Ratio, ratio
from ._settings import NEEDS, Setting, candidates, linux_default
from ._study import Question
from ._trials import Trials
from ._uses import FREE_LOSS, Use, lost, use, weighted

__all__ = [
    "FREE_LOSS",
    "NEEDS",
    "Advice",
    "AdviceError",
    "Command",
    "Confirmation",
    "Confirmed",
    "Left",
    "Path",
    "Question",
    "Rank",
    "Ranking",
    "Ratio",
    "Setting",
    "Span",
    "Trials",
    "Uplink",
    "Use",
    "advise",
    "as_json",
    "by_use",
    "candidates",
    "commands",
    "completed",
    "device_speeds",
    "left_early",
    "linux_default",
    "lost",
    "path_in_words",
    "paths_in",
    "paths_of_file",
    "ratio",
    "script",
    "share",
    "uplinks",
    "use",
    "variables",
    "weighted",
]
