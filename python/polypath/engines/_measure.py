"""From what a kernel's run gave back to an outcome with the simulator's meanings
(crates/sim/src/outcome.rs, crates/sim/src/flow.rs).

What the kernel does not tell is None, or derived as docs/reference/results.md says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from polypath.columns import columns_of
from polypath.planner import PlacedStage
from polypath.sockets import COUNTS_TIMEOUTS

from . import _traffic, _tunnels
from ._records import DATAGRAM, QUEUE, SOCKET, Array, records, reinjected_bytes, tcp_info

STEP_NS = 100_000_000
# A reader comes back this often; where it was silent for longer, nothing came.
SILENCE_NS = 250_000_000
ETHERNET = 14
NOT_YET_OPEN = (2, 3)  # TCP_SYN_SENT, TCP_SYN_RECV
UNKNOWN_U32 = 0xFFFF_FFFF
# What the engines count of a subflow; of a kernel, what is named below or has counters of its own.
_COUNTERS = columns_of("counters", "rejections")

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """All that a run gave back."""

    scenario: Mapping[str, Any]
    result: Mapping[str, Any]
    sockets: bytes
    # Of links that are the kernel's netem.
    stages: Sequence[PlacedStage] = ()
    queues: bytes = b""
    # Of links that something else carried: their counters, and the series of their queues with
    # those of times that no run reached.
    links: Sequence[Json] | None = None
    link_series: pa.Table | None = None
    # Records of those that arrived.
    datagrams: bytes = b""


def failure(result: Mapping[str, Any], who: str) -> str:
    """Why a run came to nothing: the plan asks for what cannot be, or `who` could not do it."""
    if result.get("error_kind") == "caller":
        return f"the plan cannot be carried out: {result['error']}"
    return f"the {who} could not carry out the run: {result['error']}"


def outcome(record: RunRecord) -> tuple[Json, pa.Table, pa.Table]:
    """The outcome, and the series of subflows and of links."""
    end = record.result["ended_ns"]
    sockets = records(record.sockets, SOCKET)
    sockets = _without_syn(sockets[~np.isin(sockets["state"], NOT_YET_OPEN)], record.scenario)
    queues = records(record.queues, QUEUE)
    flows = [_flow(record, number, sockets[sockets["flow"] == number], end) for number in range(len(record.scenario["flows"]))]
    totals: Json = {
        "flows": flows,
        "links": _links(record) if record.links is None else list(record.links),
        "events": None,
        "delivered_packets": None,
        "simulated_ns": end,
        "counters": record.result["counters"],
    }
    if record.scenario.get("tunnels"):
        totals["tunnels"] = _tunnels.tunnels(record.scenario, record.result)
    interval = record.scenario["series_interval_ns"]
    if record.link_series is not None:
        return totals, _subflow_series(sockets, interval), record.link_series
    return totals, _subflow_series(sockets, interval), _link_series(record, queues, interval)


class _Progress:
    """Bytes so far at any time, straight between the times at which they were counted."""

    def __init__(self, start: int | None, points: Sequence[Sequence[int]], *, rests: bool) -> None:
        times, counts = [0 if start is None else start], [0]
        for time, count in points:
            if time <= times[-1]:
                counts[-1] = max(count, counts[-1])
                continue
            if rests and time - times[-1] > SILENCE_NS:
                times.append(time - STEP_NS)
                counts.append(counts[-1])
            times.append(time)
            counts.append(count)
        self._times, self._counts = np.array(times, np.int64), np.array(counts, np.int64)

    @property
    def total(self) -> int:
        return int(self._counts[-1])

    def at(self, time: int) -> int:
        return round(float(np.interp(time, self._times, self._counts)))

    def every_step(self, end: int) -> list[int]:
        """At multiples of 100 ms up to the end."""
        return [round(value) for value in np.interp(np.arange(0, end + 1, STEP_NS), self._times, self._counts).tolist()]

    def reached(self, count: int) -> int | None:
        """When so many were first counted."""
        index = int(np.searchsorted(self._counts, count))
        return int(self._times[index]) if index < len(self._times) else None


def _flow(record: RunRecord, number: int, sockets: Array, end: int) -> Json:
    flow, got = record.scenario["flows"][number], record.result["flows"][number]
    accepted, app = got["accepted_ns"], flow["app"]
    received = _Progress(accepted, got["read"], rests=True)
    sent = _Progress(_start_of(flow, got), got["written"], rests=app["kind"] == "on_off")
    window = None if accepted is None else [min(accepted + edge, end) for edge in flow["window_ns"]]
    if window is not None and accepted + flow["window_ns"][0] > end:
        window = None
    seconds = (window[1] - window[0]) / 1e9 if window else 0.0

    def rate(progress: _Progress, *, from_start: bool = False) -> float:
        if not window or not seconds > 0:
            return 0.0
        before = 0 if from_start else progress.at(window[0])
        return (progress.at(window[1]) - before) * 8 / seconds

    goodput = rate(received)
    steps = received.every_step(end)
    done = received.reached(app["bytes"]) if app["kind"] == "transfer" else None
    only = _only_flow_of(record.scenario, flow)
    counters = record.result["counters"].get(_sender(flow), {}) if only else None
    subflows = [
        _subflow(flow, got, index, sockets[sockets["subflow"] == index], window, counters if len(got["subflows"]) == 1 else None)
        for index in range(len(got["subflows"]))
    ]
    mptcp = flow["transport"] == "mptcp"
    lifetime = None if accepted is None else _lifetime(app, accepted, done, end)
    # A window from the beginning has all that came while the acceptance was on its way.
    counted_window = [-1, window[1]] if window and flow["window_ns"][0] == 0 else window
    datagrams = None
    if flow["transport"] == "udp":
        arrivals = records(record.datagrams, DATAGRAM)
        datagrams = _traffic.datagrams(got["datagrams_sent"], arrivals[arrivals["flow"] == number], counted_window)
    return {
        "name": flow["name"],
        "established_ns": accepted,
        "goodput_receiver_bps": goodput,
        # What the socket took while the handshake went on counts as well.
        "goodput_sender_bps": rate(sent, from_start=flow["window_ns"][0] == 0),
        "bytes_received": received.total,
        "bytes_accepted": sent.total,
        "completion_ns": None if done is None or accepted is None else done - accepted,
        "transient_ns": None if window is None or accepted is None else _transient(steps, window, goodput, accepted),
        "fallback": got["fallback"],
        "reinjected_bytes": _reinjected(flow, got) if mptcp else 0,
        "datagrams": datagrams,
        "responses": _traffic.responses(got["responses"], counted_window) if app["kind"] == "requests" else None,
        # The kernel does not say for how long the peer's window, or its own send buffer, held a
        # whole MPTCP connection.
        **{name: None if mptcp else sum(subflow[name] for subflow in subflows) for name in ("rwnd_limited_ns", "sndbuf_limited_ns")},
        "app_limited_ns": _app_limited(app, subflows, lifetime),
        "error": got["error"],
        # Of the whole flow where the kernel counts for the whole host alone.
        **(_named_counters(counters) if counters is not None else {}),
        "subflows": subflows,
        "received_100ms": steps,
        "accepted_100ms": sent.every_step(end),
    }


def _reinjected(flow: Mapping[str, Any], got: Mapping[str, Any]) -> int | None:
    sender = "server" if _is_download(flow) else "client"
    return reinjected_bytes(got[f"{sender}_mptcp_info"], (subflow["tcp_info"] for subflow in got["subflows"]))


def _is_download(flow: Mapping[str, Any]) -> bool:
    return bool(flow.get("direction") == "download")


def _sender(flow: Mapping[str, Any]) -> str:
    """The host that sends, whose sockets are looked at; of requests the client."""
    return str(flow["server" if _is_download(flow) else "client"])


def _start_of(flow: Mapping[str, Any], got: Mapping[str, Any]) -> int | None:
    """When the sender's end was connected."""
    began: int | None = got["accepted_ns" if _is_download(flow) else "connected_ns"]
    return began


