"""What the captures of a run say of its subflows: sizes of segments, and ICMP. Found once by
`polypath.pcap`, then kept with the run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from polypath.pcap import PcapError, analyse
from polypath.study import Run

from ._captures import place
from ._store import Store

# Raise it when a figure below is found in another way: what is kept is then found anew.
FORMAT = 3
_FILE = "captured.json"

COLUMNS: dict[str, pa.DataType] = {
    "captured_segments": pa.int64(),
    "segment_usual_bytes": pa.int64(),
    "segment_mean_bytes": pa.float64(),
    "segment_max_bytes": pa.int64(),
    "packet_max_acked_bytes": pa.int64(),
    "icmp_too_big": pa.int64(),
}
"""Of each subflow, what its sender sent; null where nothing was captured."""

FLOW_COLUMNS: dict[str, pa.DataType] = {"captured_segments": pa.int64(), "segment_mean_bytes": pa.float64(), "icmp_too_big": pa.int64()}
"""Of each connection, over its subflows."""

Figures = dict[str, Any]


def captured(store: Store, run: Run) -> list[Figures]:
    """Both directions of the subflows that the captures of a finished run show, with the addresses;
    none where nothing was captured.
    """
    if not run.scenario.get("captures"):
        return []
    kept = _read_kept(store, run)
    if kept is not None:
        return kept
    files = sorted(place(store.folder.parent, run).glob("*.pcapng"))
    if not files:
        return []
    subflows = _analysed(files)
    store.add(run.key, _FILE, json.dumps({"format": FORMAT, "subflows": subflows}).encode())
    return subflows


def captures_are_there(store: Store, run: Run) -> bool:
    """Whether a finished run that captures has its files, or what they said if they were not to be
    kept; or captures nothing.
    """
    if not run.scenario.get("captures") or place(store.folder.parent, run).is_dir():
        return True
    return not run.keeps_captures and _read_kept(store, run) is not None


def _read_kept(store: Store, run: Run) -> list[Figures] | None:
    """What was found before, in the same way."""
    kept = store.read(run.key, _FILE)
    if kept is None:
        return None
    try:
        fields = json.loads(kept)
        whole = fields["format"] == FORMAT and all(map(_is_whole, fields["subflows"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        # It was damaged: the captures still say it.
        return None
    return list(fields["subflows"]) if whole else None


def _is_whole(figures: Mapping[str, Any]) -> bool:
    numbers = (figures[name] for name in COLUMNS)
    ends = (figures["source"], figures["destination"])
    return all(isinstance(end, str) for end in ends) and all(isinstance(number, int | float | None) for number in numbers)


def _analysed(files: Sequence[Path]) -> list[Figures]:
    try:
        report = analyse(files)
    except PcapError:
        # A capture without a packet of TCP is none that says anything here.
        return []
    subflows = [subflow for connection in report["connections"] for subflow in connection["subflows"]]
    ends = (("client", "server"), ("server", "client"))
    return [_figures(subflow, *pair, sent) for subflow in subflows for pair, sent in zip(ends, subflow["directions"], strict=True)]


def _figures(subflow: Mapping[str, Any], sender: str, receiver: str, sent: Mapping[str, Any]) -> Figures:
    sizes = {int(size): int(count) for size, count in sent["sizes"] if size}
    segments = sum(sizes.values())
    return {
        "source": subflow[sender],
        "destination": subflow[receiver],
        "captured_segments": segments,
        # Of several that are equally frequent, the largest.
        "segment_usual_bytes": max(sizes, key=lambda size: (sizes[size], size)) if sizes else None,
        "segment_mean_bytes": sum(size * count for size, count in sizes.items()) / segments if segments else None,
        "segment_max_bytes": max(sizes, default=None),
        "packet_max_acked_bytes": sent["pmtu_seen"] or None,
        "icmp_too_big": sum(message["count"] for message in subflow["icmp"] if message["about"] == sender and _too_big(message)),
    }


def _too_big(message: Mapping[str, Any]) -> bool:
    """Whether an ICMP error says that a packet was too long: RFC 792 page 4, RFC 4443 section 3.2."""
    said: tuple[str, int, int] = (message["protocol"], message["kind"], message["code"])
    return said == ("ICMP", 3, 4) or said[:2] == ("ICMPv6", 2)


def matched(rows: Sequence[Mapping[str, Any]], subflows: Sequence[Figures]) -> list[Figures]:
    """For each row of a run's table of subflows, its figures; no figures where it cannot be told
    which captured subflow it is.

    Kernels name ports, and then a row has the subflow with its two ends. The simulator's rows have
    addresses alone. There the subflows of one flow between the same two addresses stand in the
    order in which they began, and of several flows they cannot be told apart.
    """
    by_ends = {(subflow["source"], subflow["destination"]): subflow for subflow in subflows}
    between: dict[tuple[str, str], list[Figures]] = defaultdict(list)
    for subflow in subflows:
        between[_address(subflow["source"]), _address(subflow["destination"])].append(subflow)
    asking: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        asking[_address(row["source"]), _address(row["destination"])].append(index)
    figures: list[Figures] = [{} for _ in rows]
    for ends, asking_rows in asking.items():
        theirs, one_flow = between[ends], len({rows[index]["flow"] for index in asking_rows}) == 1
        for number, index in enumerate(asking_rows):
            exact = by_ends.get((rows[index]["source"], rows[index]["destination"]))
            if exact is not None:
                figures[index] = exact
            elif one_flow and len(theirs) == len(asking_rows):
                figures[index] = theirs[number]
    return figures


def _address(end: str) -> str:
    """An end without its port."""
    return end.rpartition(":")[0] if "." in end and ":" in end else end


def of_connection(subflows: Sequence[Figures]) -> Figures:
    """The figures of a connection: sums over its captured subflows, and the mean over all their
    segments.
    """
    if not subflows:
        return {}
    segments = sum(subflow["captured_segments"] for subflow in subflows)
    payload = sum(subflow["captured_segments"] * (subflow["segment_mean_bytes"] or 0) for subflow in subflows)
    return {
        "captured_segments": segments,
        "segment_mean_bytes": payload / segments if segments else None,
        "icmp_too_big": sum(subflow["icmp_too_big"] for subflow in subflows),
    }
