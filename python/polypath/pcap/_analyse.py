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
    """What captures say, as crates/capture/src/report.rs describes it: files, connections, and a diagnosis of each in sentences.

    Several files are read side by side in the order of their time stamps, so their clocks should agree. With `one_end` they were all made
    at one end, such as those of a tunnel's paths, and a connection may be spread over them. A file that is cut off or damaged is told of
    as far as it goes; its entry in "files" says where it breaks.

    Raises PcapError if a file cannot be opened, or is no capture from its first byte on.
    """
    names = [str(file) for file in files]
    if len(set(names)) != len(names):
        raise PcapError("a file is named twice, and each of its packets would be seen twice")
    try:
        report: dict[str, Any] = json.loads(_native.analyse_captures(names, one_end))
    except _native.CallerError as error:
        raise PcapError(str(error)) from error
    for file in report["files"]:
        if file["broken_at_byte"] == 0 and not file["packets"]:
            raise PcapError(f"{file['name']}: {file['broken']}")
    return report


def subflow_table(report: dict[str, Any]) -> pa.Table:
    """A row for each subflow and direction."""
    rows = []
    for number, connection in enumerate(report["connections"]):
        for place, subflow in enumerate(connection["subflows"]):
            for sender, direction in zip(("client", "server"), subflow["directions"], strict=True):
                rows.append(
                    {
                        "connection": number,
                        "kind": connection["kind"],
                        "subflow": place,
                        "client": subflow["client"],
                        "server": subflow["server"],
                        "is_join": subflow["is_join"],
                        "backup": subflow["backup"],
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
                "in_flight_bytes",
                "window_bytes",
                "dsn",
                "reinjected_dsn",
            )
        ],
        ("rtt_ms", pa.float64()),
    ]
)


def series_table(report: Mapping[str, Any]) -> pa.Table:
    """A row for each span of time in which something happened, of each subflow and direction.

    Rows without a subflow are of a connection's data. The columns are those of crates/capture/src/series.rs: times in seconds since the
    first packet, bytes, and milliseconds.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _SERIES.names}
    for number, connection in enumerate(report["connections"]):
        parts = [
            *((None, side, data["series"]) for side, data in enumerate(connection["data"])),
            *(
                (place, side, sent["series"])
                for place, each in enumerate(connection["subflows"])
                for side, sent in enumerate(each["directions"])
            ),
        ]
        for place, side, series in parts:
            count = len(series["time_s"])
            fixed = {"connection": number, "subflow": place, "sender": ("client", "server")[side], "bin_s": series["bin_s"]}
            for name, values in columns.items():
                values += [fixed[name]] * count if name in fixed else series[name]
    return pa.table(columns, schema=_SERIES)


def _spread(name: str, spread: dict[str, Any] | None) -> dict[str, float | None]:
    return {f"{name}_{part}_ms": None if spread is None else spread[f"{part}_ms"] for part in ("min", "mean", "p50", "p95", "max")}
