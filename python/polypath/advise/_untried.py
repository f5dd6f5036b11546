"""What the search did not try, in sentences, so that nobody takes silence for an answer."""

from __future__ import annotations

from collections.abc import Sequence

from ._settings import ALL, SHAPED, STOCK_CC, Setting
from ._study import Question


def untried(question: Question, settings: Sequence[Setting], known_cc: Sequence[str], known_schedulers: Sequence[str]) -> list[str]:
    """For this question, of what Polypath knows."""
    tried_cc = dict.fromkeys(each.cc for each in settings)
    tried_schedulers = dict.fromkeys(each.scheduler for each in settings)
    found = []
    if others := [name for name in known_cc if name not in tried_cc]:
        found.append(f"the congestion controls {', '.join(others)}")
    if any(each.paths == ALL for each in settings):
        if others := [name for name in known_schedulers if name not in tried_schedulers]:
            found.append(f"the schedulers {', '.join(others)}")
        found.append(f"another first path than {question.paths[0].name}, which calls and new connections take")
        found.append("a path as backup: until another fails it is as the other one alone")
        if len(question.paths) > 2:
            found.append("some of the paths, more than one and fewer than all")
    if all(each.buffer is None for each in settings):
        found.append("other buffers: Linux's own hold what these paths have under way")
    found.append(f"other queues than fq_codel, and other rates of it than {100 * SHAPED:.0f} % of the least that a path may have; ECN")
    found.append(f"another congestion control on each side or path, and settings of {', '.join(STOCK_CC)} themselves")
    found.append("paths that fail, or change while a connection lasts")
    return found
