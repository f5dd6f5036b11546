"""Multipath GRE-in-UDP tunnels over the links of a topology."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from ._address import Address
from ._model import Model, Undecided, kind_of
from ._placeholder import UNDECIDED, is_placeholder
from ._quantity import Packets, Size, Time


class Off(Model):
    """Packets are given on as they come, and carry no numbers."""

    kind: Literal["off"] = "off"

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ...) -> None: ...


class Mpt(Model):
    """As MPT of 2019 does it: what comes behind the expected number is dropped, and one lost packet
    holds the rest for the whole delay.
    """

    kind: Literal["mpt"] = "mpt"
    window: int = Field(default=1600, ge=1, le=2**20)
    """MPT's `reorder_window`, packets."""
    max_delay: Time = Time("300ms")
    """MPT's `max_buffdelay_msec`."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., window: int | str = ..., max_delay: Time | str = ...) -> None: ...


class Fixed(Model):
    """A packet waits for so long at most."""

    kind: Literal["fixed"] = "fixed"
    timeout: Time = Time("15ms")
    """The longest wait."""
    capacity: int = Field(default=4096, ge=1, le=2**20)
    """Packets that may wait."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., timeout: Time | str = ..., capacity: int | str = ...) -> None: ...


class Adaptive(Model):
    """A packet waits for as long as the slowest path is behind the fastest, as measured."""

    kind: Literal["adaptive"] = "adaptive"
    offset: Time = Time("5ms")
    """Added to what is measured."""
    cap: Time = Time("100ms")
    """The longest wait."""
    capacity: int = Field(default=4096, ge=1, le=2**20)
    """So many packets may wait."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., offset: Time | str = ..., cap: Time | str = ..., capacity: int | str = ...) -> None: ...


class Equalised(Model):
    """Packets of faster paths are held for as long as the slowest path is behind, whatever their
    numbers.
    """

    kind: Literal["equalised"] = "equalised"
    cap: Time = Time("100ms")
    """The longest that a packet is held."""
    capacity: int = Field(default=4096, ge=1, le=2**20)
    """So many packets may wait."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., cap: Time | str = ..., capacity: int | str = ...) -> None: ...


class Progress(Model):
    """A missing packet is lost once every path has delivered a later one; what comes late is given
    on.
    """

    kind: Literal["progress"] = "progress"
    max_delay: Time = Time("300ms")
    """The longest wait."""
    capacity: int = Field(default=4096, ge=1, le=2**20)
    """So many packets may wait."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., max_delay: Time | str = ..., capacity: int | str = ...) -> None: ...


REORDER_RULES: tuple[type[Model], ...] = (Off, Mpt, Fixed, Adaptive, Equalised, Progress)
"""What `reorder` may be."""


def _rule(value: Any) -> Any:
    names = [kind.model_fields["kind"].default for kind in REORDER_RULES]
    if value is False:
        # YAML reads a bare `off` as false.
        return {"kind": "off"}
    if isinstance(value, str) and value in names:
        return {"kind": value}
    if isinstance(value, str):
        raise ValueError(f'there is no reorder rule "{value}"; there are {", ".join(names)}')
    return value


Reorder = Annotated[
    Annotated[Off, Tag("off")]
    | Annotated[Mpt, Tag("mpt")]
    | Annotated[Fixed, Tag("fixed")]
    | Annotated[Adaptive, Tag("adaptive")]
    | Annotated[Equalised, Tag("equalised")]
    | Annotated[Progress, Tag("progress")]
    | Annotated[Undecided, Tag(UNDECIDED)],
    Discriminator(kind_of),
    BeforeValidator(_rule),
]


class Fec(Model):
    """Forward error correction: behind `data` packets go `parity` further ones, and any `data` of
    them all bring back the rest. One is an XOR, more are Reed-Solomon.
    """

    data: int = Field(ge=1, le=64)
    """Packets of a block."""
    parity: int = Field(ge=1, le=64)
    """Parity packets of a block, at most as many as `data`: so many lost packets come back."""
    timeout: Time = Time("10ms")
    """A block ends so long after its first packet, however few it has; at most 500 ms."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, data: int | str, parity: int | str, timeout: Time | str = ...) -> None: ...


def _fec(value: Any) -> Any:
    # YAML reads a bare `off` as false.
    if value is False or value == "off":
        return None
    if isinstance(value, str) and not is_placeholder(value):
        short = re.fullmatch(r"([0-9]+)\+([0-9]+)", value)
        if short is None:
            raise ValueError(f'"{value}" is no error correction; write "10+2" for 2 parity packets behind 10, its fields, or off')
        return {"data": int(short[1]), "parity": int(short[2])}
    return value


DISTRIBUTIONS: dict[str, str] = {
    "turns": "packet by packet, by weight, as MPT; `batch` packets a turn",
    "flows": "all packets of a flow on one path, by weight",
    "earliest": "each packet on the path on which it arrives first, as far as the path carries it, by reports of the other end",
}
"""What `distribution` may be, and what it does."""


class TunnelEnd(Model):
    """The device of a tunnel at a node."""

    node: str
    """The node at this end."""
    address: Address
    """Its address inside the tunnel."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, node: str, address: str) -> None: ...


class TunnelPath(Model):
    """A path of a tunnel, over links alone."""

    ends: tuple[Address, Address]
    """An address of the first end's node, and one of the second's."""
    weight: int = Field(default=1, ge=1, le=1000)
    """Its share of packets, or of flows."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, ends: Sequence[str] | str, weight: int | str = ...) -> None: ...


