"""`polypath watch`: live subflows, of any program."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from polypath.sockets import Entry, History, Sockets, SocketsError, devices

from ._console import BARS, out, time_of

_LEAST_S = 0.01
# A terminal is redrawn no more often than an eye can follow.
_REDRAW_S = 0.1
# Widths in characters from which columns that a narrow terminal can do without are shown.
_ROOMY, _WIDE = 120, 150


def watch(
    netns: Annotated[str | None, typer.Option(help="A network namespace: a name of `ip netns`, or a file. Default: this one.")] = None,
    tcp: Annotated[bool, typer.Option("--tcp", help="Show plain TCP connections as well.")] = False,
    interval: Annotated[str, typer.Option(help="Time between two looks, from 10ms.")] = "500ms",
    lasting: Annotated[str | None, typer.Option("--for", help="End after this time; default: at Ctrl-C.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one table, with rates over one interval, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON a subflow and look, and one when it closes.")] = False,
) -> None:
    """Show the subflows of this host, of any program: windows, round-trip times, rates,
    retransmissions, MSS and PMTU, bytes.

    Subflows are kept apart by their connection's MPTCP token; those that close keep their last
    counters while their connection lives.
    """
    step = time_of("--interval", interval, SocketsError) / 1e9
    if step < _LEAST_S:
        raise SocketsError(f"--interval {interval} is too short: take 10ms or more")
    end = time.monotonic() + time_of("--for", lasting, SocketsError) / 1e9 if lasting is not None else float("inf")
    sockets, history = Sockets(netns), Kept()
    try:
        if once:
            _look(sockets, history, tcp=tcp)
            time.sleep(step)
            seen = _look(sockets, history, tcp=tcp)
            _print_lines(seen, history.devices) if as_json else out.print(_picture(history, netns, tcp=tcp))
        elif as_json:
            _stream(sockets, history, step, end, tcp=tcp)
        else:
            _show(sockets, history, netns, step, end, tcp=tcp)
    except KeyboardInterrupt:
        return


class Kept(History):
    """What was seen, what was not shown, and the devices that addresses belong to."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = 0
        """Live connections of plain TCP at the last look."""
        self.devices: dict[str, str] = {}


def _look(sockets: Sockets, history: Kept, *, tcp: bool) -> list[Entry]:
    live = sockets.look()
    # To ask for the devices takes a while; the counters are those of this moment.
    now = time.monotonic()
    shown = [subflow for subflow in live if tcp or subflow.token is not None]
    history.plain = sum(subflow.token is None for subflow in live)
    if any(subflow.source not in history.devices for subflow in shown):
        # An address that went since then stays unknown, and is not asked for again.
        history.devices |= {subflow.source: "" for subflow in shown} | devices(sockets.netns)
    return history.see(now, shown)


def _stream(sockets: Sockets, history: Kept, step: float, end: float, *, tcp: bool) -> None:
    due = time.monotonic()
    while True:
        _print_lines(_look(sockets, history, tcp=tcp), history.devices)
        due += step
        if due > end:
            return
        time.sleep(max(due - time.monotonic(), 0))


def _show(sockets: Sockets, history: Kept, netns: str | None, step: float, end: float, *, tcp: bool) -> None:
    due, drawn = time.monotonic(), 0.0
    with Live(console=out, screen=out.is_terminal, auto_refresh=False) as live:
        while True:
            _look(sockets, history, tcp=tcp)
            due += step
            if time.monotonic() - drawn >= _REDRAW_S or due > end:
                drawn = time.monotonic()
                live.update(_picture(history, netns, tcp=tcp), refresh=True)
            if due > end:
                return
            time.sleep(max(due - time.monotonic(), 0))


def line(entry: Entry, now: float, device: str | None = None) -> dict[str, Any]:
    """What `--json` says of a subflow; `now` in seconds since 1970; `device` has its source
    address.
    """
    fields = asdict(entry.last)
    fields.pop("token")
    return {
        "time": round(now, 6),
        "event": "closed" if entry.closed else "sample",
        "token": None if entry.token is None else f"{entry.token:08x}",
        "subflow": entry.number,
        "device": device or None,
        "sent_mbps": entry.sent_mbps,
        "received_mbps": entry.received_mbps,
        **fields,
    }


def _print_lines(entries: Iterable[Entry], places: Mapping[str, str]) -> None:
    now = time.time()
    for entry in entries:
        sys.stdout.write(json.dumps(line(entry, now, places.get(entry.last.source))) + "\n")
    sys.stdout.flush()


