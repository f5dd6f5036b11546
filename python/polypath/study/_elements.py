"""What a link does to packets: a chain of elements per direction, or one line of figures that stands for the usual chain."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ._model import Model, kind_of
from ._quantity import Packets, Rate, Share, Size, Time


def _not_zero(rate: Rate) -> Rate:
    if isinstance(rate, int) and rate == 0:
        raise ValueError("a rate of zero lets nothing pass; to cut a link for a while, use `up: false` in `changes`")
    return rate


LinkRate = Annotated[Rate, AfterValidator(_not_zero)]
Queue = Packets | Size


def _queue(value: Any) -> Any:
    """One clear sentence instead of one for each member of the union."""
    if isinstance(value, Packets | Size):
        return value
    for kind in (Packets, Size):
        try:
            return kind(value)
        except ValueError:
            continue
    raise ValueError(f'{value!r} is no queue length; write packets or bytes, like "100packets" or "64KiB"')


QueueLimit = Annotated[Queue, BeforeValidator(_queue)]


class RateChange(Model):
    at: Time
    to: LinkRate


class TimeChange(Model):
    at: Time
    to: Time


class ShareChange(Model):
    at: Time
    to: Share


class RateLimit(Model):
    """A transmitter of constant rate behind a drop-tail queue."""

    kind: Literal["rate"] = "rate"
    rate: LinkRate
    queue: QueueLimit = Packets("1000packets")
    """Room for packets or bytes, the packet in transmission included; the default is netem's."""
    framing: Size = Size("14B")
    """Counted on top of each IP packet; 14 bytes of Ethernet header are what netem sees."""
    hold: Time = Time("0ns")
    """Time that each packet spends in the queue at least, its place taken: the delay of a netem that has both `delay` and `rate`."""
    changes: tuple[RateChange, ...] = ()


class Delay(Model):
    """Every packet takes this long, give or take the jitter."""

    kind: Literal["delay"] = "delay"
    delay: Time
    jitter: Time = Time("0ns")
    """Uniform in plus or minus this much."""
    reorder: bool = False
    """Whether jitter may reorder packets, as netem's does."""
    changes: tuple[TimeChange, ...] = ()


class Loss(Model):
    """Each packet is lost with this probability, independently of the others."""

    kind: Literal["loss"] = "loss"
    share: Share
    changes: tuple[ShareChange, ...] = ()


class BurstLoss(Model):
    """Gilbert-Elliott: a chain of a good and a bad state, stepped once a packet."""

    kind: Literal["burst_loss"] = "burst_loss"
    good_to_bad: Share
    bad_to_good: Share
    loss_good: Share = Share("0%")
    loss_bad: Share = Share("100%")


class DropPackets(Model):
    """Exactly these packets are lost, counted from 1 in this direction."""

    kind: Literal["drop_packets"] = "drop_packets"
    numbers: tuple[int, ...] = Field(min_length=1)
    data_only: bool = False
    """Count only packets with payload."""


class Mtu(Model):
    """Packets longer than this do not pass."""

    kind: Literal["mtu"] = "mtu"
    size: Size
    oversize: Literal["icmp", "silent", "fragment"] = "icmp"
    """What becomes of them: dropped and the sender told, dropped in silence, or split where the packet allows it."""


class Down(Model):
    """Nothing passes during these spans, each from a time up to another."""

    kind: Literal["down"] = "down"
    spans: tuple[tuple[Time, Time], ...] = Field(min_length=1)


Element = Annotated[
    Annotated[RateLimit, Tag("rate")]
    | Annotated[Delay, Tag("delay")]
    | Annotated[Loss, Tag("loss")]
    | Annotated[BurstLoss, Tag("burst_loss")]
    | Annotated[DropPackets, Tag("drop_packets")]
    | Annotated[Mtu, Tag("mtu")]
    | Annotated[Down, Tag("down")],
    Discriminator(kind_of),
]


class ShapeChange(Model):
    """New figures from a time on; what is not given stays as it was."""

    at: Time
    rate: LinkRate | None = None
    delay: Time | None = None
    loss: Share | None = None
    up: bool | None = None
    """False cuts the link, true joins it again."""


class Shape(Model):
    """The usual chain in one line: mtu, loss, rate with its queue, delay; only what is given is built."""

    rate: LinkRate | None = None
    queue: QueueLimit = Packets("1000packets")
    framing: Size = Size("14B")
    delay: Time | None = None
    jitter: Time = Time("0ns")
    reorder: bool = False
    loss: Share | None = None
    mtu: Size | None = None
    changes: tuple[ShapeChange, ...] = ()

    @model_validator(mode="after")
    def _changes_have_a_start(self) -> Shape:
        for figure in ("rate", "delay"):
            if getattr(self, figure) is None and any(getattr(change, figure) is not None for change in self.changes):
                raise ValueError(f"`changes` give a {figure}, but the link has none to begin with; add `{figure}:` beside them")
        if self.rate is None and self.model_fields_set & {"queue", "framing"}:
            raise ValueError("a queue needs a `rate` beside it: nothing waits on a link that is never busy")
        if self.delay is None and self.model_fields_set & {"jitter", "reorder"}:
            raise ValueError("jitter needs a `delay` beside it")
        return self


def chain(direction: Shape | tuple[Element, ...]) -> tuple[Element, ...]:
    """The elements in the order in which a packet meets them."""
    if not isinstance(direction, Shape):
        return direction
    shape, changes = direction, sorted(direction.changes, key=lambda change: change.at)
    elements: list[Element] = []
    if spans := _down_spans(changes):
        elements.append(Down(spans=spans))
    if shape.mtu is not None:
        elements.append(Mtu(size=shape.mtu))
    losses = tuple(ShareChange(at=change.at, to=change.loss) for change in changes if change.loss is not None)
    if shape.loss is not None or losses:
        elements.append(Loss(share=shape.loss if shape.loss is not None else Share("0%"), changes=losses))
    if shape.rate is not None:
        rates = tuple(RateChange(at=change.at, to=change.rate) for change in changes if change.rate is not None)
        elements.append(RateLimit(rate=shape.rate, queue=shape.queue, framing=shape.framing, changes=rates))
    if shape.delay is not None:
        delays = tuple(TimeChange(at=change.at, to=change.delay) for change in changes if change.delay is not None)
        elements.append(Delay(delay=shape.delay, jitter=shape.jitter, reorder=shape.reorder, changes=delays))
    return tuple(elements)


# Later than every run ends: the end of a span that is never closed.
_FOREVER = Time.base(2**62)


def _down_spans(changes: list[ShapeChange]) -> tuple[tuple[Time, Time], ...]:
    spans: list[tuple[Time, Time]] = []
    since: Time | None = None
    for change in changes:
        if change.up is False and since is None:
            since = change.at
        elif change.up is True and since is not None:
            spans.append((since, change.at))
            since = None
    if since is not None:
        spans.append((since, _FOREVER))
    return tuple(spans)
