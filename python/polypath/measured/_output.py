"""A measurement as the outcome of a run (crates/sim/src/outcome.rs has the meanings); what was not
measured is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from polypath import _native
from polypath.columns import columns_of
from polypath.engines import Output
from polypath.study import Time, split_cc
from polypath.traces import TraceError

from ._model import Flow, Measured, Subflow

_STEP_S = 0.1
# What a measurement may end before its window without a word.
_CLOSE_S = 0.5
_UNKNOWN_SSTHRESH = 0x7FFF_FFFF


def output(name: str, measured: Measured, scenario: Mapping[str, Any]) -> Output:
    """Raises `TraceError` where the scenario has other flows than were measured."""
    described = scenario["flows"]
    if len(described) != len(measured.flows):
        had = ", ".join(flow.name for flow in measured.flows)
        raise TraceError(f"{name}: {len(measured.flows)} flows were measured ({had}), and the study has {len(described)}")
    pairs = _pairs(measured, scenario)
    end_ns = scenario["duration_ns"]
    outcome = {
        "flows": [_flow(name, flow, own, end_ns) for flow, own in pairs],
        "links": [
            {"name": link["name"], "a_to_b": way, **dict.fromkeys(column.raw for column in columns_of("links"))}
            for link in scenario["links"]
            for way in (True, False)
        ],
        "events": 0,
        "delivered_packets": 0,
        "simulated_ns": end_ns,
    }
    rows = [] if scenario["series_interval_ns"] is None else list(_rows(pairs))
    return Output(outcome=outcome, subflow_series=_series(rows), link_series=_NO_LINKS)


def cut_short(measured: Measured, scenario: Mapping[str, Any]) -> list[str]:
    """A sentence for each flow that ended in the window, which then ends with it."""
    said = []
    for described, flow in _pairs(measured, scenario):
        last = described["window_ns"][1] / 1e9
        if flow.length < last - _CLOSE_S and described["app"]["kind"] != "transfer":
            said.append(f"{flow.name} was measured for {Time.about(flow.length)}, so its window ends there, not at {Time.about(last)}")
    return said


def _pairs(measured: Measured, scenario: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Flow]]:
    """By their names where all agree, else in their order."""
    described = scenario["flows"]
    by_name = {flow.name: flow for flow in measured.flows}
    named = set(by_name) == {flow["name"] for flow in described}
    return [(flow, by_name[flow["name"]] if named else measured.flows[number]) for number, flow in enumerate(described)]


@cache
def known_cc() -> frozenset[str]:
    """The congestion controls that a study can name everywhere."""
    return frozenset(algorithm for algorithm, *_ in _native.algorithms())


def _flow(name: str, described: Mapping[str, Any], flow: Flow, end_ns: int) -> dict[str, Any]:
    if flow.transport != described["transport"]:
        theirs = f"the study's flow {described['name']} of {described['transport']}"
        raise TraceError(f"{name}: {flow.name} is of {flow.transport}, and {theirs}")
    if flow.upload is (described.get("direction") == "download"):
        ways = ("an upload", "a download") if flow.upload else ("a download", "an upload")
        raise TraceError(f"{name}: {flow.name} is {ways[0]}, and the study's flow {described['name']} {ways[1]}")
    theirs = split_cc(described["cc"])[0]
    if flow.cc in known_cc() and flow.cc != theirs:
        raise TraceError(
            f"{name}: {flow.name} was sent with {flow.cc}, and the study's flow {described['name']} is with {theirs}: "
            f"take the cell with it (--only), or write `cc: {flow.cc}` in the study"
        )
    times = np.array([time for time, _ in flow.received])
    counts = np.array([count for _, count in flow.received])
    first, last = (ns / 1e9 for ns in described["window_ns"])
    last = min(last, flow.length)
    if last <= first:
        raise TraceError(f"{name}: {flow.name} lasted {Time.about(flow.length)}, and the window begins after {Time.about(first)}")
    start_s = described["start_ns"] / 1e9
    steps = np.arange(0, end_ns / 1e9, _STEP_S)
    received = [round(float(count)) for count in np.interp(steps - start_s, times, counts)]
    goodput = float(np.interp(last, times, counts) - np.interp(first, times, counts)) * 8 / (last - first)
    return {
        "name": described["name"],
        "established_ns": described["start_ns"],
        "goodput_receiver_bps": goodput,
        "goodput_sender_bps": goodput,
        "bytes_received": round(float(counts[-1])),
        "bytes_accepted": round(float(counts[-1])),
        "completion_ns": round(flow.length * 1e9) if described["app"]["kind"] == "transfer" else None,
        "transient_ns": None,
        "fallback": False,
        "reinjected_bytes": None,
        "rwnd_limited_ns": None,
        "sndbuf_limited_ns": None,
        "app_limited_ns": None,
        "datagrams": None,
        "responses": None,
        "subflows": [_subflow(subflow, described, number, first, last) for number, subflow in enumerate(flow.subflows)],
        "received_100ms": received,
        "accepted_100ms": received,
    }


def _subflow(subflow: Subflow, described: Mapping[str, Any], number: int, first: float, last: float) -> dict[str, Any]:
    inside = [sample for sample in subflow.samples if first <= sample.time_s <= last]
    rtts = [sample.srtt_ms for sample in inside if sample.srtt_ms]
    windows = [sample.cwnd for sample in inside if sample.cwnd is not None]
    times = [0.0, *(sample.time_s for sample in subflow.samples)]
    acked = [0.0, *(sample.bytes_acked for sample in subflow.samples)]
    carried = float(np.interp(last, times, acked) - np.interp(first, times, acked)) if any(acked) else subflow.bytes_acked
    return {
        "source": subflow.source or f"client:{number}",
        "destination": subflow.destination or f"server:{number}",
        "established_ns": described["start_ns"],
        "acked_bps": carried * 8 / (last - first),
        **dict.fromkeys(column.raw for column in columns_of("counters", "rejections")),
        "bytes_acked": round(subflow.bytes_acked),
        "data_segments_sent": None,
        "retransmissions": subflow.retransmissions,
        "mean_srtt_us": 1e3 * sum(rtts) / len(rtts) if rtts else 0.0,
        "mean_cwnd": sum(windows) / len(windows) if windows else None,
        "max_cwnd": round(max(windows)) if windows else None,
        "min_rtt_us": round((subflow.min_rtt_ms or 0.0) * 1e3),
        "mss": subflow.mss,
        "pmtu": subflow.pmtu,
    }


def _rows(pairs: Sequence[tuple[Mapping[str, Any], Flow]]) -> Any:
    for number, (described, flow) in enumerate(pairs):
        for order, subflow in enumerate(flow.subflows):
            least = None if subflow.min_rtt_ms is None else round(subflow.min_rtt_ms * 1e3)
            for sample in subflow.samples:
                yield {
                    "time_ns": described["start_ns"] + round(sample.time_s * 1e9),
                    "flow": number,
                    "subflow": order,
                    "cwnd": None if sample.cwnd is None else round(sample.cwnd),
                    "srtt_us": None if sample.srtt_ms is None else round(sample.srtt_ms * 1e3),
                    "rttvar_us": None if sample.rttvar_ms is None else round(sample.rttvar_ms * 1e3),
                    "min_rtt_us": least,
                    "ssthresh": _UNKNOWN_SSTHRESH if sample.ssthresh is None else min(sample.ssthresh, _UNKNOWN_SSTHRESH),
                    "pacing_rate": None if sample.pacing_bps is None else round(sample.pacing_bps / 8),
                    "delivery_rate": None if sample.delivery_bps is None else round(sample.delivery_bps / 8),
                    "bytes_acked": round(sample.bytes_acked),
                    "bytes_received": round(sample.bytes_acked),
                    "retransmissions": sample.retransmissions,
                    "mss": subflow.mss,
                }


_TYPES = {
    **dict.fromkeys(("time_ns", "bytes_acked", "bytes_received", "pacing_rate", "delivery_rate"), pa.uint64()),
    **dict.fromkeys(("flow", "subflow", "cwnd", "srtt_us", "rttvar_us", "min_rtt_us", "in_flight", "retransmissions"), pa.uint32()),
    **dict.fromkeys(("timeouts", "rto_us", "reordering", "mss", "ssthresh"), pa.uint32()),
    "ca_state": pa.uint8(),
}


def _series(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    ordered = sorted(rows, key=lambda row: (row["time_ns"], row["flow"], row["subflow"]))
    return pa.table({name: pa.array([row.get(name) for row in ordered], kind) for name, kind in _TYPES.items()})


_NO_LINKS = pa.table(
    {
        "time_ns": pa.array([], pa.uint64()),
        "link": pa.array([], pa.uint32()),
        "queue_packets": pa.array([], pa.uint32()),
        "queue_bytes": pa.array([], pa.uint64()),
        "drops": pa.array([], pa.uint64()),
    }
)