def _picture(history: Kept, netns: str | None, *, tcp: bool) -> RenderableType:
    connections = history.connections()
    if not connections and os.geteuid() and not tcp:
        return Text("without root the kernel does not say which sockets are subflows: use sudo, or --tcp for all connections")
    if not connections and tcp:
        return Text("no TCP connection now")
    if not connections:
        doctor = "polypath doctor" + (f" --netns {shlex.quote(netns)}" if netns else "")
        if history.plain:
            those = (
                "a plain TCP connection is there, whose program"
                if history.plain == 1
                else f"{history.plain} plain TCP connections are there, whose programs"
            )
            return Text(
                f"no MPTCP connection now; {those} did not ask for MPTCP (mptcpize run PROGRAM makes it, at both ends); "
                f"--tcp shows plain TCP, and {doctor} what else is lacking"
            )
        return Text(f"no MPTCP connection now; --tcp shows plain TCP, {doctor} what is lacking")
    # What carries most stands first: a program's control connection is not looked for.
    connections.sort(key=lambda entries: -sum(getattr(entry.last, field) for entry in entries for field in _BYTES))
    return Group(table(connections, out.width, history.devices), _closed(history, connections))


def table(connections: Sequence[Sequence[Entry]], width: int, places: Mapping[str, str] | None = None) -> Table:
    """A line a subflow, with the device of its source address by `places`; an MPTCP connection
    begins with a line of its sums.
    """
    shape = _Shape(roomy=width >= _ROOMY, wide=width >= _WIDE)
    heads = ["cwnd", *["ssthresh"] * shape.roomy, "srtt\nms", "out\nMbit/s", "in\nMbit/s", "", "re-\nsent"]
    heads += [*["MSS", "PMTU"] * shape.roomy, "out\nMB", "in\nMB"]
    columns: list[Column | str] = ["connection, subflow", *["cc"] * shape.wide]
    rows = Table(*columns, *(Column(head, justify="right", no_wrap=True) for head in heads), box=box.SIMPLE_HEAD, pad_edge=False)
    for entries in connections:
        if entries[0].token is not None:
            cells = [f"MPTCP {entries[0].token:08x}", *[""] * shape.wide, "", *[""] * shape.roomy, ""]
            cells += [*(_mbps(_sum(entries, which)) for which in _RATES), _spark(_together(entries), shape.bars)]
            cells += [str(sum(entry.last.retransmissions for entry in entries)), *["", ""] * shape.roomy]
            rows.add_row(*cells, *(_megabytes(sum(getattr(entry.last, field) for entry in entries)) for field in _BYTES), style="bold")
        for entry in entries:
            rows.add_row(*_row(entry, shape, (places or {}).get(entry.last.source, "")), style="dim" if entry.closed else "")
    return rows


_RATES = ("sent_mbps", "received_mbps")
_BYTES = ("bytes_acked", "bytes_received")


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """What there is room for."""

    roomy: bool
    wide: bool

    @property
    def bars(self) -> int:
        return 16 if self.wide else 8


def _row(entry: Entry, shape: _Shape, device: str) -> list[str]:
    last = entry.last
    ports = (f":{last.source_port}", f":{last.destination_port}") if shape.wide else ("", "")
    state = "closed" if entry.closed else last.state
    name = f"  {entry.number}  " if entry.token is not None else "TCP  "
    # Where there is little room, the device stands for the address.
    source = last.source if shape.roomy or not device else device
    name += f"{device} " * (shape.roomy and bool(device)) + f"{source}{ports[0]} > {last.destination}{ports[1]}"
    ssthresh, srtt = "" if last.ssthresh is None else str(last.ssthresh), "" if last.srtt_ms is None else f"{last.srtt_ms:.1f}"
    row = [" ".join([name, *["backup"] * last.backup, *[state] * (state != "established")]), *[last.cc] * shape.wide]
    row += [str(last.cwnd), *[ssthresh] * shape.roomy, srtt]
    row += [*(_mbps(getattr(entry, which)) for which in _RATES), _spark(list(entry.rates), shape.bars)]
    row += [str(last.retransmissions), *[str(last.mss), str(last.pmtu)] * shape.roomy]
    return [*row, *(_megabytes(getattr(last, field)) for field in _BYTES)]


def _closed(history: History, connections: Sequence[Sequence[Entry]]) -> Text:
    shown = {id(entry) for entries in connections for entry in entries}
    gone = [entry for entry in history.closed if id(entry) not in shown]
    if not gone:
        return Text("")
    amount = sum(entry.last.bytes_acked + entry.last.bytes_received for entry in gone)
    kind = "subflow" if len(gone) == 1 else "subflows"
    return Text(f"{len(gone)} {kind} of connections that have ended, {_megabytes(amount)} MB", style="dim")


def _together(entries: Sequence[Entry]) -> list[float]:
    """Sums of the subflows' rates; they end at the same look."""
    living = [list(entry.rates) for entry in entries if not entry.closed]
    longest = max((len(rates) for rates in living), default=0)
    padded = [[0.0] * (longest - len(rates)) + rates for rates in living]
    return [sum(values) for values in zip(*padded, strict=True)]


def _spark(rates: Sequence[float], bars: int) -> str:
    """The last rates as bars, the largest of them full."""
    kept = rates[-bars:]
    most = max(kept, default=0.0)
    return "".join(BARS[round(rate / most * (len(BARS) - 1))] if most > 0 else BARS[0] for rate in kept)


def _sum(entries: Sequence[Entry], which: str) -> float | None:
    values = [getattr(entry, which) for entry in entries if getattr(entry, which) is not None]
    return sum(values) if values else None


def _mbps(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.2f}"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.2f}"
