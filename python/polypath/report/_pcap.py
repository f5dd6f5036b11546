"""The page of captures: what `polypath.pcap.analyse` found, as sentences, tables and figures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from polypath.pcap import complaints, contents, series_table
from polypath.plot import Figure, over_time, progress, size_histogram

from ._format import number, percent, several
from ._page import Fact
from ._tables import Cell, Column, Table
from ._write import rendered, replace

DRAWN = 8
"""Connections that have figures: those of failed subtests, then those with most bytes; the table has
all that fit on a page.
"""
NAMED = 4
"""Connections without figures that are named."""
LISTED = 200
LONGEST_NAME = 34
"""Characters of a subflow's name beside which three others have room in a legend."""
LITTLE = 20_000
"""Payload of a direction below which its figures would show nothing, bytes."""
SENDERS = ("client", "server")


@dataclass(frozen=True, kw_only=True)
class DirectionView:
    title: str
    figures: Sequence[Figure]


@dataclass(frozen=True, kw_only=True)
class ConnectionView:
    name: str
    title: str
    words: str
    diagnosis: Sequence[str]
    subflows: Table
    icmp: Table | None
    directions: Sequence[DirectionView]


@dataclass(frozen=True, kw_only=True)
class CapturePage:
    title: str
    kicker: str
    facts: Sequence[Fact]
    connections: Sequence[ConnectionView]
    left_out: str
    """Which connections have no figures, and how to see them; empty: all have."""
    complaints: Sequence[str]
    """What keeps a file from being told of whole."""
    contents: str
    """What is in the captures, for a page without a connection."""
    overview: Table
    files: Table
    messages: Table | None
    """ICMP of every type; None where there was none."""
    events: Table | None
    """The kernel's own events, where a kernel has told them."""
    drops: Table | None
    machine: str
    """When the first packet was seen by the clock of the machine; empty: there is no such clock."""
    repeat: str


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a test, and how it ended; "": that is not known."""

    name: str
    verdict: str = ""


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What a run of a test tells beside its captures."""

    during: Sequence[Part | None] = ()
    """Of each connection, in the report's order: the part that it belongs to, where that is known."""
    events: Mapping[str, int] | None = None
    drops: Mapping[str, int] | None = None
    """How often each of the kernel's own events came, and for what reasons packets were dropped."""
    began_s: float | None = None
    """When the first packet was seen, since the machine's start."""


def write_captures(report: Mapping[str, Any], target: Path, replayed: Replayed | None = None) -> None:
    """Writes one self-contained HTML page of a report of `polypath.pcap.analyse`, and of what the run
    told beside it.
    """
    replace(target, rendered("pcap.html.j2", page=capture_page(report, replayed)).encode())


def capture_page(report: Mapping[str, Any], replayed: Replayed | None = None) -> CapturePage:
    """Everything that the template shows."""
    replay = replayed or Replayed()
    connections = [
        {**connection, "during": part}
        for connection, part in itertools.zip_longest(report["connections"], replay.during[: len(report["connections"])])
    ]
    ordered = sorted(enumerate(connections), key=lambda numbered: (*_rank(numbered[1]), numbered[0]))
    series = series_table(report).to_pandas()
    files = [Path(file["name"]).name for file in report["files"]]
    return CapturePage(
        title="What the captures say",
        kicker=several(files),
        facts=_facts(report),
        connections=[_connection(number, connection, series) for number, connection in ordered[:DRAWN]],
        left_out=_left_out([connection for _, connection in ordered], replayed is not None),
        complaints=complaints(report),
        contents="" if ordered else contents(report),
        overview=_overview(ordered),
        files=_files(report),
        messages=_messages(report),
        events=_counts(replay.events, "Event"),
        drops=_counts(replay.drops, "Reason"),
        machine="" if replay.began_s is None else number(replay.began_s, 3),
        repeat=" ".join(["polypath pcap --html OUT.html", *(file["name"] for file in report["files"])]),
    )


def _counts(counts: Mapping[str, int] | None, head: str) -> Table | None:
    if not counts:
        return None
    rows = [[Cell(text=name), Cell(text=f"{times}")] for name, times in counts.items()]
    return Table(columns=[Column(title=head, numeric=False), Column(title="Times")], rows=rows)


def _bytes(connection: Mapping[str, Any]) -> int:
    return sum(direction["bytes"] for subflow in connection["subflows"] for direction in subflow["directions"])


def _rank(connection: Mapping[str, Any]) -> tuple[int, int]:
    """Where it stands: those of failed parts of a test first, then those of which the test ignores
    that they failed, each in their order; then those with most bytes.
    """
    part: Part | None = connection["during"]
    rank = {"fail": 0, "ignored": 1}.get(part.verdict if part else "", 2)
    return rank, 0 if rank < 2 else -_bytes(connection)