def _only_flow_of(scenario: Mapping[str, Any], flow: Mapping[str, Any]) -> bool:
    """Whether the counters of the sender's host are this flow's alone."""
    return sum(_sender(flow) in (other["client"], other["server"]) for other in scenario["flows"]) == 1


def _named_counters(counters: Mapping[str, int]) -> Json:
    return {column.raw: sum(counters.get(name, 0) for name in column.linux) for column in _COUNTERS if column.linux}


def _subflow(
    flow: Mapping[str, Any],
    got: Mapping[str, Any],
    index: int,
    sockets: Array,
    window: Sequence[int] | None,
    counters: Mapping[str, int] | None,
) -> Json:
    subflow = got["subflows"][index]
    last, length = tcp_info(subflow["tcp_info"])
    seconds = (window[1] - window[0]) / 1e9 if window else 0.0
    mean: Json = {"mean_srtt_us": 0.0, "mean_cwnd": 0.0, "max_cwnd": 0}
    acked = 0.0
    if window and seconds > 0 and len(sockets):
        inside = sockets[(sockets["time_ns"] >= window[0]) & (sockets["time_ns"] < window[1]) & (sockets["time_ns"] % STEP_NS == 0)]
        if len(inside):
            mean["mean_srtt_us"] = float(np.mean(inside["srtt_us"]))
            mean["mean_cwnd"] = float(np.mean(inside["cwnd"]))
            mean["max_cwnd"] = int(np.max(inside["cwnd"]))
        times = np.concatenate(([got["accepted_ns"] or 0], sockets["time_ns"].astype(np.int64)))
        counts = np.concatenate(([0], sockets["bytes_acked"].astype(np.int64)))
        before, after = (float(np.interp(edge, times, counts)) for edge in window)
        acked = (after - before) * 8 / seconds
    counted = _named_counters(counters) if counters is not None else {}
    busy = last["busy_us"]
    return {
        "source": subflow["source"],
        "destination": subflow["destination"],
        # A sample shows the others; of the first one it is known when connect() or accept()
        # returned.
        "established_ns": _start_of(flow, got) if index == 0 else subflow["established_ns"],
        "cc": subflow["cc"],
        "acked_bps": acked,
        **{column.raw: counted.get(column.raw) for column in _COUNTERS},
        "bytes_acked": last["bytes_acked"] if _is_download(flow) else max(last["bytes_acked"] - 1, 0),
        "data_segments_sent": last["data_segs_out"],
        "retransmissions": last["total_retrans"],
        **({"timeouts": last["total_rto"]} if length >= COUNTS_TIMEOUTS else {}),
        **mean,
        "min_rtt_us": 0 if last["min_rtt_us"] == UNKNOWN_U32 else last["min_rtt_us"],
        "mss": last["snd_mss"],
        "pmtu": last["pmtu"],
        "busy_ns": busy * 1000,
        "rwnd_limited_ns": last["rwnd_limited_us"] * 1000,
        "sndbuf_limited_ns": last["sndbuf_limited_us"] * 1000,
        # The rest of the busy time: data was there, and neither the peer's window nor the buffer
        # stood in the way.
        "cwnd_limited_ns": max(busy - last["rwnd_limited_us"] - last["sndbuf_limited_us"], 0) * 1000,
    }


