"""Simulated against measured: one verdict a cell, and one on the smoothed round-trip time of each
cell without random loss.

The rule: means over the same repeats agree when they differ by at most 10 % of Linux's, or by at
most the largest distance of one of Linux's repeats from Linux's mean.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from polypath.validate._ids import Setup
from polypath.validate._table import Cell

TOLERANCE = 0.10
SRTT_TOLERANCE = 0.15
# What decimal fractions in a CSV may lose.
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """`agrees` is None where the cell could not be simulated; `why` then says the reason."""

    cell: Cell
    sim_mbps: float | None = None
    agrees: bool | None = None
    why: str | None = None
    # First subflow's mean smoothed round-trip time, Linux's and ours; None with random loss or
    # where Linux has no figure.
    linux_srtt_ms: float | None = None
    sim_srtt_ms: float | None = None
    # The flow's part of the simulator's outcome, a repeat each.
    outcomes: tuple[dict[str, Any], ...] = ()

    @property
    def error(self) -> float | None:
        """Relative: 0.05 is 5 % above Linux."""
        return _relative(self.sim_mbps, self.cell.mbps)

    @property
    def srtt_error(self) -> float | None:
        return _relative(self.sim_srtt_ms, self.linux_srtt_ms)

    @property
    def srtt_agrees(self) -> bool | None:
        return None if self.srtt_error is None else abs(self.srtt_error) <= SRTT_TOLERANCE + _ROUNDING


def _relative(ours: float | None, linux: float | None) -> float | None:
    return None if ours is None or not linux else (ours - linux) / linux


def judge(cell: Cell, outcomes: list[dict[str, Any]] | str) -> Verdict:
    """`outcomes`: the simulator's outcome of each of the cell's repeats, or why there is none."""
    if cell.why or isinstance(outcomes, str):
        return Verdict(cell=cell, why=cell.why or str(outcomes))
    flows = tuple(next(flow for flow in outcome["flows"] if flow["name"] == cell.flow) for outcome in outcomes)
    if any(flow["established_ns"] is None for flow in flows):
        return Verdict(cell=cell, sim_mbps=0.0, agrees=False, why="the simulated connection was never established", outcomes=flows)
    if any(setup.bytes and not flow["completion_ns"] for setup, flow in zip(cell.setups, flows, strict=True)):
        return Verdict(cell=cell, sim_mbps=0.0, agrees=False, why="the simulated transfer did not finish", outcomes=flows)
    ours = fmean(mbps(setup, flow) for setup, flow in zip(cell.setups, flows, strict=True))
    allowed = max(TOLERANCE * cell.mbps, cell.spread)
    why = []
    linux_completion = [row.completion_s for row in cell.rows if row.completion_s is not None]
    if linux_completion:
        why.append(f"completion {fmean(flow['completion_ns'] for flow in flows) / 1e9:.3f} s, Linux {fmean(linux_completion):.3f} s")
    linux_srtt, sim_srtt = _srtt(cell, flows)
    agrees = abs(ours - cell.mbps) <= allowed + _ROUNDING
    if not agrees and cell.spread > TOLERANCE * cell.mbps:
        why.append(f"Linux's own repeats spread by {cell.spread:.2f} Mbit/s")
    elif agrees and abs(ours - cell.mbps) > TOLERANCE * cell.mbps + _ROUNDING:
        why.append(f"within the spread of Linux's repeats, {cell.spread:.2f} Mbit/s")
    return Verdict(
        cell=cell, sim_mbps=ours, agrees=agrees, why="; ".join(why) or None, linux_srtt_ms=linux_srtt, sim_srtt_ms=sim_srtt, outcomes=flows
    )


def mbps(setup: Setup, flow: dict[str, Any]) -> float:
    """A transfer's goodput is its size over its completion time, any other's what the receiver read
    within the window; 0 if none stood.
    """
    if flow["established_ns"] is None or (setup.bytes and not flow["completion_ns"]):
        return 0.0
    return float(setup.bytes * 8e3 / flow["completion_ns"] if setup.bytes else flow["goodput_receiver_bps"] / 1e6)


def _srtt(cell: Cell, flows: tuple[dict[str, Any], ...]) -> tuple[float | None, float | None]:
    linux = [row.subflows[0].srtt_ms for row in cell.rows if row.subflows]
    if any(setup.lossy for setup in cell.setups) or not linux or None in linux:
        return None, None
    ours = [
        subflow["mean_srtt_us"] / 1000
        for row, flow in zip(cell.rows, flows, strict=True)
        for subflow in [find_subflow(flow, row.subflows[0].source, 0)]
        if subflow
    ]
    return fmean(value for value in linux if value is not None), fmean(ours) if ours else None


def find_subflow(flow: dict[str, Any], source: str, index: int) -> dict[str, Any] | None:
    """The simulated subflow from this source address; the index-th where several share it, or where
    addresses were given out otherwise.
    """
    subflows: list[dict[str, Any]] = flow["subflows"]
    same = [subflow for subflow in subflows if subflow["source"].split(":")[0] == source]
    if len(same) == 1:
        return same[0]
    candidates = same or subflows
    return candidates[index] if index < len(candidates) else None


def count(verdicts: list[Verdict]) -> tuple[int, int]:
    """How many of the simulated cells agree, and how many there are."""
    judged = [verdict.agrees for verdict in verdicts if verdict.agrees is not None]
    return sum(judged), len(judged)


def count_srtt(verdicts: list[Verdict]) -> tuple[int, int]:
    judged = [verdict.srtt_agrees for verdict in verdicts if verdict.srtt_agrees is not None]
    return sum(judged), len(judged)