def _left_out(ordered: Sequence[Mapping[str, Any]], is_replay: bool) -> str:
    rest = ordered[DRAWN:]
    if not rest:
        return ""
    failed = any(_rank(connection)[0] < 2 for connection in ordered)
    first = f"{'those of failed subtests, then ' if failed else ''}those that carried most"
    names = [f"{_during(connection)}{_ends(connection)}" for connection in rest]
    named = f": {several(names)}" if len(names) <= NAMED else ""
    alone = '"polypath linux replay --subtest N" has' if is_replay else "a page of a capture that holds them alone has"
    return (
        f"{DRAWN} of {len(ordered)} connections have figures, {first}. {len(rest)} {'has' if len(rest) == 1 else 'have'} none{named}. "
        f'The table of connections lists them, "polypath pcap --json" has all that is known of them, and {alone} their figures.'
    )


def _ends(connection: Mapping[str, Any]) -> str:
    first = connection["subflows"][0]
    return f"{first['client']} → {first['server']}"


def _title(connection: Mapping[str, Any]) -> str:
    tunnel = f" in {connection['tunnel']}" if connection["tunnel"] else ""
    return f"{_during(connection)}{_kind(connection['kind'])}{tunnel}: {_ends(connection)}"


def _during(connection: Mapping[str, Any]) -> str:
    part: Part | None = connection["during"]
    if part is None:
        return ""
    return f"{part.name} ({part.verdict}): " if part.verdict else f"{part.name}: "


def _kind(kind: str) -> str:
    return kind.upper().replace(" V", " v")


def _facts(report: Mapping[str, Any]) -> list[Fact]:
    connections = report["connections"]
    directions = [direction for connection in connections for subflow in connection["subflows"] for direction in subflow["directions"]]
    segments = sum(direction["segments"] for direction in directions)
    again = sum(direction["retransmissions"] for direction in directions)
    goodput = max((data["goodput_bps"] for connection in connections for data in connection["data"]), default=0.0)
    multipath = sum(connection["kind"] != "tcp" for connection in connections)
    return [
        Fact(value=str(len(connections)), words=f"connection{_s(len(connections))}, {multipath} of them Multipath TCP"),
        Fact(value=str(sum(len(connection["subflows"]) for connection in connections)), words="subflows: the TCP connections on the wire"),
        Fact(value=f"{number(goodput / 1e6)}", words="Mbit/s, the highest goodput of a connection"),
        Fact(value=percent(again / segments) if segments else "–", words="of the segments with data were sent again"),
    ]


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _overview(ordered: Sequence[tuple[int, Mapping[str, Any]]]) -> Table:
    columns = [
        Column(title="Connection", numeric=False),
        Column(title="Kind", numeric=False),
        Column(title="Subflows"),
        Column(title="From the client", unit="MB", help="Payload, each byte once"),
        Column(title="From the server", unit="MB", help="Payload, each byte once"),
        Column(
            title="Goodput",
            unit="Mbit/s",
            help="Of the end that sent more: bytes acknowledged, from the first to the last packet with data",
        ),
        Column(title="What stands out", numeric=False),
    ]
    rows = []
    for _, connection in ordered[:LISTED]:
        sent = [data["acked_bytes"] for data in connection["data"]]
        main = connection["data"][0 if sent[0] >= sent[1] else 1]
        rows.append(
            [
                Cell(text=f"{_during(connection)}{_ends(connection)}", css="words"),
                Cell(text=_kind(connection["kind"]), css="name"),
                Cell(text=str(len(connection["subflows"]))),
                Cell(text=number(sent[0] / 1e6)),
                Cell(text=number(sent[1] / 1e6)),
                Cell(text=number(main["goodput_bps"] / 1e6), css="strong"),
                Cell(text=connection["diagnosis"][0] if connection["diagnosis"] else "nothing", css="words"),
            ]
        )
    note = f"The first {LISTED} of {len(ordered)} connections; polypath pcap --json has all." if len(ordered) > LISTED else ""
    return Table(columns=columns, rows=rows, note=note)


def _files(report: Mapping[str, Any]) -> Table:
    columns = [
        Column(title="File", numeric=False),
        Column(title="Packets"),
        Column(title="Not read", help="Packets of which it is not known what is in them"),
        Column(title="Missing", help="Packets that the file itself says it has not"),
        Column(title="Where it breaks", numeric=False),
    ]
    rows = [
        [
            Cell(text=str(file["name"]), css="name"),
            Cell(text=str(file["packets"])),
            Cell(text=str(file["unread"])),
            Cell(text=str(file.get("missing", 0))),
            Cell(text=f"{file['broken']} (byte {file['broken_at_byte']})" if file["broken"] else "whole", css="words"),
        ]
        for file in report["files"]
    ]
    return Table(columns=columns, rows=rows)


