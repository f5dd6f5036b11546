"""Networks drawn from what is known of the paths: what is uncertain differs from one to the next,
by number alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from polypath.study import Packets, Rate, Share, Time

from ._paths import Path, Span, Way

# A packet of full size with Ethernet's header, which a queue of packets is counted in.
_PACKET_BITS = 1514 * 8
_FEWEST_PACKETS = 4
_FEWEST_STEPS = 1000


@dataclass(frozen=True, kw_only=True)
class Line:
    """A path as it is in one network."""

    down: Rate
    up: Rate
    delay: Time
    """One way."""
    jitter: Time
    """One way."""
    loss: Share
    down_queue: Packets
    up_queue: Packets
    outage: Time
    every: Time
    begins: Time
    """When the first outage begins, since the start of the run; the others follow, `every` after
    the one before.
    """
    step: Time
    up_rates: tuple[Rate, ...]
    down_rates: tuple[Rate, ...]
    """What was measured over time, a rate for each step, from a moment of this network's own."""


def drawn(paths: Sequence[Path], number: int) -> tuple[Line, ...]:
    """The network of this number: the same on every machine, and whatever other networks are drawn.

    Figures are uniform between their ends; a queue, of which people know the order of magnitude, is
    so in its logarithm. A path's two rates have one place between their ends, since what slows a
    line down does so in both directions.
    """
    return tuple(_line(path, number, index) for index, path in enumerate(paths))


def _line(path: Path, number: int, index: int) -> Line:
    def at(figure: str, span: Span) -> float:
        return span.low if span.exact else span.at(_uniform(number, index, figure))

    logarithm = Span(low=math.log(path.queue.low), high=math.log(path.queue.high))
    wait_s = math.exp(at("queue", logarithm)) / 1e9
    down, up = (Rate.base(_rounded(at("rate", path.usual(way)), 1000)) for way in ("down", "up"))
    where = _uniform(number, index, "moment")
    rtt = at("rtt", path.rtt)
    return Line(
        down=down,
        up=up,
        delay=Time.base(_rounded(rtt / 2, _FEWEST_STEPS)),
        jitter=Time.base(_rounded(min(at("jitter", path.jitter), rtt) / 2, _FEWEST_STEPS)),
        loss=Share(f"{100 * at('loss', path.loss):.4f}%"),
        down_queue=_packets(down, wait_s),
        up_queue=_packets(up, wait_s),
        outage=Time.base(_rounded(at("outage", path.outage), _FEWEST_STEPS)),
        every=(every := Time.base(_rounded(at("every", path.every), _FEWEST_STEPS))),
        begins=Time.base(_rounded(_uniform(number, index, "begins") * every, _FEWEST_STEPS)),
        step=Time.base(0 if path.measured is None else path.measured.step),
        up_rates=_rates(path, "up", where),
        down_rates=_rates(path, "down", where),
    )


def _rates(path: Path, way: Way, where: float) -> tuple[Rate, ...]:
    rates = () if path.measured is None else path.measured.rates(way)
    first = int(where * len(rates))
    return tuple(Rate.base(_rounded(rate, 1000)) for rate in (*rates[first:], *rates[:first]))


def _packets(rate: Rate, wait_s: float) -> Packets:
    return Packets.base(max(_FEWEST_PACKETS, round(int(rate) * wait_s / _PACKET_BITS)))


def _rounded(value: float, step: int) -> int:
    return int(value // step) * step


def _uniform(number: int, index: int, figure: str) -> float:
    """At least 0 and below 1, from a hash: no generator of a library has to stay as it is."""
    digest = hashlib.sha256(f"{number} {index} {figure}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
