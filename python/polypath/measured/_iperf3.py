"""iperf3's JSON: its streams as flows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from polypath.traces import TraceError, intervals, objects, text_of

from ._model import Flow, Measured, Sample, Subflow, accumulated, checked, figure, optional


def of_iperf3(file: Path) -> Measured:
    """What iperf3 measured; Raises `TraceError` with the file."""
    text = text_of(file)
    start, parts = intervals(file, text)
    end = _end(file, text)
    test = start.get("test_start") if isinstance(start.get("test_start"), dict) else {}
    assert isinstance(test, dict)
    if test.get("protocol", "TCP") != "TCP":
        raise TraceError(f"{file}: iperf3 sent {test.get('protocol')}; only connections of TCP and MPTCP are imported")
    connected = start.get("connected")
    ends = {str(each.get("socket")): each for each in (connected if isinstance(connected, list) else ()) if isinstance(each, dict)}
    mss = int(figure(file, start.get("tcp_mss_default") or 1448, "`tcp_mss_default`")) or 1448
    streams: dict[str, list[dict[str, Any]]] = {}
    for interval in parts:
        for each in interval.get("streams") or ():
            if isinstance(each, dict) and not each.get("omitted"):
                streams.setdefault(str(each.get("socket")), []).append(each)
    if not streams:
        raise TraceError(f"{file}: its intervals have no `streams`")
    # iperf3 before 3.17 says so of the streams alone.
    both = len({rows[0].get("sender") is not False for rows in streams.values()}) > 1
    down = bool(test.get("reverse"))
    server = "accepted_connection" in start
    flows = []
    for number, (socket, rows) in enumerate(streams.items(), 1):
        place = ends.get(socket, {})
        # With --bidir this end sends some and receives the others.
        upload = (rows[0].get("sender") is not False) is not server if both else not down
        flows.append(
            Flow(
                name="iperf3" if len(streams) == 1 else f"iperf3-{number}",
                upload=upload,
                transport="mptcp" if test.get("mptcp") or test.get("mptcp_enabled") or start.get("mptcp") else "tcp",
                cc=_text(end.get("sender_tcp_congestion")),
                received=accumulated(_spans(file, rows)),
                subflows=(_subflow(file, rows, place, mss),),
            )
        )
    ways = "up and down" if both else "down" if down else "up"
    return checked(file, "iperf3", flows, [f"iperf3: {len(flows)} stream{'s' * (len(flows) > 1)}, {ways}"])


def _spans(file: Path, rows: list[dict[str, Any]]) -> Iterator[tuple[float, float, float]]:
    """Each interval with its rate. Raises `TraceError` where one is missing or stands elsewhere."""
    reached = 0.0
    for row in rows:
        begins, ends, rate = (figure(file, row.get(name), f"`{name}`") for name in ("start", "end", "bits_per_second"))
        if abs(begins - reached) > (ends - begins) / 2:
            raise TraceError(f"{file}: the interval before {begins:g} s is missing: one ends at {reached:g} s; take the whole file")
        reached = ends
        yield begins, ends, rate


def _subflow(file: Path, rows: list[dict[str, Any]], place: dict[str, Any], mss: int) -> Subflow:
    samples, acked, again, last_mtu = [], 0.0, 0, 1500
    for row in rows:
        acked += figure(file, row.get("bytes", 0), "`bytes`")
        again += int(optional(file, row, "retransmits") or 0)
        cwnd, rtt = optional(file, row, "snd_cwnd"), optional(file, row, "rtt", 1e-3)
        last_mtu = int(optional(file, row, "pmtu") or last_mtu)
        samples.append(
            Sample(
                time_s=figure(file, row.get("end"), "`end`"),
                cwnd=None if not cwnd else cwnd / mss,
                srtt_ms=rtt or None,
                rttvar_ms=optional(file, row, "rttvar", 1e-3) or None,
                bytes_acked=acked,
                retransmissions=again,
            )
        )
    known = any(row.get("retransmits") is not None for row in rows)
    rtts = [sample.srtt_ms for sample in samples if sample.srtt_ms]
    return Subflow(
        source=f"{place.get('local_host', '')}:{place.get('local_port', '')}",
        destination=f"{place.get('remote_host', '')}:{place.get('remote_port', '')}",
        samples=tuple(samples),
        bytes_acked=acked,
        retransmissions=again if known else None,
        min_rtt_ms=min(rtts, default=None),
        mss=mss,
        pmtu=last_mtu,
    )


def _end(file: Path, text: str) -> dict[str, Any]:
    for value in objects(file, text):
        match value:
            case {"event": "end", "data": dict(data)} | {"end": dict(data)}:
                return data
    return {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