def _messages(report: Mapping[str, Any]) -> Table | None:
    rows = [
        [
            Cell(text=Path(file["name"]).name, css="name"),
            Cell(text=f"{message['protocol']} {message['name']}", css="words"),
            Cell(text=f"{message['kind']}/{message['code']}"),
            Cell(text=str(message["count"])),
        ]
        for file in report["files"]
        for message in file["icmp"]
    ]
    columns = [
        Column(title="File", numeric=False),
        Column(title="Message", numeric=False),
        Column(title="Type/code"),
        Column(title="Packets"),
    ]
    return Table(columns=columns, rows=rows) if rows else None


def _connection(number_of: int, connection: Mapping[str, Any], series: pd.DataFrame) -> ConnectionView:
    names = line_names(connection)
    samples = series[series["connection"] == number_of]
    directions = []
    for side in _most_first(connection):
        sender = SENDERS[side]
        sent = sum(subflow["directions"][side]["bytes"] for subflow in connection["subflows"])
        if sent >= LITTLE:
            figures = _figures(f"connection-{number_of}-{sender}", connection, side, names, samples[samples["sender"] == sender])
            directions.append(DirectionView(title=f"What the {sender} sent", figures=figures))
    return ConnectionView(
        name=f"connection-{number_of}",
        title=_title(connection),
        words=_words(connection),
        diagnosis=[
            *(connection["diagnosis"] or ["Nothing stands out."]),
            *(connection[last] for last in ("ended", "joined") if connection[last]),
        ],
        subflows=_subflows(connection),
        icmp=_errors(connection, names),
        directions=directions,
    )


def _most_first(connection: Mapping[str, Any]) -> list[int]:
    """The directions, that which carries more first."""
    return sorted(range(2), key=lambda side: -connection["data"][side]["sent_bytes"])


def line_names(connection: Mapping[str, Any]) -> list[str]:
    """A subflow's name in legends: its number, and its addresses where they are short; the
    table has the ports.
    """
    marks = [" (join, backup)" if subflow["backup"] else " (join)" if subflow["is_join"] else "" for subflow in connection["subflows"]]
    bare = [tuple(subflow[end].rpartition(":")[0] for end in SENDERS) for subflow in connection["subflows"]]
    names = [f"{index + 1}: {client} → {server}{mark}" for index, ((client, server), mark) in enumerate(zip(bare, marks, strict=True))]
    if max(len(name) for name in names) > LONGEST_NAME:
        names = [f"subflow {index + 1}{mark}" for index, mark in enumerate(marks)]
    return names


def _words(connection: Mapping[str, Any]) -> str:
    parts = []
    for side in _most_first(connection):
        sender, data = SENDERS[side], connection["data"][side]
        if data["sent_bytes"] > 0:
            again = (
                f", {percent(data['reinjected_bytes'] / data['sent_bytes'])} of it on a second subflow too"
                if data["reinjected_bytes"]
                else ""
            )
            parts.append(f"the {sender} sent {number(data['sent_bytes'] / 1e6)} MB at {number(data['goodput_bps'] / 1e6)} Mbit/s{again}")
    said = "; ".join(parts) or "no data"
    return said[0].upper() + said[1:] + "."


