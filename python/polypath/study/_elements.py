"""What a link does to packets: a chain of elements per direction, or one line of figures that
stands for the usual chain.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, PrivateAttr, Tag, model_validator

from . import _traces
from ._aqm import Aqm, Red, check_aqm
from ._errors import written
from ._model import Model, Undecided, kind_of
from ._placeholder import UNDECIDED, is_placeholder
from ._quantity import Packets, Rate, Share, Size, Time, check_written
from ._wireless import RADIOS

# The fastest Ethernet that is common; beyond some 430 gbit a bare ACK takes less than the
# nanosecond in which all engines count.
MOST_RATE = Rate("400gbit")


def _possible(rate: Rate) -> Rate:
    if isinstance(rate, int) and rate == 0:
        raise ValueError("a rate of zero lets nothing pass; to cut a link for a while, use `up: false` in `changes`")
    if isinstance(rate, int) and rate > MOST_RATE:
        raise ValueError(f"{rate} is faster than any engine can count; the most is {MOST_RATE}")
    return rate


LinkRate = Annotated[Rate, AfterValidator(_possible)]
Queue = Packets | Size
TimedQueue = Packets | Size | Time


def _queue(value: Any) -> Any:
    """One clear sentence instead of one for each member of the union."""
    if isinstance(value, Packets | Size | Time):
        return value
    for kind in (Packets, Size, Time):
        try:
            return kind(value)
        except ValueError:
            continue
    if isinstance(value, str):
        check_written(value, "queue length", "100packets")
    raise ValueError(f'{written(value)} is no queue length; write packets or bytes, like "100packets" or "64KiB"')


def _untimed(value: Any) -> Any:
    queue = _queue(value)
    if isinstance(queue, Time):
        raise ValueError(f'a queue of {queue} needs a fixed rate, which this link has not: write packets or bytes, like "100packets"')
    return queue


QueueLimit = Annotated[Queue, BeforeValidator(_untimed)]
"""Of a link without a fixed rate."""
TimedQueueLimit = Annotated[TimedQueue, BeforeValidator(_queue)]
"""A time is so many bytes as the rate carries in it."""


# Of an IP packet.
_FULL = 1500


def limit_of(queue: TimedQueue, rate: Rate) -> Packets | Size:
    """A queue in packets or bytes."""
    return Size.base(int(rate) * int(queue) // (8 * 10**9)) if isinstance(queue, Time) else queue


def _check_timed(queue: Any, rates: Sequence[Any]) -> None:
    """Raises ValueError for a queue that is a time of a rate that changes."""
    if isinstance(queue, Time) and rates:
        raise ValueError(f'a queue of {queue} needs a fixed rate, and this one changes: write packets or bytes, like "100packets"')


def check_repeat(repeat: Any, parts: Any) -> None:
    """Raises ValueError where changes, spans or rows begin anew before all of them have come, or
    there are none.
    """
    if repeat is None or is_placeholder(repeat) or is_placeholder(parts):
        return
    if not parts:
        raise ValueError("nothing changes here that could `repeat`: give it `changes`, or take it out")
    ends = [part if isinstance(part, Time) else _end(part) for part in parts if not is_placeholder(part)]
    last = max((end for end in ends if not is_placeholder(end)), default=Time("0ns"))
    said = f"`repeat: {repeat}` begins anew"
    if repeat < last:
        raise ValueError(f"{said} before the last change, at {last}; write a longer time")
    # A span may end where the next round begins.
    if repeat == last and not isinstance(parts[0], tuple):
        raise ValueError(f"{said} at the last change, and all is then as at 0s: take that change out, or write a longer time")


def _end(part: Any) -> Any:
    return part[1] if isinstance(part, tuple) else part.at


class RateChange(Model):
    """Another rate from a time on."""

    at: Time
    """Since the start of the run."""
    to: LinkRate
    """The rate from then on."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, at: Time | str, to: LinkRate | str) -> None: ...


class TimeChange(Model):
    """Another delay from a time on."""

    at: Time
    """Since the start of the run."""
    to: Time
    """The delay from then on."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, at: Time | str, to: Time | str) -> None: ...


class ShareChange(Model):
    """Another share from a time on."""

    at: Time
    """Since the start of the run."""
    to: Share
    """The share from then on."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, at: Time | str, to: Share | str) -> None: ...


