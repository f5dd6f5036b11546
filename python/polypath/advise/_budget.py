"""What a search may cost, counted in packets that the links could carry: no clock decides, so the
answer is the same everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from polypath.study import Time

from ._errors import AdviceError
from ._study import Question

_PACKET_BITS = 12_000
# What a second on two cores is good for; one of 2026 simulates more.
_PACKETS_PER_S = 4_000_000
# Setting a run up costs as much as so many packets.
_SET_UP = 20_000
_RUNS = re.compile(r"^\s*(\d{1,9})\s*runs?\s*$")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """So many runs, in words as the person wrote them."""

    runs: int
    written: str


def run_cost(question: Question) -> int:
    """Packets of full size that the paths could carry in a run, as far as some use fills them, and
    what setting it up costs.
    """
    return int(question.filled_bps * question.seconds[1] / _PACKET_BITS) + _SET_UP


def budget(text: str, question: Question) -> Budget:
    """How many runs `--budget TEXT` allows for this question: "2min" as two cores have them, or
    "500runs".

    Raises `AdviceError` with one sentence.
    """
    if counted := _RUNS.match(text):
        return Budget(runs=int(counted[1]), written=text)
    try:
        seconds = Time(text).seconds
    except ValueError as error:
        raise AdviceError(f'--budget: {error}, or a number of runs like "500runs"') from None
    return Budget(runs=int(seconds * _PACKETS_PER_S / run_cost(question)), written=text)


def written(runs: int, question: Question) -> str:
    """A budget that allows so many runs, for a sentence."""
    seconds = -(-runs * run_cost(question) // _PACKETS_PER_S)
    return f"{seconds}s" if seconds < 120 else f"{-(-seconds // 60)}min"