def _subflows(connection: Mapping[str, Any]) -> Table:
    columns = [
        Column(title="Subflow", numeric=False),
        Column(title="From", numeric=False),
        Column(title="Data", unit="MB", help="Payload, each byte once"),
        Column(title="Goodput", unit="Mbit/s", help="Bytes acknowledged, from the first to the last packet with data"),
        Column(title="Segments", help="Packets with data, those sent again included"),
        Column(title="Sent again", help="Segments that this subflow had sent before: after a loss, or when it seemed one"),
        Column(title="Reordered", help="Segments overtaken by later ones"),
        Column(title="Reinjected", unit="kB", help="Data that another subflow had carried before"),
        Column(
            title="MPTCP again",
            unit="kB",
            help="Data that MPTCP sent again on the subflow that had carried them, with new sequence numbers; Linux counts such "
            "segments, and those of reinjections, in MPTCPRetrans",
        ),
        Column(title="RTT", unit="ms", help="Round-trip time, median"),
        Column(title="One way", unit="ms", help="Median; known with captures of both ends"),
        Column(title="Window full", help="Share of the time in which the receive window had no room for a segment"),
        Column(title="MSS said", unit="bytes", help="Largest segment that this end announced that it takes"),
        Column(title="Longest segment", unit="bytes", help="Payload of the longest segment that this end sent"),
        Column(title="Path MTU", unit="bytes", help="Longest packet with data that was acknowledged, with its headers"),
    ]
    rows = []
    for index, subflow in enumerate(connection["subflows"]):
        mark = " (join, backup)" if subflow["backup"] else " (join)" if subflow["is_join"] else ""
        for sender, sent in zip(SENDERS, subflow["directions"], strict=True):
            if sender == "server" and not sent["segments"]:
                continue
            name = f"{index + 1}: {subflow['client']} → {subflow['server']}{mark}" if sender == "client" else ""
            rows.append(
                [
                    Cell(text=name, css="ends"),
                    Cell(text=sender),
                    Cell(text=number(sent["bytes"] / 1e6)),
                    Cell(text=number(sent["goodput_bps"] / 1e6), css="strong"),
                    Cell(text=str(sent["segments"])),
                    Cell(text=str(sent["retransmissions"])),
                    Cell(text=str(sent["reordered"])),
                    Cell(text=number(sent["reinjected_bytes"] / 1e3, 1)),
                    Cell(text=number(sent["mptcp_retransmitted_bytes"] / 1e3, 1)),
                    Cell(text=_median(sent["rtt"])),
                    Cell(text=_median(sent["one_way_delay"])),
                    Cell(text="–" if sent["window_limited_share"] is None else percent(sent["window_limited_share"], 0)),
                    Cell(text=str(sent["mss_announced"] or "–")),
                    Cell(text=str(sent["mss_used"] or "–")),
                    Cell(text=str(sent["pmtu_seen"] or "–")),
                ]
            )
    # A column that says nothing of any subflow takes room from those that do.
    said = [at for at in range(len(columns)) if at < 5 or any(row[at].text not in ("–", "0", "0.0", "0 %") for row in rows)]
    return Table(columns=[columns[at] for at in said], rows=[[row[at] for at in said] for row in rows])


def _median(spread: Mapping[str, Any] | None) -> str:
    return "–" if spread is None else number(spread["p50_ms"], 1)


def _errors(connection: Mapping[str, Any], names: Sequence[str]) -> Table | None:
    columns = [
        Column(title="Subflow", numeric=False),
        Column(title="Error", numeric=False),
        Column(title="From", numeric=False),
        Column(title="About packets of the", numeric=False),
        Column(title="First", unit="s", help="Since the first packet of the captures"),
        Column(title="Packets"),
        Column(title="MTU told", unit="bytes"),
        Column(title="Longer ones after", help="Packets longer than that MTU which were sent after the first of these messages"),
    ]
    rows = [
        [
            Cell(text=name, css="ends"),
            Cell(text=f"{message['protocol']} {message['name']}", css="name"),
            Cell(text=message["from"], css="words"),
            Cell(text=message["about"]),
            Cell(text=number(message["first_s"], 3)),
            Cell(text=str(message["count"])),
            Cell(text=str(message["mtu"] or "–")),
            Cell(text=str(message["longer_after"]) if message["mtu"] else "–"),
        ]
        for name, subflow in zip(names, connection["subflows"], strict=True)
        for message in subflow["icmp"]
    ]
    return Table(columns=columns, rows=rows) if rows else None


def _figures(prefix: str, connection: Mapping[str, Any], side: int, names: Sequence[str], rows: pd.DataFrame) -> list[Figure]:
    sender, receiver = SENDERS[side], SENDERS[1 - side]
    subflows = rows[rows["subflow"].notna()].assign(label="")
    subflows["line"] = [names[int(number)] for number in subflows["subflow"]]
    whole = rows[rows["subflow"].isna()]
    carried = [name for name, subflow in zip(names, connection["subflows"], strict=True) if subflow["directions"][side]["segments"]]
    # All figures show the same time: from the connection's first packet to the last of this side.
    span = (connection["began_s"], max(float((rows["time_s"] + rows["bin_s"]).max()), connection["began_s"] + 1e-3))
    figures = [_goodput(prefix, subflows, names, span), _progress(prefix, connection, subflows, names, side, span)]
    rtt = subflows[subflows["rtt_ms"].notna()]
    if len(rtt):
        caption = "From a segment that was sent once to the acknowledgement that covers it; means of short spans of time."
        figures.append(over_time(f"{prefix}-rtt", "Round-trip time", caption, rtt, "rtt_ms", "RTT, ms", lines=names, span=span))
    figures.append(_window(prefix, whole, receiver, span))
    sizes = pd.DataFrame(
        [
            {"line": name, "bytes": size, "segments": count}
            for name, subflow in zip(names, connection["subflows"], strict=True)
            for size, count in subflow["directions"][side]["sizes"]
        ]
    )
    caption = (
        f"Payload of the segments that the {sender} sent, bytes, and which share of the subflow's segments had it. Most are as long as the "
        "path lets them be, if enough data waits."
    )
    figures.append(size_histogram(f"{prefix}-sizes", "Segment sizes", caption, sizes, names if carried else []))
    return figures