class RateLimit(Model):
    """A transmitter of constant rate behind a queue: drop-tail, or managed by `aqm`."""

    kind: Literal["rate"] = "rate"
    rate: LinkRate
    """At which packets leave, headers and framing counted."""
    queue: TimedQueueLimit = Packets("1000packets")
    """Room for packets or bytes, or for what the rate carries in a time, the packet in transmission
    included; the default is netem's.
    """
    framing: Size = Size("14B")
    """Counted on top of each IP packet; 14 bytes of Ethernet header are what netem sees."""
    hold: Time = Time("0ns")
    """Time that each packet spends in the queue at least, its place taken: the delay of a netem
    that has both `delay` and `rate`.
    """
    burst: Size = Size("0B")
    """What may leave at once after a pause, framing counted: the size of a token bucket. With none
    each packet takes its time.
    """
    aqm: Aqm = None
    """What keeps the queue short: codel, fq_codel, pie, dualpi2 or red; default: a full queue refuses
    packets.
    """
    changes: tuple[RateChange, ...] = ()
    """Other rates from a time on."""
    repeat: Time | None = None
    """After so long the changes begin anew, and again; default: never."""

    @model_validator(mode="after")
    def _queue_fits_its_management(self) -> Self:
        check_aqm(self.aqm, self.queue, self.hold, self.burst)
        _check_timed(self.queue, self.changes)
        check_repeat(self.repeat, self.changes)
        return self

    @property
    def limit(self) -> Packets | Size:
        """The queue in packets or bytes; a time is so many full packets to what counts those."""
        limit = limit_of(self.queue, self.rate)
        if not isinstance(self.queue, Time) or self.aqm is None or isinstance(self.aqm, Red):
            return limit
        return Packets.base(max(1, int(limit) // (_FULL + int(self.framing))))

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            rate: LinkRate | str,
            queue: Packets | Size | Time | str = ...,
            framing: Size | str = ...,
            hold: Time | str = ...,
            burst: Size | str = ...,
            aqm: Aqm | Mapping[str, Any] | str = ...,
            changes: Sequence[RateChange | Mapping[str, Any] | str] | str = ...,
            repeat: Time | str | None = ...,
        ) -> None: ...


class Delay(Model):
    """Every packet takes this long, give or take the jitter."""

    kind: Literal["delay"] = "delay"
    delay: Time
    """From one end to the other."""
    jitter: Time = Time("0ns")
    """Uniform in plus or minus this much."""
    reorder: bool = False
    """Whether jitter may reorder packets, as netem's does."""
    changes: tuple[TimeChange, ...] = ()
    """Other delays from a time on."""
    repeat: Time | None = None
    """After so long the changes begin anew, and again; default: never."""

    @model_validator(mode="after")
    def _repeats_all(self) -> Self:
        check_repeat(self.repeat, self.changes)
        return self

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            delay: Time | str,
            jitter: Time | str = ...,
            reorder: bool | str = ...,
            changes: Sequence[TimeChange | Mapping[str, Any] | str] | str = ...,
            repeat: Time | str | None = ...,
        ) -> None: ...


class Loss(Model):
    """Each packet is lost with this probability, independently of the others."""

    kind: Literal["loss"] = "loss"
    share: Share
    """Of the packets that are lost, each by itself."""
    changes: tuple[ShareChange, ...] = ()
    """Other shares from a time on."""
    repeat: Time | None = None
    """After so long the changes begin anew, and again; default: never."""

    @model_validator(mode="after")
    def _repeats_all(self) -> Self:
        check_repeat(self.repeat, self.changes)
        return self

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            share: Share | str,
            changes: Sequence[ShareChange | Mapping[str, Any] | str] | str = ...,
            repeat: Time | str | None = ...,
        ) -> None: ...