def _without_syn(sockets: Array, scenario: Mapping[str, Any]) -> Array:
    """With what is acknowledged of the data alone: the kernel counts the SYN of the end that opened
    the connection as a byte.
    """
    uploads = [number for number, flow in enumerate(scenario["flows"]) if not _is_download(flow)]
    counts_syn = np.isin(sockets["flow"], uploads) & (sockets["bytes_acked"] > 0)
    sockets["bytes_acked"][counts_syn] -= 1
    return sockets


def _lifetime(app: Mapping[str, Any], accepted: int, done: int | None, end: int) -> int:
    ends: list[int] = [end - accepted, *([app["duration_ns"]] if "duration_ns" in app else []), *([done - accepted] if done else [])]
    return min(ends)


def _app_limited(app: Mapping[str, Any], subflows: Sequence[Json], lifetime: int | None) -> int:
    """Time without anything to send: an application that sends as fast as it can has none; of
    others, when no subflow was busy.
    """
    if app["kind"] == "bulk" or not subflows or lifetime is None:
        return 0
    busiest: int = max(subflow["busy_ns"] for subflow in subflows)
    return max(lifetime - busiest, 0)


def _transient(steps: Sequence[int], window: Sequence[int], goodput: float, accepted: int) -> int | None:
    """First time in the window from which on the goodput of the second before stays within 10 % of
    the window's.
    """
    first: int | None = None
    per_second = 1_000_000_000 // STEP_NS
    for last in range(per_second, len(steps)):
        at = last * STEP_NS
        if at < window[0] + 1_000_000_000 or at > window[1]:
            continue
        mean = (steps[last] - steps[last - per_second]) * 8.0
        if abs(mean - goodput) > 0.1 * goodput:
            first = None
        elif first is None:
            first = at
    return None if first is None else first - accepted


def _links(record: RunRecord) -> list[Json]:
    disciplines = {(discipline["namespace"], discipline["device"]): discipline for discipline in record.result["disciplines"]}
    widest = max(link[end]["mtu"] for link in record.scenario["links"] for end in ("a", "b"))
    directions = []
    for number, link in enumerate(record.scenario["links"]):
        for a_to_b, side in ((True, "a_to_b"), (False, "b_to_a")):
            stages = [stage for stage in record.stages if (stage.link, stage.a_to_b) == (number, a_to_b)]
            narrow = link["a"]["mtu"] != widest or link["b"]["mtu"] != widest or any(element["kind"] == "mtu" for element in link[side])
            directions.append({"name": link["name"], "a_to_b": a_to_b, **_counts(stages, disciplines), "mtu_drops": None if narrow else 0})
    return directions


