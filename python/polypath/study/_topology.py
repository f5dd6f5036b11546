"""Nodes and the links that join them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator, model_validator

from ._address import Address
from ._elements import Element, Shape
from ._kernel import KernelName
from ._model import FrozenDict, Model, Name
from ._placeholder import PLACEHOLDER_PATTERN, Placeholder, Scalar, is_placeholder
from ._quantity import Size
from ._tunnels import Tunnel


def _leave_placeholder(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    return Placeholder(value) if is_placeholder(value) else check(value)


# A number in a list, where a parameter may stand too.
_Number = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": PLACEHOLDER_PATTERN}]}
Number = Annotated[int, WrapValidator(_leave_placeholder), WithJsonSchema(_Number)]


class Node(Model):
    """A host, or a router that forwards."""

    router: bool = False
    """Whether it forwards packets of others."""
    addresses: tuple[Address, ...] = ()
    """Addresses that belong to no link and that every path reaches."""
    kernel: KernelName | None = None
    """Which Linux kernel this host has, in quotes: "6.1"; default: the study's. Hosts may differ on
    the engine `sim` alone.
    """
    mtu_search: str | None = None
    """How this host's TCP searches for a path's MTU: see `polypath list mtu-searches`; default:
    `linux`. On the engine `sim` alone.
    """
    sysctl: Mapping[str, Scalar | tuple[Number, ...]] = Field(default_factory=FrozenDict)
    """Settings of the endpoints on this host by their Linux names, such as
    `net.ipv4.tcp_rmem: [4096, 131072, 16777216]`.
    """

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            router: bool | str = ...,
            addresses: Sequence[str] | str = ...,
            kernel: str | None = ...,
            mtu_search: str | None = ...,
            sysctl: Mapping[str, int | float | bool | Sequence[int | str] | str] | str = ...,
        ) -> None: ...


class End(Model):
    """Where a link meets a node."""

    node: str
    """The node at this end."""
    address: Address | None = None
    """Default: 10.x.y.1 at the first end and 10.x.y.2 at the second, counted through by link."""
    mtu: Size | None = None
    """MTU of this interface; default: the link's."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, node: str, address: str | None = ..., mtu: Size | str | None = ...) -> None: ...


def _form(value: Any) -> str:
    return "chain" if isinstance(value, list | tuple) else "shape"


# Told apart before the union is tried, so that an error speaks of one form only.
Direction = Annotated[Annotated[Shape, Tag("shape")] | Annotated[tuple[Element, ...], Tag("chain")], Discriminator(_form)]


class Link(Model):
    """Joins two nodes. Each direction is a chain of elements, or one line of figures that stands
    for the usual chain.
    """

    ends: tuple[End, End]
    """The two nodes, by name or with an address."""
    mtu: Size = Size("1500B")
    """The longest packet that its interfaces send."""
    both: Direction | None = None
    """Both directions alike."""
    forward: Direction | None = None
    """From the first end to the second; replaces `both`."""
    backward: Direction | None = None
    """From the second end to the first; replaces `both`."""

    @model_validator(mode="before")
    @classmethod
    def _names_are_ends(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and isinstance(value.get("ends"), list | tuple):
            ends = [{"node": end} if isinstance(end, str) else end for end in value["ends"]]
            if len(ends) != 2:
                raise ValueError(f"a link joins two nodes, and `ends` names {len(ends)}")
            return {**value, "ends": ends}
        return value

    @model_validator(mode="after")
    def _round_trips_take_both(self) -> Self:
        for side in ("forward", "backward"):
            direction = getattr(self, side)
            if isinstance(direction, Shape) and direction.rtt is not None:
                raise ValueError(f"a round trip takes both directions: `rtt` stands in `both`, and `{side}` has a `delay`")
        return self

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            ends: Sequence[End | Mapping[str, Any] | str] | str,
            mtu: Size | str = ...,
            both: Shape | Sequence[Element | Mapping[str, Any] | str] | Mapping[str, Any] | str | None = ...,
            forward: Shape | Sequence[Element | Mapping[str, Any] | str] | Mapping[str, Any] | str | None = ...,
            backward: Shape | Sequence[Element | Mapping[str, Any] | str] | Mapping[str, Any] | str | None = ...,
        ) -> None: ...


class Topology(Model):
    """Nodes, and the links and tunnels between them."""

    # `Study`, `Experiment` and `Setup` take it as it is, and each would build it anew.
    model_config = ConfigDict(defer_build=False)

    nodes: Mapping[Name, Node] = Field(max_length=1000)
    """Hosts and routers by name."""
    links: Mapping[Name, Link] = Field(max_length=1000)
    """Links by name."""
    tunnels: Mapping[Name, Tunnel] = Field(default_factory=FrozenDict)
    """Multipath GRE-in-UDP tunnels over these links."""

    @model_validator(mode="before")
    @classmethod
    def _empty_nodes(cls, value: Any) -> Any:
        # `h1:` with nothing behind it is a host with nothing special.
        if isinstance(value, Mapping) and isinstance(value.get("nodes"), Mapping):
            return {**value, "nodes": {name: {} if node is None else node for name, node in value["nodes"].items()}}
        return value

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            nodes: Mapping[str, Node | Mapping[str, Any] | str | None] | str,
            links: Mapping[str, Link | Mapping[str, Any] | str] | str,
            tunnels: Mapping[str, Tunnel | Mapping[str, Any] | str] | str = ...,
        ) -> None: ...


def addresses(topology: Topology) -> dict[str, tuple[str, str]]:
    """The addresses of every link's two ends, given or counted through."""
    by_end = {}
    for index, (name, link) in enumerate(topology.links.items(), start=1):
        counted = [f"10.{index // 256}.{index % 256}.{end}" for end in (1, 2)]
        first, second = (end.address or given for end, given in zip(link.ends, counted, strict=True))
        by_end[name] = (first, second)
    return by_end


def joined(topology: Topology) -> dict[str, tuple[str, str]]:
    """The two nodes that each link joins, and each tunnel."""
    links = {name: (link.ends[0].node, link.ends[1].node) for name, link in topology.links.items()}
    return links | {name: (tunnel.ends[0].node, tunnel.ends[1].node) for name, tunnel in topology.tunnels.items()}


def node_addresses(topology: Topology, node: str) -> list[str]:
    """Addresses of a node in the order of its links, then of its tunnels, then those that belong to
    neither.
    """
    linked = [
        address
        for name, pair in addresses(topology).items()
        for end, address in zip(topology.links[name].ends, pair, strict=True)
        if end.node == node
    ]
    devices = [end.address for tunnel in topology.tunnels.values() for end in tunnel.ends if end.node == node]
    return [*linked, *devices, *topology.nodes[node].addresses]