class BurstLoss(Model):
    """Gilbert-Elliott: a chain of a good and a bad state, stepped once a packet."""

    kind: Literal["burst_loss"] = "burst_loss"
    good_to_bad: Share
    """The chance, at each packet, of going from the good state to the bad one."""
    bad_to_good: Share
    """The chance, at each packet, of going back."""
    loss_good: Share = Share("0%")
    """Of the packets that are lost in the good state."""
    loss_bad: Share = Share("100%")
    """Of the packets that are lost in the bad state."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            good_to_bad: Share | str,
            bad_to_good: Share | str,
            loss_good: Share | str = ...,
            loss_bad: Share | str = ...,
        ) -> None: ...


class DropPackets(Model):
    """Exactly these packets are lost, counted from 1 in this direction."""

    kind: Literal["drop_packets"] = "drop_packets"
    numbers: tuple[int, ...] = Field(min_length=1)
    """Of the packets that are dropped, counted from 1."""
    data_only: bool = False
    """Count only packets with payload."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., numbers: Sequence[int | str] | str, data_only: bool | str = ...) -> None: ...


class Mtu(Model):
    """Packets longer than this do not pass."""

    kind: Literal["mtu"] = "mtu"
    size: Size
    """The longest packet that passes."""
    oversize: Literal["icmp", "silent", "fragment"] = "icmp"
    """What becomes of them: dropped and the sender told, dropped in silence, or split where the
    packet allows it.
    """

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., size: Size | str, oversize: str = ...) -> None: ...


class Down(Model):
    """Nothing passes during these spans, each from a time up to another."""

    kind: Literal["down"] = "down"
    spans: tuple[tuple[Time, Time], ...] = Field(min_length=1)
    """When nothing passes: pairs of times since the start of the run."""
    repeat: Time | None = None
    """After so long the spans begin anew, and again; default: never."""

    @model_validator(mode="after")
    def _repeats_all(self) -> Self:
        check_repeat(self.repeat, self.spans)
        return self

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            spans: Sequence[Sequence[Time | str] | str] | str,
            repeat: Time | str | None = ...,
        ) -> None: ...


class Retry(Model):
    """The link layer tries again what fails on the air: such packets come later, and those behind
    them wait.
    """

    kind: Literal["retry"] = "retry"
    share: Share
    """Of the attempts that fail."""
    delay: Time
    """From one attempt to the next."""
    attempts: int = Field(default=4, ge=1)
    """At most; then the packet is lost."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., share: Share | str, delay: Time | str, attempts: int | str = ...) -> None: ...


class Policer(Model):
    """A token bucket that drops what finds too few tokens, and delays nothing: `tc police`."""

    kind: Literal["policer"] = "policer"
    rate: LinkRate
    """At which tokens come, framing counted."""
    burst: Size
    """Tokens that the bucket holds, framing counted: so much may pass at once."""
    framing: Size = Size("14B")
    """Counted on top of each IP packet."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., rate: LinkRate | str, burst: Size | str, framing: Size | str = ...) -> None: ...


class Trace(Model):
    """A recorded link in mahimahi's format: a line a chance to send 1504 bytes, in milliseconds."""

    kind: Literal["trace"] = "trace"
    file: str
    """In the study's folder."""
    queue: QueueLimit = Packets("1000packets")
    """What may wait for a chance; the rest is dropped."""
    framing: Size = Size("4B")
    """Counted on top of each IP packet; mahimahi's is four bytes."""
    _chances: tuple[int, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _is_there(self) -> Self:
        if not is_placeholder(self.file):
            self._chances = _traces.chances(self.file)
        return self

    @property
    def chances_ms(self) -> tuple[int, ...]:
        return self._chances

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., file: str, queue: Packets | Size | str = ..., framing: Size | str = ...) -> None: ...


