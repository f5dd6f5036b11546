"""A fake engine for tests of everything around engines: its figures follow from the scenario by a
hash and mean nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from polypath.columns import columns_of
from polypath.engines import Algorithm, Engine, Output

_SAMPLES = 20


class FakeEngine(Engine):
    """Gives every scenario an outcome of the right shape at once; never offered to users."""

    name: ClassVar[str] = "fake"
    summary: ClassVar[str] = "made-up figures, for tests"

    def __init__(self, *, version: str = "1", before: Callable[[Mapping[str, Any]], None] | None = None) -> None:
        self._version = version
        # Called with each scenario before it is "run": tests count, fail or die in it.
        self._before = before

    @property
    def version(self) -> str:
        return self._version

    def algorithms(self) -> list[Algorithm]:
        coupled = [Algorithm(name, coupled=True) for name in ("balia", "lia", "olia")]
        return [*coupled, Algorithm("cubic", coupled=False), Algorithm("reno", coupled=False, aliases="newreno")]

    def schedulers(self) -> list[str]:
        return ["default", "minrtt", "roundrobin"]

    def run(self, scenario: Mapping[str, Any]) -> Output:
        if self._before is not None:
            self._before(scenario)
        flows = [_flow(flow, _drawn(scenario, flow["name"])) for flow in scenario["flows"]]
        outcome = {
            "flows": flows,
            "links": [_link(link["name"], forward) for link in scenario["links"] for forward in (True, False)],
            "events": 1000,
            "delivered_packets": 100,
            "simulated_ns": scenario["duration_ns"],
        }
        interval = scenario["series_interval_ns"]
        return Output(outcome=outcome, subflow_series=_subflow_series(flows, interval), link_series=_link_series(scenario, interval))


def _drawn(scenario: Mapping[str, Any], name: str) -> float:
    """A number in [0, 1) that the scenario decides."""
    text = json.dumps(scenario, sort_keys=True) + name
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48


def _flow(flow: Mapping[str, Any], drawn: float) -> dict[str, Any]:
    goodput = 1e6 * (1 + drawn)
    sent = [round(goodput / 80 * i) for i in range(_SAMPLES)]
    return {
        "name": flow["name"],
        "established_ns": flow["start_ns"] + 30_000_000,
        "goodput_receiver_bps": goodput,
        "goodput_sender_bps": goodput * 1.01,
        "bytes_received": sent[-1],
        "bytes_accepted": sent[-1],
        "completion_ns": 10**9 if flow["app"]["kind"] == "transfer" else None,
        "transient_ns": 2 * 10**9,
        "fallback": False,
        "reinjected_bytes": 0,
        "rwnd_limited_ns": 0,
        "sndbuf_limited_ns": 0,
        "app_limited_ns": 0,
        "datagrams": None,
        "responses": None,
        "subflows": [_subflow(index, goodput / 2) for index in range(2 if flow["transport"] == "mptcp" else 1)],
        "received_100ms": sent,
        "accepted_100ms": sent,
    }


def _subflow(index: int, acked: float) -> dict[str, Any]:
    return {
        "source": f"10.0.{index}.1:40000",
        "destination": "10.0.9.2:5001",
        "established_ns": 30_000_000,
        "acked_bps": acked,
        **{column.raw: 0 for column in columns_of("counters", "rejections")},
        "bytes_acked": round(acked),
        "data_segments_sent": 100,
        "retransmissions": index,
        "mean_srtt_us": 20_000.0,
        "mean_cwnd": 12.5,
        "max_cwnd": 20,
        "min_rtt_us": 18_000,
        "mss": 1448,
        "pmtu": 1500,
        "busy_ns": 10**9,
        "cwnd_limited_ns": 9 * 10**8,
    }


def _link(name: str, forward: bool) -> dict[str, Any]:
    counts = dict.fromkeys((column.raw for column in columns_of("links")), 0)
    return {"name": name, "a_to_b": forward, **counts, "packets": 100, "bytes": 150_000, "max_queue_packets": 7}


def _subflow_series(flows: list[dict[str, Any]], interval: int | None) -> pa.Table:
    rows = [
        (i * (interval or 0), flow, subflow, i)
        for i in range(0 if interval is None else _SAMPLES)
        for flow, outcome in enumerate(flows)
        for subflow in range(len(outcome["subflows"]))
    ]
    narrow = {"flow": 1, "subflow": 2, "cwnd": 3, "srtt_us": 3, "rttvar_us": 3, "min_rtt_us": 3, "in_flight": 3, "retransmissions": 3}
    narrow |= {"timeouts": 3, "rto_us": 3, "reordering": 3, "mss": 3}
    columns: dict[str, pa.Array] = {"time_ns": pa.array([row[0] for row in rows], pa.uint64())}
    columns |= {name: pa.array([row[part] for row in rows], pa.uint32()) for name, part in narrow.items()}
    columns["ssthresh"] = pa.array([0x7FFF_FFFF] * len(rows), pa.uint32())
    for name in ("bytes_acked", "bytes_received", "pacing_rate", "delivery_rate"):
        columns[name] = pa.array([row[3] * 1000 for row in rows], pa.uint64())
    columns["ca_state"] = pa.array([0] * len(rows), pa.uint8())
    return pa.table(columns)


def _link_series(scenario: Mapping[str, Any], interval: int | None) -> pa.Table:
    rows = [(i * (interval or 0), link) for i in range(0 if interval is None else _SAMPLES) for link in range(2 * len(scenario["links"]))]
    return pa.table(
        {
            "time_ns": pa.array([row[0] for row in rows], pa.uint64()),
            "link": pa.array([row[1] for row in rows], pa.uint32()),
            "queue_packets": pa.array([0] * len(rows), pa.uint32()),
            "queue_bytes": pa.array([0] * len(rows), pa.uint64()),
            "drops": pa.array([0] * len(rows), pa.uint64()),
        }
    )
