"""Files in, plain values out; crates/capture does the work."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from polypath import _native
from polypath.errors import PolypathError


class PcapError(PolypathError, ValueError):
    """A capture cannot be read at all; its text is one sentence."""


def analyse(files: Iterable[str | Path], *, one_end: bool = False) -> dict[str, Any]:
    """What captures say, as crates/capture/src/report.rs describes it: files, connections, and a
    diagnosis of each in sentences.

    Several files are read side by side in the order of their time stamps, so their clocks should
    agree. With `one_end` they were all made at one end, such as those of a tunnel's paths, and a
    connection may be spread over them. A file that is cut off or damaged is told of as far as it
    goes; its entry in "files" says where it breaks, and what packets it has that are not read.

    Raises PcapError if a file cannot be opened, is no capture, or breaks before its first packet.
    """
    names = [str(file) for file in files]
    if len(set(names)) != len(names):
        raise PcapError("a file is named twice, and each of its packets would be seen twice")
    try:
        report: dict[str, Any] = json.loads(_native.analyse_captures(names, one_end))
    except _native.CallerError as error:
        raise PcapError(str(error)) from error
    for file in report["files"]:
        if file["broken"] and not file["packets"]:
            raise PcapError(f"{file['name']}: {file['broken']}")
    return report


def complaints(report: Mapping[str, Any]) -> list[str]:
    """A sentence for each thing that keeps a file from being told of whole: what is not read, what
    is missing, where its clock goes back, where it breaks.
    """
    said = []
    for file in report["files"]:
        if file["unread"]:
            kinds = file["unread_kinds"]
            # One kind needs no number of its own.
            names = [kind["name"] if len(kinds) == 1 else f"{kind['packets']} {kind['name']}" for kind in kinds]
            sentence = f"{file['unread']} of {file['packets']} packets are of a kind that is not read"
            said.append(f"{file['name']}: {sentence} ({'; '.join(names[:_NAMED])}{'; and others' if len(names) > _NAMED else ''})")
        if file.get("missing"):
            said.append(
                f"{file['name']}: by its own count {file['missing']} packets are missing, so what it does not show may have been sent"
            )
        if file.get("clock_back_s", 0) > _BACK_S:
            said.append(
                f"{file['name']}: its times go back by up to {file['clock_back_s']:.3g} s, so delays, rates and shares of time may be wrong"
            )
        if file["broken"]:
            said.append(
                f"{file['name']}: {file['broken']} (byte {file['broken_at_byte']}); {file['packets']} packets before that were read"
            )
    return said


def contents(report: Mapping[str, Any]) -> str:
    """What was read of captures without a TCP connection."""
    kinds: dict[str, int] = {}
    for file in report["files"]:
        for kind in file["kinds"]:
            kinds[kind["name"]] = kinds.get(kind["name"], 0) + kind["packets"]
    if not kinds:
        return "no packets that are read" if any(file["unread"] for file in report["files"]) else "no packets"
    total = sum(kinds.values())
    packets = f"{total} packet{'' if total == 1 else 's'}"
    if len(kinds) == 1:
        return f"{packets}, all {next(iter(kinds))}"
    ordered = sorted(kinds.items(), key=lambda entry: -entry[1])
    return f"{packets}: {', '.join(f'{count} {name}' for name, count in ordered)}"


_NAMED = 6
"""Kinds that a sentence names."""

_BACK_S = 0.005
"""Several processors or interfaces write packets so much out of order."""


def subflow_table(report: dict[str, Any]) -> pa.Table:
    """A row for each subflow and direction."""
    rows = []
    for number, connection in enumerate(report["connections"]):
        for position, subflow in enumerate(connection["subflows"]):
            for sender, direction in zip(("client", "server"), subflow["directions"], strict=True):
                rows.append(
                    {
                        "connection": number,
                        "kind": connection["kind"],
                        "subflow": position,
                        "client": subflow["client"],
                        "server": subflow["server"],
                        "is_join": subflow["is_join"],
                        "backup": subflow["backup"],
                        **_end(subflow["end"]),
                        "sender": sender,
                        **{name: value for name, value in direction.items() if not isinstance(value, dict | list)},
                        **_spread("rtt", direction["rtt"]),
                        **_spread("one_way_delay", direction["one_way_delay"]),
                    }
                )
    return pa.Table.from_pylist(rows)


_SERIES = pa.schema(
    [
        ("connection", pa.int64()),
        ("subflow", pa.int64()),
        ("sender", pa.string()),
        ("bin_s", pa.float64()),
        ("time_s", pa.float64()),
        *[
            (name, pa.uint64())
            for name in (
                "new_bytes",
                "retransmitted_bytes",
                "reinjected_bytes",
                "sent_bytes",
                "acked_bytes",
                "delivered_bytes",
                "in_flight_bytes",
                "window_bytes",
                "dsn",
                "reinjected_dsn",
                "mptcp_retransmitted_dsn",
            )
        ],
        ("rtt_ms", pa.float64()),
    ]
)


def series_table(report: Mapping[str, Any]) -> pa.Table:
    """A row for each span of time in which something happened, of each subflow and direction.

    Rows without a subflow are of a connection's data. The columns are those of
    crates/capture/src/series.rs: times in seconds since the first packet, bytes, and milliseconds.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _SERIES.names}
    for number, connection in enumerate(report["connections"]):
        parts = [
            *((None, side, data["series"]) for side, data in enumerate(connection["data"])),
            *(
                (order, side, sent["series"])
                for order, subflow in enumerate(connection["subflows"])
                for side, sent in enumerate(subflow["directions"])
            ),
        ]
        for path_number, side, series in parts:
            count = len(series["time_s"])
            fixed = {"connection": number, "subflow": path_number, "sender": ("client", "server")[side], "bin_s": series["bin_s"]}
            for name, values in columns.items():
                values += [fixed[name]] * count if name in fixed else series[name]
    return pa.table(columns, schema=_SERIES)


def _end(end: Mapping[str, Any] | None) -> dict[str, Any]:
    names = {"ended": "how", "ended_by": "by", "ended_s": "at_s", "reset_reason": "reason"}
    return {name: None if end is None else end[key] for name, key in names.items()}


def _spread(name: str, spread: dict[str, Any] | None) -> dict[str, float | None]:
    return {f"{name}_{part}_ms": None if spread is None else spread[f"{part}_ms"] for part in ("min", "mean", "p50", "p95", "max")}
