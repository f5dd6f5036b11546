"""An engine for the tests of the report."""

import math
from typing import ClassVar

import numpy as np
import pyarrow as pa
from fake_engine import FakeEngine

from polypath.engines import Algorithm, Output

GOODPUT = {"lia": 9.41, "olia": 9.425, "balia": 9.42, "wvegas": 8.1, "cubic": 9.43, "reno": 9.4}


class PlausibleEngine(FakeEngine):
    """Saw-teeth whose height the congestion control decides."""

    name: ClassVar[str] = "plausible"

    def algorithms(self):
        return [Algorithm(name, name not in ("cubic", "reno")) for name in GOODPUT]

    def run(self, scenario):
        output = super().run(scenario)
        flows = [_flow(flow, made, scenario["seed"]) for flow, made in zip(scenario["flows"], output.outcome["flows"], strict=True)]
        series = _series(flows, scenario["series_interval_ns"])
        return Output(outcome={**output.outcome, "flows": flows}, subflow_series=series, link_series=pa.table({}))


def _flow(flow, made, seed):
    mbps = GOODPUT[flow["cc"]] * (1 + 0.001 * (seed - 3))
    sources = ["10.0.0.1", "192.168.0.1"] if flow["transport"] == "mptcp" else [flow["client_address"] or "10.0.0.1"]
    counted = [round(mbps * 1e6 / 80 * tick) for tick in range(201)]
    return {
        **made,
        "established_ns": 14_000_000,
        "goodput_receiver_bps": mbps * 1e6,
        "goodput_sender_bps": mbps * 1.04e6,
        "bytes_received": counted[-1],
        "bytes_accepted": round(1.04 * counted[-1]),
        "completion_ns": None,
        "transient_ns": 1_200_000_000,
        "byte_delay": {"mean_ns": 31e6, "p50_ns": 30_000_000, "p95_ns": 71_500_000, "p99_ns": 90_000_000, "max_ns": 99_000_000},
        "disorder": {
            "share": 0.25,
            "mean_ahead": 8000.0,
            "max_ahead": 64_000,
            "mean_waiting": 2500.0,
            "max_waiting": 50_000,
            "blocked_ns": 3_250_000_000,
            "mean_wait_ns": 4_120_000.0,
        },
        "subflows": [_subflow(source, mbps * 1e6 / len(sources), made["subflows"][0]) for source in sources],
        "received_100ms": counted,
        "accepted_100ms": counted,
    }


def _subflow(source, bps, made):
    return {
        **made,
        "source": source,
        "destination": "10.0.1.2",
        "established_ns": 14_000_000,
        "acked_bps": bps,
        "bytes_acked": round(bps * 2.5),
        "data_segments_sent": 8000,
        "retransmissions": 12,
        "mean_srtt_us": 40_000.0,
        "mean_cwnd": 30.0,
        "max_cwnd": 60,
        "min_rtt_us": 14_200,
        "mss": 1428,
        "busy_ns": 20_000_000_000,
        "cwnd_limited_ns": 18_000_000_000,
    }


def _series(flows, interval_ns):
    if interval_ns is None:
        return pa.table({})
    rows = [(f, s, i) for f, flow in enumerate(flows) for s in range(len(flow["subflows"])) for i in range(1, 201)]
    flow, subflow, tick = (np.array(column) for column in zip(*rows, strict=True))
    time = tick * interval_ns / 1e9
    cwnd = 10 + 8 * subflow + 20 * np.mod(time * (0.31 + 0.11 * subflow), 1.0)
    acked = np.array([flows[f]["subflows"][s]["acked_bps"] for f, s, _ in rows]) / 8 * time
    zeros = np.zeros(len(rows), dtype=np.int64)
    names = ("ssthresh", "rttvar_us", "min_rtt_us", "in_flight", "bytes_received", "retransmissions", "timeouts", "pacing_rate")
    columns = dict.fromkeys([*names, "delivery_rate", "rto_us", "reordering", "mss", "ca_state"], zeros)
    columns |= {"time_ns": tick * interval_ns, "flow": flow, "subflow": subflow, "cwnd": cwnd.astype(np.int64)}
    columns |= {"srtt_us": (14_200 + 1_000 * cwnd).astype(np.int64), "bytes_acked": acked.astype(np.int64)}
    assert math.isfinite(float(acked.sum()))
    return pa.table(columns)