Span = tuple[float, float]


def _goodput(prefix: str, subflows: pd.DataFrame, names: Sequence[str], span: Span) -> Figure:
    """Bytes that arrived over bins of equal length, so that lines of different bins can be
    compared.
    """
    since, until = span
    step = max((until - since) / 100, float(subflows["bin_s"].max()))
    count = max(1, math.ceil((until - since) / step))
    parts = []
    for line, samples in subflows.groupby("line", sort=False):
        # How much had arrived until the end of each span; between bins nothing was.
        ends = [since + (index + 1) * step for index in range(count)]
        bins = (samples["time_s"] + samples["bin_s"] / 2).searchsorted(ends)
        arrived = [0, *[int(samples["delivered_bytes"].iloc[at - 1]) if at else 0 for at in bins]]
        rate = [(after - before) * 8 / step / 1e6 for before, after in itertools.pairwise(arrived)]
        parts.append(pd.DataFrame({"label": "", "line": line, "time_s": [end - step / 2 for end in ends], "mbps": rate}))
    caption = (
        f"Bytes that the receiver has acknowledged, also those behind a hole (SACK), means over {_seconds(step)}. Without SACK what "
        "waited behind a hole counts when the hole is filled, all at once: a peak then may be higher than any link."
    )
    return over_time(f"{prefix}-goodput", "Goodput of each subflow", caption, pd.concat(parts), "mbps", "Mbit/s", lines=names, span=span)


def _seconds(time_s: float) -> str:
    return f"{time_s:.3g} s" if time_s >= 0.9995 else f"{time_s * 1e3:.3g} ms"


def _progress(prefix: str, connection: Mapping[str, Any], subflows: pd.DataFrame, names: Sequence[str], side: int, span: Span) -> Figure:
    is_multipath = connection["kind"] != "tcp"
    reached = subflows["dsn"] if is_multipath else subflows["sent_bytes"].astype(float)
    drawn = subflows[["line", "time_s"]].assign(
        reached_mb=reached / 1e6,
        reinjected_mb=subflows["reinjected_dsn"].astype(float) / 1e6,
        resent_mb=subflows["mptcp_retransmitted_dsn"].astype(float) / 1e6,
    )
    events = pd.DataFrame(
        [
            {"time_s": message["first_s"], "words": f"{message['name']}" + (f": {message['mtu']} bytes" if message["mtu"] else "")}
            for subflow in connection["subflows"]
            for message in subflow["icmp"]
            if message["about"] == SENDERS[side]
        ],
        columns=["time_s", "words"],
    )
    caption = (
        "Where in the connection's data (its data sequence numbers, counted from 0) stands what each subflow carries. A flat line carries "
        "nothing new; one that lies below another carries data that the receiver has to wait for. A diamond is a reinjection: data that "
        "another subflow had carried before."
        if is_multipath
        else "How many bytes of the stream were sent. Where the line lies flat, nothing new was sent."
    )
    if drawn["resent_mb"].notna().any():
        caption += " A triangle is data that MPTCP sent again on the subflow that had carried them."
    if not events.empty:
        caption += " A dashed line is an ICMP error that reached the sender."
    title = "Progress of the data, by subflow" if is_multipath else "Progress of the data"
    return progress(f"{prefix}-progress", title, caption, drawn, names, events, span)


def _window(prefix: str, whole: pd.DataFrame, receiver: str, span: Span) -> Figure:
    parts = [
        whole.assign(line="sent and not yet acknowledged", kb=whole["in_flight_bytes"] / 1e3),
        whole.assign(line="window that the receiver offers", kb=whole["window_bytes"].astype(float) / 1e3),
    ]
    caption = (
        f"The {receiver} offers a window of so many bytes; no more may be under way. Where the lower line touches the upper one, the "
        "receiver, not the network, holds the connection back."
    )
    drawn = pd.concat(parts).assign(label="")
    lines = [str(part["line"].iloc[0]) for part in parts]
    return over_time(f"{prefix}-window", "Receive window", caption, drawn, "kb", "kB", lines=lines, span=span)
