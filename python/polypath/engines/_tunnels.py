"""What the daemons of a run's tunnels counted, with the simulator's meanings
(crates/sim/src/outcome.rs). What they do not tell is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polypath.columns import Declared, columns_of

Json = dict[str, Any]

_TUNNELS, _PATHS = columns_of("tunnels"), columns_of("tunnel_paths")
# Of a path, what its receiver counts; the rest is its sender's.
_RECEIVED = ("packets_received", "bytes_received", "packets_late", "keepalives_received")


def tunnels(scenario: Mapping[str, Any], result: Mapping[str, Any]) -> list[Json]:
    """A row a direction of each tunnel, as the simulator's outcome has them."""
    tables = []
    for tunnel, got in zip(scenario.get("tunnels", ()), result["tunnels"], strict=True):
        for a_to_b in (True, False):
            sender, receiver = got["ends"] if a_to_b else got["ends"][::-1]
            source, destination = ("a", "b") if a_to_b else ("b", "a")
            paths = [
                {"source": path[source], "destination": path[destination], **_path(sent, came)}
                for path, sent, came in zip(tunnel["paths"], sender["status"]["paths"], receiver["status"]["paths"], strict=True)
            ]
            tables.append({"name": tunnel["name"], "a_to_b": a_to_b, **_counters(sender, receiver["status"]), "paths": paths})
    return tables


def _counters(sender: Mapping[str, Any], came: Mapping[str, Any]) -> Json:
    status = sender["status"]
    counters = {
        "queue_drops": sender["queue_drops"],
        "unsent_packets": status["no_path_up"],
        "mtu": status["mtu"],
        "blocked_s": status["daemon"]["blocked_s"],
    }
    if status["fec"] is not None:
        counters |= {**came["fec"], "parities_sent": status["fec"]["parities_sent"]}
    # Packets that wait in the device and at the receiver are not sampled.
    return {column.raw: _raw(column, {**came["reorder"], **counters}) for column in _TUNNELS}


def _path(sent: Mapping[str, Any], came: Mapping[str, Any]) -> Json:
    # A packet that is lost, or late, the daemon counts for all paths together or not at all.
    counters = {**sent, "mtu": sent["mtu"] or 0}  # The daemon says null where it does not search.
    return {column.raw: _raw(column, came if column.name in _RECEIVED else counters) for column in _PATHS}


def _raw(column: Declared, counted: Mapping[str, Any]) -> int | None:
    """A counter in the engines' unit; the daemon's status has the table's."""
    value = counted.get(column.name)
    return None if value is None else round(value * column.divisor)
