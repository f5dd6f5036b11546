"""What somebody else measured of connections, in one form for all tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from polypath.traces import TraceError

MOST_FLOWS = 256
"""Of a measurement."""
MOST_SAMPLES = 500_000
"""Of all subflows of a measurement together."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a sender's socket said at a time; what was not told is None."""

    time_s: float
    cwnd: float | None = None
    """Segments."""
    srtt_ms: float | None = None
    rttvar_ms: float | None = None
    ssthresh: int | None = None
    pacing_bps: float | None = None
    delivery_bps: float | None = None
    bytes_acked: float = 0.0
    retransmissions: int = 0


@dataclass(frozen=True, kw_only=True)
class Subflow:
    """One TCP connection of a flow."""

    source: str = ""
    destination: str = ""
    samples: tuple[Sample, ...] = ()
    bytes_acked: float = 0.0
    retransmissions: int | None = None
    min_rtt_ms: float | None = None
    mss: int = 1448
    pmtu: int = 1500


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One connection of an application."""

    name: str
    upload: bool = True
    transport: str = "tcp"
    cc: str | None = None
    received: tuple[tuple[float, float], ...]
    """Times since its beginning, s, and the bytes that had arrived by then; both grow."""
    subflows: tuple[Subflow, ...] = ()

    @property
    def length(self) -> float:
        return self.received[-1][0]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A measurement: its flows, and what was understood, a sentence each."""

    tool: str
    flows: tuple[Flow, ...]
    said: tuple[str, ...] = field(default=())


def checked(file: Path, tool: str, flows: Sequence[Flow], said: Iterable[str] = ()) -> Measured:
    """A measurement with names that a study can have. Raises `TraceError` for one without a flow, or
    with too many.
    """
    if not flows:
        raise TraceError(f"{file}: no flow was measured in it")
    if len(flows) > MOST_FLOWS:
        raise TraceError(f"{file}: {len(flows)} flows are too many; the most is {MOST_FLOWS}")
    samples = sum(len(subflow.samples) for flow in flows for subflow in flow.subflows)
    if samples > MOST_SAMPLES:
        raise TraceError(f"{file}: {samples:,} samples are too many; the most is {MOST_SAMPLES:,}: measure less often, or cut the file")
    for flow in flows:
        if len(flow.received) < 2 or flow.length <= 0:
            raise TraceError(f"{file}: nothing was measured of {flow.name} for any time")
    names = [flow.name for flow in flows]
    if len(set(names)) < len(names):
        raise TraceError(f"{file}: two flows are called {next(name for name in names if names.count(name) > 1)}")
    return Measured(tool=tool, flows=tuple(flows), said=tuple(said))


def ascending(file: Path, times: Sequence[float], what: str) -> None:
    """Raises `TraceError` where a time is not later than the one before it."""
    for earlier, later in pairwise(times):
        if later <= earlier:
            raise TraceError(f"{file}: {what}: the time {later:g} stands after {earlier:g}; times ascend")


def named(text: str) -> str:
    """A name for a flow: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._") or "flow"


def accumulated(rates: Iterable[tuple[float, float, float | None]]) -> tuple[tuple[float, float], ...]:
    """Bytes so far, of spans from a time to a time with their bit/s; one without a rate carried
    nothing that is known.
    """
    points = [(0.0, 0.0)]
    for begins, ends, rate in rates:
        if ends <= points[-1][0]:
            continue
        points.append((ends, points[-1][1] + (rate or 0.0) / 8 * (ends - max(begins, points[-1][0]))))
    return tuple(points)


def figure(file: Path, value: Any, what: str) -> float:
    """A number, zero or more, as JSON has it or as a text."""
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise TraceError(f"{file}: {what} should be a number, and is {str(value)[:40]!r}") from None
    if not 0 <= number < 1e15:
        raise TraceError(f"{file}: {what} should be a number from 0 on, and is {number:g}")
    return number


def optional(file: Path, part: Mapping[str, Any], name: str, scale: float = 1.0) -> float | None:
    """A number of a part of some JSON, or None where there is none."""
    return None if part.get(name) is None else figure(file, part[name], f"`{name}`") * scale
