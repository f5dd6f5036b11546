"""What the paths are for: each use is a flow of the study and one figure by which it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from polypath.study import unknown

from ._errors import AdviceError


@dataclass(frozen=True, kw_only=True)
class Use:
    name: str
    what: str
    figure: str
    unit: str
    better: Literal["higher", "lower"]
    flow: Mapping[str, Any]
    """Without what all flows of its transport share."""
    sender: Literal["host", "server", "both"]
    bulk: bool = False
    least_bps: int = 0
    """What it asks of the first path both ways, headers included; below that no setting makes it a
    call.
    """

    @property
    def datagrams(self) -> bool:
        return self.flow.get("transport") == "udp"


USES = (
    Use(
        name="download",
        what="one connection on which the server sends as fast as it can",
        figure="goodput",
        unit="Mbit/s",
        better="higher",
        # The side that sends opens the connection, since every engine can do that.
        flow={"client": "server", "server": "host"},
        sender="server",
        bulk=True,
    ),
    Use(
        name="upload",
        what="one connection on which the host sends as fast as it can",
        figure="goodput",
        unit="Mbit/s",
        better="higher",
        flow={"client": "host", "server": "server"},
        sender="host",
        bulk=True,
    ),
    Use(
        name="call",
        what="a voice call: datagrams of 160 bytes at 100 kbit/s both ways, over the first path",
        figure="delay p95",
        unit="ms",
        better="lower",
        flow={
            "client": "host",
            "server": "server",
            "transport": "udp",
            "direction": "both",
            "datagram": "160B",
            "app": {"kind": "constant", "rate": "100kbit"},
        },
        sender="both",
    ),
    Use(
        name="videocall",
        what="datagrams of 1200 bytes at 1.5 Mbit/s both ways, over the first path",
        figure="delay p95",
        unit="ms",
        better="lower",
        flow={
            "client": "host",
            "server": "server",
            "transport": "udp",
            "direction": "both",
            "datagram": "1200B",
            "app": {"kind": "constant", "rate": "1500kbit"},
        },
        sender="both",
        least_bps=1_600_000,
    ),
    Use(
        name="stream",
        what="a live video of 2.5 Mbit/s from the server, on a connection",
        figure="delay p95",
        unit="ms",
        better="lower",
        flow={"client": "server", "server": "host", "app": {"kind": "constant", "rate": "2500kbit"}},
        sender="server",
    ),
    Use(
        name="web",
        what="responses of 50 KB from the server, each asked for 500 ms after the one before",
        figure="response p50",
        unit="ms",
        better="lower",
        flow={"client": "host", "server": "server", "app": {"kind": "requests", "response": "50KB", "pause": "500ms"}},
        sender="server",
    ),
)
_BY_NAME = {use.name: use for use in USES}


def weighted(text: str) -> dict[str, float]:
    """The uses that `--for download=2,call=1` names, with their weights, which sum up to one.

    Raises `AdviceError` with one sentence.
    """
    weights: dict[str, float] = {}
    for part in (part.strip() for part in text.split(",")):
        name, equals, written = (side.strip() for side in part.partition("="))
        if not name:
            raise AdviceError(f'--for "{text}" names no use; write one or several of {", ".join(_BY_NAME)}, like "download=2,call=1"')
        if name not in _BY_NAME:
            raise AdviceError(f"--for: {unknown('use', name, _BY_NAME)}")
        if name in weights:
            raise AdviceError(f'--for: "{name}" stands there twice: give it one weight')
        weights[name] = _weight(part, written) if equals else 1.0
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _weight(part: str, written: str) -> float:
    try:
        weight = float(written)
    except ValueError:
        weight = -1.0
    if not 0 < weight <= 1000:
        raise AdviceError(f'--for: "{part}" has no weight: write a number above 0, like "{part.partition("=")[0]}=2"')
    return weight


def use(name: str) -> Use:
    return _BY_NAME[name]


# A flow that brought nothing over, as if it had brought this much: logarithms know no zero.
_NOTHING_MBPS = 1e-3


def value(use: Use, outcome: Mapping[str, Any], seconds: float) -> float:
    """The figure of a use in the outcome of a run that lasted so long.

    Where nothing arrived the delay counts as the whole run.
    """
    flows = [flow for flow in outcome["flows"] if flow["name"] in (use.name, f"{use.name}-up", f"{use.name}-down")]
    if use.bulk:
        return max(sum(float(flow["goodput_receiver_bps"]) for flow in flows) / 1e6, _NOTHING_MBPS)
    return max(_delay_ms(flow, use.name) or seconds * 1e3 for flow in flows)


FREE_LOSS = 0.01
"""So much lost costs an application of datagrams nothing."""


_LOSS = " loss"


def lost(name: str) -> str:
    """What the share that a use of datagrams loses is called beside its figure."""
    return f"{name}{_LOSS}"


def is_lost(name: str) -> bool:
    return name.endswith(_LOSS)


def figures(weights: Mapping[str, float], outcome: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """The figure of each use in the outcome of a run, and what those of datagrams lose, of the worse
    direction.
    """
    values = {name: value(use(name), outcome, seconds) for name in weights}
    for name in weights:
        if use(name).datagrams:
            values[lost(name)] = max(
                (_loss(flow.get("datagrams") or {}) for flow in outcome["flows"] if flow["name"] in (name, f"{name}-up", f"{name}-down")),
                default=0.0,
            )
    return values


def _loss(datagrams: Mapping[str, Any]) -> float:
    return float(datagrams.get("loss") or 0.0) if datagrams.get("delay") else 1.0


def _delay_ms(flow: Mapping[str, Any], name: str) -> float | None:
    if use(name).datagrams:
        spread, part = (flow.get("datagrams") or {}).get("delay"), "p95_ns"
    elif name == "web":
        spread, part = (flow.get("responses") or {}).get("time"), "p50_ns"
    else:
        spread, part = flow.get("byte_delay"), "p95_ns"
    return float(spread[part]) / 1e6 if spread else None