class Table(Model):
    """Rate, delay and loss from a CSV file with the columns time and rate, delay or loss; each row
    counts until the next.
    """

    kind: Literal["table"] = "table"
    file: str
    """In the study's folder; each cell has its unit: `1.5s,12mbit,30ms,0.1%`."""
    queue: QueueLimit = Packets("1000packets")
    """What may wait for the link; the rest is dropped."""
    framing: Size = Size("14B")
    """Bytes of the link layer around each packet."""
    aqm: Aqm = None
    """What keeps the queue short: codel, fq_codel, pie, dualpi2 or red."""
    jitter: Time = Time("0ns")
    """Uniform in plus or minus this much."""
    repeat: Time | None = None
    """After so long its rows begin anew, and again; default: the last row counts until the end."""
    _chain: tuple[RateLimit | Delay | Loss, ...] = PrivateAttr(default=())

    @model_validator(mode="after")
    def _is_there(self) -> Self:
        if is_placeholder(self.file):
            return self
        times, rates, delays, losses = zip(*_traces.table(self.file), strict=True)
        check_repeat(self.repeat, times[1:])
        again = None if is_placeholder(self.repeat) or len(times) == 1 else self.repeat
        elements: list[RateLimit | Delay | Loss] = []
        if losses[0] is not None:
            changes = tuple(ShareChange(at=at, to=to) for at, to in zip(times[1:], losses[1:], strict=True))
            elements.append(Loss(share=losses[0], changes=changes, repeat=again))
        if rates[0] is not None:
            later = tuple(RateChange(at=at, to=to) for at, to in zip(times[1:], rates[1:], strict=True))
            elements.append(
                RateLimit(rate=rates[0], queue=self.queue, framing=self.framing, aqm=self.aqm, changes=later, repeat=again),
            )
        if delays[0] is not None:
            moved = tuple(TimeChange(at=at, to=to) for at, to in zip(times[1:], delays[1:], strict=True))
            elements.append(Delay(delay=delays[0], jitter=self.jitter, changes=moved, repeat=again))
        self._chain = tuple(elements)
        return self

    @property
    def chain(self) -> tuple[RateLimit | Delay | Loss, ...]:
        return self._chain

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            file: str,
            queue: Packets | Size | str = ...,
            framing: Size | str = ...,
            aqm: Aqm | Mapping[str, Any] | str = ...,
            jitter: Time | str = ...,
            repeat: Time | str | None = ...,
        ) -> None: ...


class Wireless(Model):
    """A Wi-Fi 6 or 5G link: the rate walks between the radio's states, attempts fail and are
    repeated, handovers cut it; by the seed.
    """

    kind: Literal["wireless"] = "wireless"
    radio: Literal["wifi6", "5g"]
    """Wi-Fi 6 or 5G; it decides the defaults of what follows."""
    peak: LinkRate
    """Rate in the best state, after all overhead of the radio."""
    queue: QueueLimit = Packets("1000packets")
    """What may wait for the radio; the rest is dropped."""
    lowest_state: int | None = Field(default=None, ge=0)
    """Of the radio's table, from 0; default: 4 of 11 (wifi6), 6 of 14 (5g)."""
    dwell: Time | None = None
    """Mean time in a state; default: 500ms (wifi6), 200ms (5g)."""
    delay: Time | None = None
    """Default: 2ms (wifi6), 10ms (5g)."""
    jitter: Time | None = None
    """Of scheduling and contention; default: 1ms (wifi6), 2ms (5g)."""
    retries: Share | None = None
    """Share of attempts that fail; default: 10%."""
    retry_delay: Time | None = None
    """Default: 1ms (wifi6), 5ms (5g)."""
    attempts: int | None = Field(default=None, ge=1)
    """Default: 7 (wifi6), 4 (5g)."""
    handover_every: Time | None = None
    """Mean time between handovers; default: none."""
    handover_gap: Time = Time("50ms")
    """Time for which a handover lets nothing pass."""

    @model_validator(mode="after")
    def _states_there_are(self) -> Self:
        if not is_placeholder(self.radio):
            top = len(RADIOS[self.radio].states) - 1
            if isinstance(self.lowest_state, int) and self.lowest_state > top:
                raise ValueError(f"the radio {self.radio} has the states 0 to {top}")
        if isinstance(self.handover_every, int) and isinstance(self.handover_gap, int) and self.handover_every <= self.handover_gap:
            raise ValueError("handovers come less often than each of them lasts: `handover_every` must be above `handover_gap`")
        return self

    @property
    def queue_unit(self) -> str:
        return "packets" if isinstance(self.queue, Packets) else "bytes"

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            radio: str,
            peak: LinkRate | str,
            queue: Packets | Size | str = ...,
            lowest_state: int | str | None = ...,
            dwell: Time | str | None = ...,
            delay: Time | str | None = ...,
            jitter: Time | str | None = ...,
            retries: Share | str | None = ...,
            retry_delay: Time | str | None = ...,
            attempts: int | str | None = ...,
            handover_every: Time | str | None = ...,
            handover_gap: Time | str = ...,
        ) -> None: ...


