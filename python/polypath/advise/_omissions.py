"""What the search did not try, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from ._settings import FEW_CC, SHAPED, STOCK_CC, TUNNEL_CC, Setting
from ._study import Question


def omissions(question: Question, settings: Sequence[Setting], known_cc: Sequence[str], known_schedulers: Sequence[str]) -> list[str]:
    """For this question, of what Polypath knows."""
    several = len(question.paths) > 1
    tried_cc = dict.fromkeys(setting.cc for setting in settings)
    tried_schedulers = dict.fromkeys(setting.scheduler for setting in settings)
    sentences = []
    if others := [name for name in known_cc if name not in tried_cc]:
        sentences.append(f"the congestion controls {', '.join(others)}")
    if several:
        if others := [name for name in known_schedulers if name not in tried_schedulers]:
            sentences.append(f"the schedulers {', '.join(others)}")
        sentences.append(f"another first path than {question.paths[0].name}, which calls and new connections take")
        sentences.append("a path as backup: until another fails it is as the other one alone")
        if len(question.paths) > 2:
            sentences.append(f"one path left out with other congestion controls than {', '.join(FEW_CC)}")
        if len(question.paths) > 3:
            sentences.append("two or more of the paths left out, but for one alone")
        tunnel = (
            f"a tunnel with other congestion controls inside than {' and '.join(TUNNEL_CC)}, with other rules of reordering than progress"
        )
        sentences.append(f"{tunnel}; turns and flows with a shaper or other buffers; encryption")
    if all(setting.buffer is None for setting in settings):
        sentences.append("other buffers: Linux's own hold what these paths have under way")
    sentences.append(f"other queues than fq_codel, and other rates of it than {100 * SHAPED:.0f} % of the least that a path may have; ECN")
    sentences.append(f"another congestion control on each side or path, and settings of {', '.join(STOCK_CC)} themselves")
    fail = "fail otherwise than by the outages" if any(path.outage.high for path in question.paths) else "fail"
    change = " otherwise than was measured" if any(path.measured is not None for path in question.paths) else ""
    sentences.append(f"paths that {fail}, or change{change} while a connection lasts")
    return sentences
