"""Files in, plain values out; crates/capture does the work."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from polypath import _native


class PcapError(ValueError):
    """A capture cannot be read at all; its text is one sentence."""


def analyse(files: Iterable[str | Path]) -> dict[str, Any]:
    """What captures say, as crates/capture/src/report.rs describes it: files, connections, and a diagnosis of each in sentences.

    Several files are read side by side in the order of their time stamps, so their clocks should agree. A file that is cut off or damaged
    is told of as far as it goes; its entry in "files" says where it breaks.

    Raises PcapError if a file cannot be opened, or is no capture from its first byte on.
    """
    names = [str(file) for file in files]
    if len(set(names)) != len(names):
        raise PcapError("a file is named twice, and each of its packets would be seen twice")
    try:
        report: dict[str, Any] = json.loads(_native.analyse_captures(names))
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


def _spread(name: str, spread: dict[str, Any] | None) -> dict[str, float | None]:
    return {f"{name}_{part}_ms": None if spread is None else spread[f"{part}_ms"] for part in ("min", "mean", "p50", "p95", "max")}
