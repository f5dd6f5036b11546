"""The paths between a host and the world, as somebody knows them: each figure a span, from the
least to the most that it may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polypath.study import Rate, Share

from ._errors import AdviceError

Way = Literal["up", "down"]
MIN_RATE = int(Rate("100kbit"))
MOST_PATHS = 8
"""Linux has at most eight subflows beside the first, and every path costs runs."""


@dataclass(frozen=True, kw_only=True)
class Span:
    """From the least to the most that a figure may be, in its base unit (bit/s, ns, a fraction)."""

    low: float
    high: float

    def at(self, where: float) -> float:
        """The figure at a share of the way from the least to the most."""
        return self.low + (self.high - self.low) * where

    @property
    def middle(self) -> float:
        return self.at(0.5)

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How the rates of a path change over time; after the last they begin anew."""

    file: str
    """The study that has it."""
    step: int
    """Each rate counts for so long, ns."""
    up: tuple[float, ...] = ()
    down: tuple[float, ...] = ()
    """bit/s; none where a direction has one rate."""

    def rates(self, way: Way) -> tuple[float, ...]:
        return self.up if way == "up" else self.down


@dataclass(frozen=True, kw_only=True)
class Path:
    """One path, as a person, a file, a host or a capture describes it."""

    name: str
    down: Span
    """Rate from the world to the host, bit/s."""
    up: Span
    """Rate from the host to the world, bit/s."""
    rtt: Span
    """Round-trip time of the empty path, ns."""
    jitter: Span = Span(low=0, high=0)
    """Of the round-trip time, ns: it is so much longer or shorter."""
    loss: Span = Span(low=0, high=0)
    """Share of the packets that are lost in each direction other than in a full queue."""
    queue: Span = Span(low=50e6, high=200e6)
    """How long a packet waits in the bottleneck's queue when it is full, ns. An unknown value lies
    between these.
    """
    outage: Span = Span(low=0, high=0)
    """How long nothing passes, ns, again and again; none where this is 0."""
    every: Span = Span(low=0, high=0)
    """From the beginning of an outage to that of the next, ns."""
    measured: Measured | None = None
    """Rates that change while a connection lasts, of a recorded link in a study."""
    device: str | None = None
    address: str | None = None
    """Of the host on this path."""
    gateway: str | None = None

    def usual(self, way: Way) -> Span:
        """The rate of a direction, the mean where it was measured over time."""
        rates = () if self.measured is None else self.measured.rates(way)
        mean = sum(rates) / len(rates) if rates else 0.0
        return Span(low=mean, high=mean) if rates else self.up if way == "up" else self.down

    @property
    def outages(self) -> str:
        """In words, where it has some."""
        return f"outage {_times(self.outage)} every {_times(self.every)}"

    def text(self) -> str:
        """The path in words that `--path` reads."""
        parts = [f"{_rates(self.down)}/{_rates(self.up)}", _times(self.rtt)]
        if self.jitter.high:
            parts.append(f"jitter {_times(self.jitter)}")
        if self.loss.high:
            low, high = (Share(f"{100 * share:.4f}".rstrip("0").rstrip(".") + "%") for share in (self.loss.low, self.loss.high))
            parts.append(f"loss {high}" if self.loss.exact else f"loss {str(low).removesuffix('%')}..{high}")
        parts.append(f"queue {_times(self.queue)}")
        if self.outage.high:
            parts.append(self.outages)
        places = (("dev", self.device), ("address", self.address), ("via", self.gateway))
        return " ".join([*parts, *(f"{word} {value}" for word, value in places if value)])


def _rates(span: Span) -> str:
    low, high = (f"{rate / 1e6:.4g}" for rate in (span.low, span.high))
    return f"{high}mbit" if low == high else f"{low}..{high}mbit"


def _times(span: Span) -> str:
    unit, ns = ("s", 1e9) if span.low >= 1e9 else ("ms", 1e6)
    low, high = (f"{time / ns:.4g}" for time in (span.low, span.high))
    return f"{high}{unit}" if low == high else f"{low}..{high}{unit}"


def checked(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The paths, if there may be so many of them with these names.

    Raises `AdviceError` with one sentence.
    """
    if not paths:
        raise AdviceError('there is no path to advise on: describe one, like --path "50/10mbit 20ms"')
    if len(paths) > MOST_PATHS:
        raise AdviceError(f"{len(paths)} paths are too many; the most is {MOST_PATHS}, and no kernel would use more subflows than nine")
    names = [path.name for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AdviceError(f'two paths are called "{twice}": give one of them another `name`')
    return paths