Element = Annotated[
    Annotated[RateLimit, Tag("rate")]
    | Annotated[Delay, Tag("delay")]
    | Annotated[Loss, Tag("loss")]
    | Annotated[BurstLoss, Tag("burst_loss")]
    | Annotated[DropPackets, Tag("drop_packets")]
    | Annotated[Mtu, Tag("mtu")]
    | Annotated[Down, Tag("down")]
    | Annotated[Retry, Tag("retry")]
    | Annotated[Policer, Tag("policer")]
    | Annotated[Trace, Tag("trace")]
    | Annotated[Table, Tag("table")]
    | Annotated[Wireless, Tag("wireless")]
    | Annotated[Undecided, Tag(UNDECIDED)],
    Discriminator(kind_of),
]


class ShapeChange(Model):
    """New figures from a time on; what is not given stays as it was."""

    at: Time
    """Since the start of the run."""
    rate: LinkRate | None = None
    """The rate from then on."""
    delay: Time | None = None
    """The delay from then on."""
    loss: Share | None = None
    """The share of lost packets from then on."""
    up: bool | None = None
    """False cuts the link, true joins it again."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if all(figure is None for figure in (self.rate, self.delay, self.loss, self.up)):
            raise ValueError("this change changes nothing: give it a new `rate`, `delay` or `loss`, or `up`")
        return self

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            at: Time | str,
            rate: LinkRate | str | None = ...,
            delay: Time | str | None = ...,
            loss: Share | str | None = ...,
            up: bool | str | None = ...,
        ) -> None: ...


class Shape(Model):
    """The usual chain in one line: mtu, loss, rate with its queue, delay; only what is given is
    built.
    """

    rate: LinkRate | None = None
    """At which packets leave, headers and framing counted; default: at once."""
    queue: TimedQueueLimit = Packets("1000packets")
    """What may wait for the link: packets, bytes, or what the rate carries in a time; the rest is
    dropped.
    """
    framing: Size = Size("14B")
    """Bytes of the link layer around each packet."""
    aqm: Aqm = None
    """What keeps the queue short: codel, fq_codel, pie, dualpi2 or red."""
    delay: Time | None = None
    """From one end to the other; default: none."""
    rtt: Time | None = None
    """In place of `delay`, in `both` alone: the round trip, of which each direction takes half."""
    jitter: Time = Time("0ns")
    """Of the delay, uniform in plus or minus this much."""
    reorder: bool = False
    """Whether jitter may reorder packets, as netem's does."""
    loss: Share | None = None
    """Of the packets that are lost, each by itself; default: none."""
    mtu: Size | None = None
    """The longest packet that passes; default: that of the link."""
    outage: Time | None = None
    """For so long nothing passes, at the end of each `every`; default: never."""
    every: Time | None = None
    """From the end of an outage to that of the next."""
    changes: tuple[ShapeChange, ...] = ()
    """Other figures from a time on."""
    repeat: Time | None = None
    """After so long the changes begin anew, and again; default: never."""

    @model_validator(mode="after")
    def _changes_have_a_start(self) -> Self:
        if self.rtt is not None and self.delay is not None:
            raise ValueError("`delay` and `rtt` say the same: a round trip of 60ms is a delay of 30ms; take one of them")
        given = {"rate": self.rate, "delay": self.delay if self.rtt is None else self.rtt}
        for figure, there in given.items():
            if there is None and any(getattr(change, figure) is not None for change in self.changes):
                raise ValueError(f"`changes` give a {figure}, but the link has none to begin with; add `{figure}:` beside them")
        if self.rate is None and self.model_fields_set & {"queue", "framing", "aqm"}:
            raise ValueError("a queue needs a `rate` beside it: nothing waits on a link that is never busy")
        if given["delay"] is None and self.model_fields_set & {"jitter", "reorder"}:
            raise ValueError("jitter needs a `delay` beside it")
        if (self.outage is None) is not (self.every is None):
            raise ValueError("outages have a length and a distance: write both, like `outage: 300ms, every: 15s`")
        if isinstance(self.outage, int) and isinstance(self.every, int) and not 0 < self.outage < self.every:
            raise ValueError(f"an outage of {self.outage} every {self.every} is none, or has no end: it must be shorter than `every`")
        check_repeat(self.repeat, self.changes)
        check_aqm(self.aqm, self.queue, Time("0ns"), Size("0B"))
        _check_timed(self.queue, [change.rate for change in self.changes if change.rate is not None])
        _check_order(self.changes)
        return self

    @property
    def one_way(self) -> Time | None:
        """The delay, however it is given."""
        return self.delay if self.rtt is None or is_placeholder(self.rtt) else Time.base(int(self.rtt) // 2)

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            rate: LinkRate | str | None = ...,
            queue: Packets | Size | Time | str = ...,
            framing: Size | str = ...,
            aqm: Aqm | Mapping[str, Any] | str = ...,
            delay: Time | str | None = ...,
            rtt: Time | str | None = ...,
            jitter: Time | str = ...,
            reorder: bool | str = ...,
            loss: Share | str | None = ...,
            mtu: Size | str | None = ...,
            outage: Time | str | None = ...,
            every: Time | str | None = ...,
            changes: Sequence[ShapeChange | Mapping[str, Any] | str] | str = ...,
            repeat: Time | str | None = ...,
        ) -> None: ...


