"""What captures tell of the paths that they saw: how much was carried, the least round-trip time,
what was sent again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._errors import AdviceError
from ._paths import MIN_RATE, MOST_PATHS, Path, Span

# A path carries at least what was seen on it, and hardly this much more where one connection filled
# it.
MORE = 1.25
# Too few to tell a path by.
_FEWEST_BYTES = 100_000
_SIDES = ("client", "server")


def paths_in(report: Mapping[str, Any]) -> tuple[list[Path], list[str]]:
    """A path for each subflow of the connection that carried most, and notes on what a capture
    cannot know.

    `report` is what `polypath.pcap.analyse` gives. Raises `AdviceError` where it says too little.
    """
    connections = [connection for connection in report["connections"] if any(_bytes(subflow) for subflow in connection["subflows"])]
    if not connections:
        raise AdviceError("--from-capture: no connection of TCP or MPTCP carried data there; capture while something is sent")
    most = max(connections, key=lambda connection: sum(_bytes(subflow) for subflow in connection["subflows"]))
    subflows = [subflow for subflow in most["subflows"] if _bytes(subflow) >= _FEWEST_BYTES][:MOST_PATHS]
    if not subflows:
        raise AdviceError(
            f"--from-capture: its largest connection carried {sum(map(_bytes, most['subflows']))} bytes, too few to tell a path by; "
            f"at least {_FEWEST_BYTES} on a path are needed"
        )
    notes = [
        f"{most['kind']}: of {len(report['connections'])} connections the one that carried most; its subflows are the paths",
        f"a capture shows what was carried: a path's rate is taken as that to {100 * (MORE - 1):.0f} % more",
        "what was sent again, by a full queue too, is taken as the most that a path loses by itself",
    ]
    paths = []
    for number, subflow in enumerate(subflows, start=1):
        paths.append(_path(subflow, number, notes))
    return paths, notes


def _path(subflow: Mapping[str, Any], number: int, notes: list[str]) -> Path:
    sides = [_side(direction) for direction in subflow["directions"]]
    name = f"path{number}"
    main = max((0, 1), key=lambda side: subflow["directions"][side]["bytes"])
    times = next((direction["rtt"] for direction in (subflow["directions"][main], *subflow["directions"]) if direction["rtt"]), None)
    if times is None:
        raise AdviceError(
            f"--from-capture: no round-trip time of {_ends(subflow)} is known; capture at the side that sends, or describe it with --path"
        )
    other = 1 - main
    if subflow["directions"][other]["bytes"] < _FEWEST_BYTES:
        # Not measured: between a tenth and as much, as access lines are.
        sides[other] = Span(low=max(sides[main].low / 10, MIN_RATE), high=sides[main].high)
        sender = _SIDES[other]
        notes.append(f"{name}: the {sender} sent nothing to speak of, so that its rate is taken as a tenth of the other's to as much")
    least = times["min_ms"] * 1e6
    wait = max(times["p95_ms"] * 1e6 - least, 5e6)
    again = subflow["directions"][main]
    lost = min(again["retransmissions"] / again["segments"], 0.5) if again["segments"] else 0.0
    notes.append(f"{name}: {_ends(subflow)}")
    return Path(
        name=name,
        # The client is the host whose paths these are.
        down=sides[1],
        up=sides[0],
        rtt=Span(low=least, high=least),
        loss=Span(low=0.0, high=round(lost, 5)),
        queue=Span(low=wait, high=2 * wait),
        address=_address(subflow["client"]),
    )


def _address(end: str) -> str | None:
    """Of IPv4, without its port."""
    address = end.rpartition(":")[0]
    return address if address.count(".") == 3 and ":" not in address else None


def _side(direction: Mapping[str, Any]) -> Span:
    seen = max(float(direction["goodput_bps"]), MIN_RATE)
    return Span(low=seen, high=MORE * seen)


def _bytes(subflow: Mapping[str, Any]) -> int:
    return sum(int(direction["bytes"]) for direction in subflow["directions"])


def _ends(subflow: Mapping[str, Any]) -> str:
    return f"{subflow['client']} to {subflow['server']}"
