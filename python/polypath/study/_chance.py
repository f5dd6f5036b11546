"""What a seed can change: losses, jitter, radios, some managed queues, starts within
`start_spread`, and algorithms that draw.
"""

from __future__ import annotations

from typing import Any

from polypath import _native

from ._aqm import DualPi2, FqCodel, Pie, Red
from ._cells import specimens
from ._elements import BurstLoss, Delay, Loss, RateLimit, Retry, Wireless, chain
from ._kernel import split_cc
from ._question import Question
from ._setup import Cell


def drawing_algorithms() -> frozenset[str]:
    """The congestion controls whose runs differ from seed to seed although nothing on the links
    does.

    They draw random numbers (bbr, bbr3, cdg, cmpbbr, nv), or look at timestamps, which begin at
    random values (lp).
    """
    return frozenset(name for name, *_, draws, _l4s in _native.algorithms() if draws)


def same_for_all_seeds(study: Question) -> str | None:
    """One sentence if a study repeats cells over seeds that can change nothing in them in virtual
    time; None if it does not.
    """
    drawing = drawing_algorithms()
    known = {name for name, *_ in _native.algorithms()}
    every = specimens(study)
    repeated = [cell for cell in every if len(cell.seeds) > 1 and not _draws(cell, drawing, known)]
    if not repeated:
        return None
    where = "here" if len(repeated) == len(every) else f"in {len(repeated)} of {len(every)} cells"
    return (
        f"seeds change nothing {where}, since nothing is drawn at random, so their repetitions are the same run: "
        "`start_spread: 100ms` in a flow draws its start from the seed, and `seeds: 1` runs it once"
    )


def _draws(cell: Cell, drawing: frozenset[str], known: set[str]) -> bool:
    for flow in cell.setup.flows.values():
        bare, _ = split_cc(flow.cc)
        # What only some kernel has may draw as well.
        if flow.start_spread or (flow.transport != "udp" and (bare in drawing or bare not in known)):
            return True
    sides = [side for link in cell.setup.topology.links.values() for side in (link.both, link.forward, link.backward)]
    return any(_chance(element) for side in sides if side is not None for element in chain(side))


def _chance(element: Any) -> bool:
    match element:
        case Wireless() | BurstLoss():
            return True
        case Loss():
            return any(0 < share < 1 for share in (element.share, *(change.to for change in element.changes)))
        case Delay():
            return element.jitter > 0
        case Retry():
            return element.share > 0
        case RateLimit():
            # FQ-CoDel's hash is salted.
            return isinstance(element.aqm, Red | Pie | DualPi2 | FqCodel)
    return False
