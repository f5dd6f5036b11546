"""What a setting costs others: the harm to a TCP connection on each path (Ware et al., HotNets
2019; docs/concepts/fairness.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._study import NEIGHBOUR

Goodputs = Mapping[int, float]
"""Of the neighbours of one run, by the number of their path."""


@dataclass(frozen=True, kw_only=True)
class Harm:
    """Share of its goodput that the neighbour on each path loses, the mean over networks."""

    by_path: tuple[float, ...]

    @property
    def worst(self) -> float:
        return max(self.by_path)


def goodputs(outcome: Mapping[str, Any]) -> Goodputs:
    return {
        int(flow["name"].removeprefix(NEIGHBOUR)): float(flow["goodput_receiver_bps"])
        for flow in outcome["flows"]
        if flow["name"].startswith(NEIGHBOUR)
    }


def harm(beside: Sequence[Goodputs], alone: Sequence[Goodputs]) -> Harm:
    """From the same networks with a setting and without it. A neighbour that has nothing by itself
    loses nothing.
    """
    places = sorted(alone[0])
    return Harm(
        by_path=tuple(
            _mean([_loss(with_it[path], by_itself[path]) for with_it, by_itself in zip(beside, alone, strict=True)]) for path in places
        )
    )


def _loss(beside: float, alone: float) -> float:
    return (alone - beside) / alone if alone > 0 else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