def _counts(stages: Sequence[PlacedStage], disciplines: Mapping[tuple[str, str], Mapping[str, Any]]) -> Json:
    counts: Json = {"packets": None, "bytes": None, "queue_drops": 0, "loss_drops": 0, "down_drops": 0, "drops": 0, "ecn_marks": 0}
    counts["max_queue_packets"] = 0
    for placed in stages:
        seen = disciplines[placed.namespace, placed.device]
        # What passes the last one passes the link.
        counts |= {"packets": seen["packets"], "bytes": seen["bytes"] - ETHERNET * seen["packets"]}
        counts["drops"] += seen["drops"] + seen["policed"]
        counts["ecn_marks"] += seen.get("marks", 0)
        kinds = [name for name, there in (("queue", placed.stage.rate), ("loss", placed.stage.loss), ("down", placed.stage.down)) if there]
        for name in (f"{kind}_drops" for kind in kinds):
            # One netem counts all its drops together, so with several reasons the count of each is
            # unknown.
            alone = seen["drops"] if len(kinds) == 1 else None
            counts[name] = None if alone is None and seen["drops"] else _plus(counts[name], alone or 0)
        counts["queue_drops"] = _plus(counts["queue_drops"], seen["policed"])
        if placed.stage.rate is not None:
            counts["max_queue_packets"] = max(counts["max_queue_packets"], seen["max_queue_packets"])
    return counts


def _plus(count: int | None, more: int) -> int | None:
    return None if count is None else count + more


def _subflow_series(sockets: Array, interval: int | None) -> pa.Table:
    rows = sockets[:0] if interval is None else sockets[sockets["time_ns"] % interval == 0]
    in_flight = rows["unacked"].astype(np.int64) - rows["sacked"] - rows["lost"] + rows["retrans"]
    same = ("time_ns", "flow", "subflow", "cwnd", "ssthresh", "srtt_us", "rttvar_us", "min_rtt_us", "rto_us", "reordering", "ca_state")
    more = ("lost", "pmtu", "flags", "busy_us", "rwnd_limited_us", "sndbuf_limited_us")
    timeouts = pa.array(rows["total_rto"].astype(np.uint32), mask=rows["info_length"] < COUNTS_TIMEOUTS)
    return pa.table(
        {
            **{name: np.ascontiguousarray(rows[name]) for name in same},
            "in_flight": np.maximum(in_flight, 0).astype(np.uint32),
            "bytes_acked": np.ascontiguousarray(rows["bytes_acked"]),
            "bytes_received": _arrivals(rows),
            "retransmissions": np.ascontiguousarray(rows["total_retrans"]),
            "timeouts": timeouts,
            "pacing_rate": pa.array(np.ascontiguousarray(rows["pacing_rate"]), mask=rows["pacing_rate"] == 2**64 - 1),
            "delivery_rate": np.ascontiguousarray(rows["delivery_rate"]),
            "mss": np.ascontiguousarray(rows["snd_mss"]),
            **{name: np.ascontiguousarray(rows[name]) for name in more},
        }
    )


def _arrivals(rows: Array) -> Array:
    """What the sender knows to have arrived: acknowledged, or told of by SACK in whole segments. It
    never becomes less.
    """
    count: Array = rows["bytes_acked"].astype(np.int64) + rows["sacked"].astype(np.int64) * rows["snd_mss"]
    for flow, subflow in {(int(row["flow"]), int(row["subflow"])) for row in rows[["flow", "subflow"]]}:
        arrivals = (rows["flow"] == flow) & (rows["subflow"] == subflow)
        count[arrivals] = np.maximum.accumulate(count[arrivals])
    arrived: Array = count.astype(np.uint64)
    return arrived


def _link_series(record: RunRecord, queues: Array, interval: int | None) -> pa.Table:
    framing = {
        (placed.link, placed.a_to_b): placed.stage.rate["framing_bytes"] for placed in record.stages if placed.stage.rate is not None
    }
    sums: dict[tuple[int, int], list[int]] = {}
    rows = queues[:0] if interval is None else queues[queues["time_ns"] % interval == 0]
    for time, link, a_to_b, packets, length, drops in rows.tolist():
        if (link, bool(a_to_b)) not in framing:
            continue
        row = sums.setdefault((time, 2 * link + 1 - a_to_b), [0, 0, 0])
        # netem counts each packet with its Ethernet header.
        for column, value in enumerate((packets, length + packets * (framing[link, bool(a_to_b)] - ETHERNET), drops)):
            row[column] += value
    keys = sorted(sums)
    return pa.table(
        {
            "time_ns": pa.array([time for time, _ in keys], pa.uint64()),
            "link": pa.array([link for _, link in keys], pa.uint32()),
            "queue_packets": pa.array([sums[key][0] for key in keys], pa.uint32()),
            "queue_bytes": pa.array([sums[key][1] for key in keys], pa.uint64()),
            "drops": pa.array([sums[key][2] for key in keys], pa.uint64()),
        }
    )
