"""Flent's data files: its series of TCP as flows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from polypath.traces import TraceError, text_of

from ._model import Flow, Measured, Sample, Subflow, accumulated, ascending, checked, figure, named

_SOCKET = ("cwnd", "rtt", "rtt_var", "pacing_rate", "delivery_rate")
_NOT_FLOWS = re.compile(r"\b(avg|sum|totals?)$")


def of_flent(file: Path, text: str | None = None) -> Measured:
    """What Flent measured; Raises `TraceError` with the file."""
    try:
        tree = json.loads(text_of(file) if text is None else text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{file}: this is no data file of Flent: {error}") from None
    match tree:
        case {"metadata": dict(metadata), "results": dict(results), "x_values": list(times)}:
            pass
        case _:
            raise TraceError(f"{file}: this is no data file of Flent: it lacks `metadata`, `results` or `x_values`")
    at = [figure(file, time, "`x_values`") for time in times]
    ascending(file, at, "`x_values`")
    described = metadata.get("SERIES_META") if isinstance(metadata.get("SERIES_META"), dict) else {}
    assert isinstance(described, dict)
    parameters = metadata.get("TEST_PARAMETERS")
    cc = parameters.get("tcp_cong_control") if isinstance(parameters, dict) else None
    flows, left, holes = [], [], []
    for series, values in results.items():
        if "::tcp_" in series or _NOT_FLOWS.search(series):
            continue
        meta = described.get(series)
        unit = meta.get("UNITS") if isinstance(meta, dict) else None
        if "TCP" in series and isinstance(unit, str) and unit != "Mbits/s" and re.search(r"(bit|byte)s?/s", unit, re.IGNORECASE):
            raise TraceError(f"{file}: the series {series} is in {unit[:20]}, and those of Flent are read in Mbits/s")
        if not re.search(r"\bTCP (up|down)", series) or unit not in ("Mbits/s", None) or not isinstance(values, list):
            left.append(series)
            continue
        if len(values) != len(at):
            raise TraceError(f"{file}: the series {series} has {len(values)} values for {len(at)} times")
        if all(value is None for value in values):
            left.append(series)
            continue
        inside = "".join("-" if value is None else "x" for value in values).strip("-")
        if missing := inside.count("-"):
            holes.append(f"beware: {missing} of {len(inside)} values of {series} are missing, and count as nothing received")
        flows.append(_flow(file, series, at, values, results, cc if isinstance(cc, str) else None))
    said = [f"Flent's test {metadata.get('NAME', '?')}: {len(flows)} flows of TCP"]
    said += [f"left out, since they are no TCP flows: {', '.join(left[:4])}{' and others' if len(left) > 4 else ''}"] if left else []
    return checked(file, "flent", flows, [*said, *holes])


def _flow(file: Path, series: str, at: list[float], values: list[Any], results: dict[str, Any], cc: str | None) -> Flow:
    rates = [None if value is None else figure(file, value, series) * 1e6 for value in values]
    first = next(number for number, rate in enumerate(rates) if rate is not None)
    # A rate is that of the time before it.
    steps = [(at[number - 1] if number else 0.0, at[number], rates[number]) for number in range(first, len(at))]
    last = max(number for number, rate in enumerate(rates) if rate is not None)
    begins = steps[0][0]
    received = accumulated((since - begins, to - begins, rate) for since, to, rate in steps[: last - first + 1])
    columns = {name: _values(file, results, f"{series}::tcp_{name}", len(at)) for name in _SOCKET}
    samples = []
    acked = dict(received)
    for number in range(first, last + 1):
        time = at[number] - begins
        figures = {name: each[number] for name, each in columns.items()}
        if any(value is not None for value in figures.values()):
            mbps = {name: None if figures[name] is None else figures[name] * 1e6 for name in ("pacing_rate", "delivery_rate")}
            samples.append(
                Sample(
                    time_s=time,
                    cwnd=figures["cwnd"],
                    srtt_ms=figures["rtt"],
                    rttvar_ms=figures["rtt_var"],
                    pacing_bps=mbps["pacing_rate"],
                    delivery_bps=mbps["delivery_rate"],
                    bytes_acked=acked.get(time, 0.0),
                )
            )
    rtts = [sample.srtt_ms for sample in samples if sample.srtt_ms]
    subflow = Subflow(samples=tuple(samples), bytes_acked=received[-1][1], min_rtt_ms=min(rtts, default=None))
    return Flow(name=named(series.replace("TCP ", "")), upload="TCP up" in series, cc=cc, received=received, subflows=(subflow,))


def _values(file: Path, results: dict[str, Any], name: str, count: int) -> list[Any]:
    values = results.get(name)
    if not isinstance(values, list) or len(values) != count:
        return [None] * count
    return [None if value is None else figure(file, value, name) for value in values]