def _check_order(changes: tuple[ShapeChange, ...]) -> None:
    """Raises ValueError where changes go back in time, or join what is not cut and cut what is."""
    if any(is_placeholder(value) for change in changes for value in (change.at, change.up)):
        return
    for earlier, later in itertools.pairwise(changes):
        if later.at < earlier.at:
            raise ValueError(f"`changes` stand in the order of their times, and {later.at} comes after {earlier.at}; put it before")
    up = True
    for change in changes:
        if change.up is up:
            state = "up" if up else "cut"
            raise ValueError(f"`up: {str(up).lower()}` at {change.at} changes nothing: the link is {state} already; take it out")
        up = up if change.up is None else change.up


def chain(direction: Shape | tuple[Element, ...]) -> tuple[Element, ...]:
    """The elements in the order in which a packet meets them."""
    if not isinstance(direction, Shape):
        return tuple(part for element in direction for part in (element.chain if isinstance(element, Table) else (element,)))
    # Checks and each run of a cell ask for the same, and both directions of a link may be one.
    known = _latest.get(id(direction))
    if known is not None:
        return known[1]
    if len(_latest) >= _MOST_LATEST:
        _latest.clear()
    elements = _chain(direction)
    _latest[id(direction)] = direction, elements
    return elements


# By identity: it holds each direction, so none of them takes the place of another one.
_latest: dict[int, tuple[Shape, tuple[Element, ...]]] = {}
_MOST_LATEST = 64


def _chain(shape: Shape) -> tuple[Element, ...]:
    changes = shape.changes
    elements: list[Element] = []
    again = shape.repeat
    if shape.outage is not None and shape.every is not None:
        elements.append(Down(spans=((Time.base(shape.every - shape.outage), shape.every),), repeat=shape.every))
    if spans := _down_spans(changes, again or _FOREVER):
        elements.append(Down(spans=spans, repeat=again))
    if shape.mtu is not None:
        elements.append(Mtu(size=shape.mtu))
    losses = tuple(ShareChange(at=change.at, to=change.loss) for change in changes if change.loss is not None)
    if shape.loss is not None or losses:
        elements.append(Loss(share=shape.loss if shape.loss is not None else Share("0%"), changes=losses, repeat=again if losses else None))
    if shape.rate is not None:
        rates = tuple(RateChange(at=change.at, to=change.rate) for change in changes if change.rate is not None)
        elements.append(
            RateLimit(
                rate=shape.rate,
                queue=shape.queue,
                framing=shape.framing,
                aqm=shape.aqm,
                changes=rates,
                repeat=again if rates else None,
            )
        )
    if (delay := shape.one_way) is not None:
        delays = tuple(TimeChange(at=change.at, to=change.delay) for change in changes if change.delay is not None)
        elements.append(
            Delay(delay=delay, jitter=shape.jitter, reorder=shape.reorder, changes=delays, repeat=again if delays else None),
        )
    return tuple(elements)


# Later than every run ends: the end of a span that is never closed, where nothing repeats.
_FOREVER = Time.base(2**62)


def _down_spans(changes: tuple[ShapeChange, ...], end: Time) -> tuple[tuple[Time, Time], ...]:
    spans: list[tuple[Time, Time]] = []
    since: Time | None = None
    for change in changes:
        if change.up is False and since is None:
            since = change.at
        elif change.up is True and since is not None:
            spans.append((since, change.at))
            since = None
    if since is not None:
        spans.append((since, end))
    return tuple(spans)
