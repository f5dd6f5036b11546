"""Active queue management of a rate."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from ._errors import unknown
from ._model import Model, Undecided, kind_of
from ._placeholder import UNDECIDED, is_placeholder
from ._quantity import Packets, Share, Size, Time


class Red(Model):
    """Random early detection (Floyd and Jacobson 1993): the longer the queue is on average, the
    likelier a packet is dropped.
    """

    kind: Literal["red"] = "red"
    min: Size
    """Below this average nothing is dropped."""
    max: Size
    """From this average on everything is."""
    probability: Share = Share("2%")
    """At an average of `max`."""
    weight_log: int = Field(default=9, ge=1, le=20)
    """The average moves by 1/2^weight_log of what it is off with each packet: larger ones see
    bursts later.
    """
    mean_packet: Size = Size("1000B")
    """Packets of this length are thought to pass while the link is idle."""
    ecn: bool = False
    """Mark packets that are able (ECN) instead of dropping them."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            min: Size | str,
            max: Size | str,
            probability: Share | str = ...,
            weight_log: int | str = ...,
            mean_packet: Size | str = ...,
            ecn: bool | str = ...,
        ) -> None: ...


class Codel(Model):
    """CoDel (RFC 8289): drops once the delay in the queue has stood above the target for an
    interval.
    """

    kind: Literal["codel"] = "codel"
    target: Time = Time("5ms")
    """The delay that the queue may keep."""
    interval: Time = Time("100ms")
    """How long it may be above that."""
    ecn: bool = False
    """Mark packets that are able (ECN) instead of dropping them."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., target: Time | str = ..., interval: Time | str = ..., ecn: bool | str = ...) -> None: ...


class FqCodel(Model):
    """FQ-CoDel (RFC 8290): each flow has a queue of its own with CoDel, and they take turns."""

    kind: Literal["fq_codel"] = "fq_codel"
    target: Time = Time("5ms")
    """The delay that the queue of a flow may keep."""
    interval: Time = Time("100ms")
    """How long it may be above that."""
    flows: int = Field(default=1024, ge=1, le=65536)
    """So many queues, to which flows are assigned by a hash."""
    quantum: Size = Size("1514B")
    """A flow sends so much before it is the next one's turn."""
    ecn: bool = True
    """Mark packets that are able (ECN) instead of dropping them; on by default, as in Linux."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            target: Time | str = ...,
            interval: Time | str = ...,
            flows: int | str = ...,
            quantum: Size | str = ...,
            ecn: bool | str = ...,
        ) -> None: ...


class Pie(Model):
    """PIE (RFC 8033): the probability of dropping follows the delay in the queue."""

    kind: Literal["pie"] = "pie"
    target: Time = Time("15ms")
    """The delay that the queue may keep."""
    update: Time = Time("15ms")
    """Between two calculations of the probability."""
    ecn: bool = False
    """Mark packets that are able (ECN) while the probability is below a tenth."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., target: Time | str = ..., update: Time | str = ..., ecn: bool | str = ...) -> None: ...


class DualPi2(Model):
    """DualPI2 (RFC 9332): a queue for L4S traffic (ECT(1) and CE) and one for the rest; marks of
    the first and drops of the second are coupled. It always marks what is able (ECN).
    """

    kind: Literal["dualpi2"] = "dualpi2"
    target: Time = Time("15ms")
    """The delay that the classic queue may keep."""
    update: Time = Time("16ms")
    """Between two calculations of the probability."""
    step: Time = Time("1ms")
    """An L4S packet that has waited for longer is marked."""
    step_packets: int = Field(default=0, ge=0, le=1_000_000)
    """But only if at least so many L4S packets waited when it came."""
    coupling: int = Field(default=2, ge=1, le=255)
    """L4S packets are marked with so many times the root of the probability of the others."""
    classic_percent: int = Field(default=10, ge=0, le=99)
    """Of the bytes, what the classic queue gets at least where both wait, percent."""
    any_ect: bool = False
    """ECT(0) packets are L4S traffic too: for a network in which all that is able is scalable."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            target: Time | str = ...,
            update: Time | str = ...,
            step: Time | str = ...,
            step_packets: int | str = ...,
            coupling: int | str = ...,
            classic_percent: int | str = ...,
            any_ect: bool | str = ...,
        ) -> None: ...


def _named_aqm(value: Any) -> Any:
    if isinstance(value, str) and value in SHORT:
        return {"kind": value}
    if value == "red":
        raise ValueError("red needs two averages of the queue: write `aqm: {kind: red, min: 30KB, max: 90KB}`")
    if isinstance(value, str):
        raise ValueError(unknown("queue management", value, [*SHORT, "none", "red (with its `min` and `max`)"]))
    return value


# Those that need nothing but their name.
SHORT = ("codel", "fq_codel", "pie", "dualpi2")

Managed = Annotated[
    Annotated[Red, Tag("red")]
    | Annotated[Codel, Tag("codel")]
    | Annotated[FqCodel, Tag("fq_codel")]
    | Annotated[Pie, Tag("pie")]
    | Annotated[DualPi2, Tag("dualpi2")]
    | Annotated[Undecided, Tag(UNDECIDED)],
    Discriminator(kind_of),
    BeforeValidator(_named_aqm),
]


def _none(value: Any) -> Any:
    """`none` is a value that a matrix can have, null is not; a kind that turns out to be none needs
    none of its fields.
    """
    if value == "none" or (isinstance(value, Mapping) and value.get("kind") == "none"):
        return None
    return value


Aqm = Annotated[Managed | None, BeforeValidator(_none)]
"""Of a rate: what manages its queue, or nothing."""


def check_aqm(aqm: Any, queue: Packets | Size | Time, hold: Time, burst: Size) -> None:
    """Raises ValueError where a queue and what manages it do not fit together."""
    if aqm is None or is_placeholder(aqm) or isinstance(aqm, Undecided):
        return
    if hold and not is_placeholder(hold):
        raise ValueError("a managed queue has no `hold`; put a delay behind it")
    if burst and not is_placeholder(burst):
        raise ValueError("a managed queue has no `burst`: its packets leave one by one")
    if is_placeholder(queue):
        return
    if isinstance(aqm, Red):
        if not isinstance(queue, Size):
            raise ValueError('red counts bytes: give its queue in bytes, like "queue: 300KB"')
        bounds = [bound for bound in (aqm.min, aqm.max) if not is_placeholder(bound)]
        if any(bound > queue for bound in bounds) or (len(bounds) == 2 and not aqm.min < aqm.max):
            raise ValueError(f"red needs min < max <= queue; here they are {aqm.min}, {aqm.max} and {queue}")
    elif not isinstance(queue, Packets | Time):
        raise ValueError(f'{aqm.kind} counts packets: give its queue in packets, like "queue: 1000packets"')