class Tunnel(Model):
    """A multipath GRE-in-UDP tunnel (RFC 8086, RFC 2890). It joins two nodes as a link does, by a
    device at each.
    """

    ends: tuple[TunnelEnd, TunnelEnd]
    """Its two ends, the first one's packets going forward."""
    paths: tuple[TunnelPath, ...] = Field(min_length=1, max_length=64)
    """What its packets travel over."""
    reorder: Reorder = Progress()
    """How packets of several paths are put in order again."""
    distribution: Literal["turns", "flows", "earliest"] = "turns"
    """Which path a packet takes: see `DISTRIBUTIONS`."""
    batch: int = Field(default=1, ge=1, le=1024)
    """Packets that take each turn."""
    mtu: Size | Literal["search"] | None = None
    """MTU of the devices; default: what the narrowest interface on the paths leaves. `search`: what
    the narrowest live path passes, found and kept by probes (RFC 8899).
    """
    clamp_mss: bool = False
    """The MSS of SYNs that pass is lowered to what the MTU leaves."""
    keepalive: Time = Time("5s")
    """Time between two keepalives on a path."""
    dead_time: Time = Time("11s")
    """A path on which none has come for so long is down."""
    data_count: bool = False
    """Data are signs of life, too."""
    key: int | None = Field(default=None, ge=0, lt=2**32)
    """RFC 2890's key; default: packets carry none."""
    port: int = Field(default=23456, ge=1, le=65535)
    """UDP port at both ends."""
    queue: Packets = Packets("500packets")
    """Packets that wait in a device at most; it drops at its tail."""
    send_buffer: Size | None = None
    """Socket buffer of each path, which a packet leaves when the end's own interface has sent it.
    While it is full, the tunnel waits, and the device's queue fills. Linux's default is 212992B;
    without it the tunnel never waits.
    """
    packets_before: int = Field(default=0, ge=0, le=1_000_000)
    """Packets that each end has sent before the run; they decide number and path of the first."""
    fec: Annotated[Fec | None, BeforeValidator(_fec)] = None
    """What brings lost packets back; "10+2": 2 parity packets behind 10. Default: nothing does."""

    @model_validator(mode="before")
    @classmethod
    def _has_two_ends(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and isinstance(value.get("ends"), list | tuple) and len(value["ends"]) != 2:
            raise ValueError(f"a tunnel joins two nodes, and `ends` names {len(value['ends'])}")
        return value

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            ends: Sequence[TunnelEnd | Mapping[str, Any] | str] | str,
            paths: Sequence[TunnelPath | Mapping[str, Any] | str] | str,
            reorder: Off | Mpt | Fixed | Adaptive | Equalised | Progress | bool | Mapping[str, Any] | str = ...,
            distribution: str = ...,
            batch: int | str = ...,
            mtu: Size | str | None = ...,
            clamp_mss: bool | str = ...,
            keepalive: Time | str = ...,
            dead_time: Time | str = ...,
            data_count: bool | str = ...,
            key: int | str | None = ...,
            port: int | str = ...,
            queue: Packets | str = ...,
            send_buffer: Size | str | None = ...,
            packets_before: int | str = ...,
            fec: Fec | bool | Mapping[str, Any] | str | None = ...,
        ) -> None: ...


def tunnel_scenario(name: str, tunnel: Tunnel) -> dict[str, Any]:
    """A tunnel as plain data (crates/sim/src/scenario.rs)."""
    a, b = ({"node": end.node, "address": end.address} for end in tunnel.ends)
    return {
        "name": name,
        "a": a,
        "b": b,
        "paths": [{"a": path.ends[0], "b": path.ends[1], "weight": path.weight} for path in tunnel.paths],
        "mtu": None if tunnel.mtu in (None, "search") else int(tunnel.mtu),
        **({"mtu_search": True} if tunnel.mtu == "search" else {}),
        "clamp_mss": tunnel.clamp_mss,
        "distribution": tunnel.distribution,
        "batch": tunnel.batch,
        "reorder": _reorder(tunnel.reorder),
        "keepalive_ns": int(tunnel.keepalive),
        "dead_time_ns": int(tunnel.dead_time),
        "data_count": tunnel.data_count,
        "key": tunnel.key,
        "port": tunnel.port,
        "queue_packets": int(tunnel.queue),
        "send_buffer_bytes": None if tunnel.send_buffer is None else int(tunnel.send_buffer),
        "packets_before": tunnel.packets_before,
        # Without it a scenario is what it was before there was one.
        **({"fec": _fec_scenario(tunnel.fec)} if tunnel.fec is not None else {}),
    }


def _fec_scenario(fec: Fec) -> dict[str, int]:
    return {"data": fec.data, "parity": fec.parity, "timeout_ns": int(fec.timeout)}


def _reorder(rule: Any) -> dict[str, Any]:
    """Its times with the ending `_ns`."""
    fields = {name: getattr(rule, name) for name in type(rule).model_fields}
    return {
        f"{name}_ns" if isinstance(value, Time) else name: int(value) if isinstance(value, Time) else value
        for name, value in fields.items()
    }
