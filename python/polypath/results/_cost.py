"""What a study would cost before it runs: simulated time, packets, and space for the results."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from polypath.sweep import weight

from ._plan import Plan

# Runs that are looked at.
_RUNS = 2_000
# A full packet.
_BITS_A_PACKET = 12_000


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What the runs of a plan that are not finished cost."""

    simulated_s: float
    # That links carry if all of them are full all the time, which is the most.
    packets: float
    # Of the results; None before any run of the study has finished.
    bytes: float | None


def cost(plan: Plan) -> Cost:
    """What is still to run; of many runs it is scaled from the first ones."""
    some = list(itertools.islice(plan.waiting(), _RUNS))
    scale = plan.expected / len(some) if some else 0.0
    mean = plan.store.mean_bytes()
    return Cost(
        simulated_s=scale * sum(run.scenario["duration_ns"] for run in some) / 1e9,
        packets=scale * sum(map(weight, some)) / 1e9 / _BITS_A_PACKET,
        bytes=None if mean is None else plan.expected * mean,
    )
