"""Figures of a cell that must be mistakes: a packet that takes longer than the run, a queue without
room for one, an event after the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._elements import Delay, Down, Mtu, Policer, RateLimit, Shape, Table, Trace, Wireless, limit_of
from ._errors import Where
from ._flows import Endpoints, Flow
from ._quantity import Packets, Rate, Size, Time
from ._scenario import TAIL_NS
from ._setup import Cell
from ._topology import Link
from ._wireless import RADIOS

# Of a run: below it no figure means anything.
SHORTEST_NS = 1_000_000
# Of a series in a run; a table of more takes gigabytes.
MOST_SAMPLES = 1_000_000
# Of what repeats on a link.
MOST_CHANGES = 100_000


def check_figures(cell: Cell) -> None:
    """Raises `SetupError` at the first one."""
    duration = cell.setup.duration
    if int(duration) < SHORTEST_NS:
        raise cell.error(("duration",), f"a run of {duration} is too short to measure anything; the shortest is 1ms")
    _check_samples(cell)
    for name, link in cell.setup.topology.links.items():
        for side in ("both", "forward", "backward"):
            direction = getattr(link, side)
            where: Where = ("topology", "links", name, side)
            if isinstance(direction, Shape):
                _check_shape(cell, where, link, direction)
            else:
                for index, element in enumerate(direction or ()):
                    _check_element(cell, (*where, index), link, element, _longest(link, direction))
    for name, flow in cell.setup.flows.items():
        _check_flow(cell, ("flows", name), flow)


def _check_samples(cell: Cell) -> None:
    series, duration = cell.setup.measure.series, cell.setup.duration
    if series and int(duration) > MOST_SAMPLES * int(series):
        where: Where = ("measure", "series") if "series" in cell.setup.measure.model_fields_set else ("duration",)
        samples = f"{int(duration) // int(series):,} samples of every subflow and link"
        raise cell.error(
            where, f"every {series} of {duration} makes {samples}; the most is {MOST_SAMPLES:,}: measure less often, or not (null)"
        )


def _check_shape(cell: Cell, where: Where, link: Link, shape: Shape) -> None:
    if shape.rate is not None:
        packet = _packet(link, shape.framing, shape.mtu)
        _check_rate(cell, (*where, "rate"), shape.rate, packet)
        _check_queue(cell, (*where, "queue"), shape.queue, packet, shape.rate)
        later = [(("changes", index, "rate"), change.rate) for index, change in enumerate(shape.changes) if change.rate is not None]
        for place, rate in later:
            _check_rate(cell, (*where, *place), rate, packet)
    if shape.one_way is not None:
        delays = [shape.one_way, *(change.delay for change in shape.changes if change.delay is not None)]
        _check_delays(cell, where, delays, shape.jitter)
    for index, change in enumerate(shape.changes):
        _check_time(cell, (*where, "changes", index, "at"), "the change comes", change.at)
    _check_repeat(cell, (*where, "repeat"), shape.repeat, len(shape.changes))
    if shape.every is not None and shape.outage is not None:
        _check_time(cell, (*where, "every"), "the first outage begins", Time.base(shape.every - shape.outage))
        _check_repeat(cell, (*where, "every"), shape.every, 2)


def _check_element(cell: Cell, where: Where, link: Link, element: Any, longest: Size | None) -> None:
    match element:
        case RateLimit():
            packet = _packet(link, element.framing, longest)
            _check_rate(cell, (*where, "rate"), element.rate, packet)
            _check_queue(cell, (*where, "queue"), element.queue, packet, element.rate)
            for index, change in enumerate(element.changes):
                _check_rate(cell, (*where, "changes", index, "to"), change.to, packet)
        case Policer():
            packet = _packet(link, element.framing, longest)
            _check_rate(cell, (*where, "rate"), element.rate, packet)
            if int(element.burst) < packet:
                sentence = f"no full packet finds tokens in a bucket of {element.burst}: with its framing it has {packet} bytes"
                raise cell.error((*where, "burst"), f"{sentence}, which is the least")
        case Delay():
            _check_delays(cell, where, [element.delay, *(change.to for change in element.changes)], element.jitter)
        case Table():
            _check_queue(cell, (*where, "queue"), element.queue, _packet(link, element.framing, longest))
            for part in element.chain:
                if isinstance(part, Delay):
                    _check_delays(cell, where, [part.delay, *(change.to for change in part.changes)], part.jitter)
        case Trace():
            _check_queue(cell, (*where, "queue"), element.queue, _packet(link, element.framing, longest))
        case Wireless():
            usual = RADIOS[element.radio]
            delay, jitter = element.delay or Time.base(usual.delay_ns), element.jitter
            _check_queue(cell, (*where, "queue"), element.queue, _packet(link, Size("14B"), longest))
            _check_delays(cell, where, [delay], Time.base(usual.jitter_ns) if jitter is None else jitter)
        case Down():
            for index, (start, _) in enumerate(element.spans):
                _check_time(cell, (*where, "spans", index), "the outage begins", start)
    if getattr(element, "repeat", None) is not None:
        parts = element.chain if isinstance(element, Table) else (element,)
        changes = sum(len(part.spans if isinstance(part, Down) else part.changes) for part in parts)
        _check_repeat(cell, (*where, "repeat"), element.repeat, changes)
    # A table was recorded, and may go on for longer than the run.
    for index, change in enumerate(getattr(element, "changes", ())):
        _check_time(cell, (*where, "changes", index, "at"), "the change comes", change.at)


def _longest(link: Link, direction: Any) -> Size | None:
    """What an MTU inside a direction lets pass."""
    return min((element.size for element in direction or () if isinstance(element, Mtu)), default=None)


def _packet(link: Link, framing: Size, longest: Size | None) -> int:
    """Bytes of a full packet on a link, its framing included."""
    sizes: Iterator[Size] = (link.mtu if end.mtu is None else end.mtu for end in link.ends)
    return min([*map(int, sizes), *([] if longest is None else [int(longest)])]) + int(framing)


def _check_rate(cell: Cell, where: Where, rate: Rate, packet: int) -> None:
    takes, lasts = packet * 8 * 1_000_000_000 // int(rate), int(cell.setup.duration)
    if takes > lasts:
        least = Rate.base(-(-packet * 8 * 1_000_000_000 // lasts))
        sentence = f"at {rate} a packet of {packet} bytes takes {Time.about(takes / 1e9)}, longer than the run; the least is {least}"
        raise cell.error(where, f"{sentence}, and `up: false` in `changes` cuts a link")


def _check_queue(cell: Cell, where: Where, queue: Packets | Size | Time, packet: int, rate: Rate | None = None) -> None:
    limit = queue if rate is None else limit_of(queue, rate)
    # None at all has a sentence of its own.
    if not isinstance(limit, Packets) and int(limit) < packet and int(queue) > 0:
        raise cell.error(where, f"no full packet fits into a queue of {queue}: with its framing it has {packet} bytes, which is the least")


def _check_delays(cell: Cell, where: Where, delays: list[Time], jitter: Time) -> None:
    """`where` is what has the fields `delay` and `jitter`."""
    longest, shortest = max(delays), min(delays)
    if longest >= cell.setup.duration:
        sentence = f"a packet takes {longest}, and the run lasts {cell.setup.duration}: nothing would arrive; the delay must be shorter"
        raise cell.error((*where, "delay"), sentence)
    if jitter > shortest:
        sentence = f"a jitter of {jitter} around a delay of {shortest} lets packets arrive before they were sent; the most is {shortest}"
        raise cell.error((*where, "jitter"), sentence)


def _check_time(cell: Cell, where: Where, what: str, at: Time) -> None:
    if at >= cell.setup.duration:
        raise cell.error(where, f"{what} at {at}, and the run ends at {cell.setup.duration}")


def _check_repeat(cell: Cell, where: Where, repeat: Time | None, changes: int) -> None:
    if repeat and (repeated := int(cell.setup.duration) // int(repeat) * changes) > MOST_CHANGES:
        sentence = f"every {repeat} in {cell.setup.duration} makes {repeated:,} changes of this link; the most is {MOST_CHANGES:,}"
        raise cell.error(where, sentence)


def _check_flow(cell: Cell, where: Where, flow: Flow) -> None:
    lasts = getattr(flow.app, "duration", None)
    if lasts is not None and int(flow.start) + int(lasts) > int(cell.setup.duration) + TAIL_NS:
        sentence = f"the application begins at {flow.start} and lasts {lasts}, and the run ends at {cell.setup.duration}"
        raise cell.error((*where, "app", "duration"), sentence)
    if flow.transport != "mptcp" or not isinstance(flow.path_manager, Endpoints):
        return
    left = int(cell.setup.duration) - int(flow.start)
    for index, endpoint in enumerate(flow.path_manager.addresses):
        if endpoint.remove_at is not None and int(endpoint.remove_at) >= left:
            goes = f"the address goes away {endpoint.remove_at} after the connection begins"
            sentence = f"{goes}, and the run ends {Time.base(left)} after it"
            raise cell.error((*where, "path_manager", "addresses", index, "remove_at"), sentence)
