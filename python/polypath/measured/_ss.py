"""Text of `ss -tin` or `ss -tinM`, again and again, with the time before each: sockets as flows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from polypath.traces import TraceError, text_of

from ._model import MOST_SAMPLES, Flow, Measured, Sample, Subflow, checked

_SOCKET = re.compile(r"^(?:(?P<kind>tcp|mptcp)\s+)?(?P<state>[A-Z][A-Z0-9-]+)\s+\d+\s+\d+\s+(?P<local>\S+:\d+)\s+(?P<peer>\S+:\d+)")
# Behind ten digits of seconds may stand those of ms, us or ns, as `date +%s%N` writes them.
_UNIX = re.compile(r"^(?:timestamp:\s*)?(\d{9,10}(?=\.|$)|\d{10}(?=(?:\d{3}){1,3}$))\.?(\d*)$")
_RATES = {"bps": 1.0, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "Tbps": 1e12}
# What carried less than this share of the largest is no measured flow, such as iperf3's control.
_LEAST_SHARE = 0.01


def of_ss(file: Path, text: str | None = None) -> Measured:
    """What `ss` told; Raises `TraceError` with file and line."""
    lines = (text_of(file) if text is None else text).splitlines()
    sockets: dict[tuple[str, str], list[tuple[float, dict[str, Any]]]] = {}
    now: float | None = None
    seen = 0
    for number, line in enumerate(lines, 1):
        if (time := _time(line.strip())) is not None:
            if now is not None and time < now:
                raise TraceError(f"{file}:{number}: the time {time:.3f} stands after a later one")
            now = time
            continue
        match = _SOCKET.match(line)
        if match is None or match["kind"] == "mptcp":
            continue
        if now is None:
            raise TraceError(f"{file}:{number}: no time stands before this; write one before each: date +%s.%N; ss -tinM")
        details = lines[number] if number < len(lines) and lines[number][:1].isspace() else ""
        if "cwnd:" not in details:
            continue
        seen += 1
        if seen > MOST_SAMPLES:
            raise TraceError(f"{file}:{number}: more than {MOST_SAMPLES:,} samples are too many; look less often, or cut the file")
        sockets.setdefault((_place(match["local"]), _place(match["peer"])), []).append((now, _details(details)))
    if not sockets:
        raise TraceError(f"{file}: no socket of TCP with its figures stands in it; write them with `ss -tinM`")
    return _measured(file, sockets)


def _measured(file: Path, sockets: dict[tuple[str, str], list[tuple[float, dict[str, Any]]]]) -> Measured:
    # The subflows of an MPTCP connection have one local token.
    groups: dict[str, list[tuple[str, str]]] = {}
    for ends, rows in sockets.items():
        token = next((told["token"] for _, told in rows if told.get("token")), None)
        groups.setdefault(token or " ".join(ends), []).append(ends)
    carried = {
        group: [max(sum(sockets[ends][-1][1].get(name, 0.0) for ends in members), 0.0) for name in ("acked", "got")]
        for group, members in groups.items()
    }
    # A connection that is seen at both ends is told of by its sender.
    sending = {ends for group, members in groups.items() if carried[group][0] >= carried[group][1] for ends in members}
    largest = max(max(both) for both in carried.values())
    flows: list[Flow] = []
    left = 0
    for group, members in groups.items():
        acked, got = carried[group]
        sends = acked >= got
        mirrored = not sends and any((peer, local) in sending for local, peer in members)
        if max(acked, got) < max(_LEAST_SHARE * largest, 1) or mirrored:
            left += 1
            continue
        flows.append(_flow(file, f"flow-{len(flows) + 1}", members, sockets, sends=sends, mptcp=len(groups[group]) > 1 or " " not in group))
    if not flows:
        raise TraceError(f"{file}: none of its sockets carried anything")
    if len(flows) == 1:
        (flow,) = flows
        flows = [Flow(**{**vars(flow), "name": "flow"})]
    times = sum(len(rows) for rows in sockets.values())
    said = [f"ss: {times} samples of {len(sockets)} sockets, in {len(flows)} connection{'s' * (len(flows) > 1)}"]
    said += [f"left out: {left} that carried less than {100 * _LEAST_SHARE:g} % of the largest, or are the other ends"] if left else []
    return checked(file, "ss", flows, said)


def _flow(
    file: Path, name: str, members: Iterable[tuple[str, str]], sockets: dict[tuple[str, str], Any], *, sends: bool, mptcp: bool
) -> Flow:
    counter = "acked" if sends else "got"
    members = list(members)
    begins = min(sockets[ends][0][0] for ends in members)
    times = sorted({time for ends in members for time, _ in sockets[ends]})
    for ends in members:
        for (_, earlier), (time, later) in pairwise(sockets[ends]):
            if later.get(counter, 0.0) < earlier.get(counter, 0.0):
                said = f"what {ends[0]} carried to {ends[1]} goes back at the time {time:.3f}"
                raise TraceError(f"{file}: {said}: it is another connection from there on; give each a file")
    received, latest, before = [], dict.fromkeys(members, 0.0), {ends: sockets[ends][0][1].get(counter, 0.0) for ends in members}
    rows = {ends: dict(sockets[ends]) for ends in members}
    for time in times:
        for ends in members:
            if (told := rows[ends].get(time)) is not None:
                latest[ends] = max(told.get(counter, 0.0) - before[ends], latest[ends])
        received.append((time - begins, sum(latest.values())))
    subflows = []
    for ends in members:
        own = sockets[ends]
        samples = [
            Sample(
                time_s=time - begins,
                cwnd=told.get("cwnd"),
                srtt_ms=told.get("rtt"),
                rttvar_ms=told.get("rttvar"),
                ssthresh=told.get("ssthresh"),
                pacing_bps=told.get("pacing_rate"),
                delivery_bps=told.get("delivery_rate"),
                bytes_acked=max(told.get("acked", 0.0) - before[ends], 0.0) if sends else told.get("got", 0.0) - before[ends],
                retransmissions=int(told.get("retrans", 0)) - int(own[0][1].get("retrans", 0)),
            )
            for time, told in own
        ]
        last = own[-1][1]
        subflows.append(
            Subflow(
                source=ends[0],
                destination=ends[1],
                samples=tuple(samples) if sends else (),
                bytes_acked=latest[ends],
                retransmissions=samples[-1].retransmissions if sends else None,
                min_rtt_ms=last.get("minrtt"),
                mss=int(last.get("mss", 1448)),
                pmtu=int(last.get("pmtu", 1500)),
            )
        )
    local, peer = (int(end.rpartition(":")[2]) for end in members[0])
    cc = next((told["cc"] for _, told in sockets[members[0]] if told.get("cc")), None)
    # Who connects has the higher port.
    return Flow(
        name=name,
        upload=(local > peer) is sends,
        transport="mptcp" if mptcp else "tcp",
        cc=cc if sends else None,
        received=tuple(received),
        subflows=tuple(subflows),
    )


def _time(line: str) -> float | None:
    if (match := _UNIX.match(line)) is not None:
        return float(f"{match[1]}.{match[2] or 0}")
    if not re.match(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d", line):
        return None
    try:
        return datetime.fromisoformat(line).timestamp()
    except ValueError:
        return None


def _place(end: str) -> str:
    """Address and port; IPv4 in IPv6 is IPv4, and an interface says nothing more."""
    host, _, port = end.rpartition(":")
    host = host.strip("[]").partition("%")[0].removeprefix("::ffff:")
    return f"{host}:{port}"


_NUMBERS = re.compile(r"\b(cwnd|ssthresh|mss|pmtu|minrtt|bytes_acked|bytes_received):(\d+(?:\.\d+)?)\b")
_FLAGS = ("ts", "sack", "ecn", "ecnseen", "fastopen")
_NAMES = {"bytes_acked": "acked", "bytes_received": "got"}


def _details(line: str) -> dict[str, Any]:
    told: dict[str, Any] = {_NAMES.get(name, name): float(value) for name, value in _NUMBERS.findall(line)}
    words = line.split()
    # Behind flags, and before the first figure but that of `-m`.
    head = takewhile(lambda word: ":" not in word or word.startswith("skmem:"), words)
    told["cc"] = next((word for word in head if re.fullmatch(r"[a-z][a-z0-9_]*", word) and word not in _FLAGS), None)
    if (rtt := re.search(r"\brtt:([\d.]+)/([\d.]+)", line)) is not None:
        told |= {"rtt": float(rtt[1]), "rttvar": float(rtt[2])}
    if (again := re.search(r"\bretrans:\d+/(\d+)", line)) is not None:
        told["retrans"] = int(again[1])
    for name, value, unit in re.findall(r"\b(pacing_rate|delivery_rate) ([\d.]+)([KMGT]?bps)", line):
        told[name] = float(value) * _RATES[unit]
    if (token := re.search(r"\btoken:[0-9a-f]+\(id:\d+\)/([0-9a-f]+)\(id:", line)) is not None and token[1] != "0000":
        told["token"] = token[1]
    if "ssthresh" in told:
        told["ssthresh"] = int(told["ssthresh"])
    return told
