"""Flows: who sends what to whom, by which transport."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from ._address import Address
from ._elements import LinkRate
from ._kernel import OURS, THEIRS, split_cc
from ._model import Model, Undecided, kind_of
from ._placeholder import UNDECIDED, is_placeholder
from ._quantity import Size, Time


class Bulk(Model):
    """Sends as fast as the socket accepts, for a time."""

    kind: Literal["bulk"] = "bulk"
    duration: Time | None = None
    """Default: until the end of the run."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., duration: Time | str | None = ...) -> None: ...


class Transfer(Model):
    """Sends so much, then closes; the completion time is when the server has read everything."""

    kind: Literal["transfer"] = "transfer"
    size: Size
    """What is sent in all."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., size: Size | str) -> None: ...


class OnOff(Model):
    """Sends for `on`, rests for `off`, and so on."""

    kind: Literal["on_off"] = "on_off"
    on: Time
    """How long it sends."""
    off: Time
    """How long it rests."""
    duration: Time | None = None
    """Default: until the end of the run."""
    rate: LinkRate | None = None
    """Default: as fast as the socket accepts."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            on: Time | str,
            off: Time | str,
            duration: Time | str | None = ...,
            rate: LinkRate | str | None = ...,
        ) -> None: ...


class Constant(Model):
    """Sends at a constant rate, for a time; with transport udp a datagram at a time, evenly spaced."""

    kind: Literal["constant"] = "constant"
    rate: LinkRate
    """Of the payload."""
    duration: Time | None = None
    """Default: until the end of the run."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., rate: LinkRate | str, duration: Time | str | None = ...) -> None: ...


class Requests(Model):
    """Sends a request, waits for the whole response, pauses, and so on."""

    kind: Literal["requests"] = "requests"
    request: Size = Size("200B")
    """Size of a request."""
    response: Size = Size("10KB")
    """Size of a response."""
    pause: Time = Time("0ns")
    """Between a response and the next request."""
    duration: Time | None = None
    """Default: until the end of the run."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            kind: str = ...,
            request: Size | str = ...,
            response: Size | str = ...,
            pause: Time | str = ...,
            duration: Time | str | None = ...,
        ) -> None: ...


App = Annotated[
    Annotated[Bulk, Tag("bulk")]
    | Annotated[Transfer, Tag("transfer")]
    | Annotated[OnOff, Tag("on_off")]
    | Annotated[Constant, Tag("constant")]
    | Annotated[Requests, Tag("requests")]
    | Annotated[Undecided, Tag(UNDECIDED)],
    Discriminator(kind_of),
]


class Fullmesh(Model):
    """A subflow from every address of the client to every address of the server that is announced."""

    kind: Literal["fullmesh"] = "fullmesh"

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ...) -> None: ...


class Ndiffports(Model):
    """Several subflows over the first path, told apart by their source ports."""

    kind: Literal["ndiffports"] = "ndiffports"
    subflows: int = Field(default=2, ge=1, le=32)
    """In all. Linux has at most 9 in a connection, its out-of-tree MPTCP (kernel 5.4-mptcp) 32."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., subflows: int | str = ...) -> None: ...


class Endpoint(Model):
    """An address of the client's, and how it is used."""

    address: Address
    """An address of the client's."""
    backup: bool = False
    """Used only when no other subflow works."""
    laminar: bool = False
    """Waits for an address that the server announces, and opens its subflow to that one; kernel 7.3."""
    remove_at: Time | None = None
    """Time since the connection was established at which the address goes away."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            address: str,
            backup: bool | str = ...,
            laminar: bool | str = ...,
            remove_at: Time | str | None = ...,
        ) -> None: ...


class Endpoints(Model):
    """A subflow from each of these client addresses: to the server's first one, or, if laminar, to one that the server announces."""

    kind: Literal["endpoints"] = "endpoints"
    addresses: tuple[Endpoint, ...] = Field(min_length=1)
    """The client's addresses, the first of which opens the connection."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, kind: str = ..., addresses: Sequence[Endpoint | Mapping[str, Any] | str] | str) -> None: ...


PATH_MANAGERS: tuple[type[Model], ...] = (Fullmesh, Ndiffports, Endpoints)
"""What `path_manager` may be; crates/transport/src/mptcp/path_manager declares them, and a test
compares.
"""


def kinds_alone(kinds: tuple[type[Model], ...]) -> list[str]:
    """Kinds for which a name alone is enough, since no field of theirs must be given."""
    return [kind.model_fields["kind"].default for kind in kinds if not _must_be_given(kind)]


def _must_be_given(kind: type[Model]) -> list[str]:
    return [name for name, field in kind.model_fields.items() if field.is_required()]


def _path_manager(value: Any) -> Any:
    alone = kinds_alone(PATH_MANAGERS)
    if isinstance(value, str) and value in alone:
        return {"kind": value}
    if isinstance(value, str):
        given = {kind.model_fields["kind"].default: _must_be_given(kind) for kind in PATH_MANAGERS}
        more = [f"{name} (with its {', '.join(f'`{field}`' for field in fields)})" for name, fields in given.items() if fields]
        raise ValueError(f'there is no path manager "{value}"; allowed are {", ".join(alone)} and {" and ".join(more)}')
    return value


PathManager = Annotated[
    Annotated[Fullmesh, Tag("fullmesh")]
    | Annotated[Ndiffports, Tag("ndiffports")]
    | Annotated[Endpoints, Tag("endpoints")]
    | Annotated[Undecided, Tag(UNDECIDED)],
    Discriminator(kind_of),
    BeforeValidator(_path_manager),
]


def _scheduler(value: str) -> str:
    name, *weights = value.split(" ", 1)
    bare, whose = split_cc(name)
    if whose not in ("", OURS, THEIRS):
        raise ValueError(f'what stands behind the @ of a scheduler is "polypath" or "linux"; here it is "{name}"')
    if whose == THEIRS and bare != "default":
        raise ValueError(f'the kernel\'s own scheduler is "default{THEIRS}"; here it is "{name}"')
    if weights and bare != "weighted":
        raise ValueError(f'a scheduler is a name alone, but "weighted" may have weights, like "weighted 3:1"; here it is "{value}"')
    if weights and not re.fullmatch(r"([1-9]\d?|100)(:([1-9]\d?|100)){0,31}", weights[0]):
        raise ValueError(f'weights are up to 32 whole numbers from 1 to 100, like "weighted 3:1"; here they are "{weights[0]}"')
    return value


def _names(value: Any) -> Any:
    """One name alone, too."""
    return (value,) if isinstance(value, str) and not is_placeholder(value) else value


class Route(Model):
    """A path fixed by hand."""

    source: Address
    """Address of the sender of these packets."""
    destination: Address
    """Address of their receiver."""
    via: Annotated[tuple[str, ...], BeforeValidator(_names)] = Field(min_length=1)
    """Names of the links and tunnels from the client to the server, in order."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(self, *, source: str, destination: str, via: Sequence[str] | str) -> None: ...


MOST_FLOWS = 10_000
"""Copies of a flow; more take minutes to be set up alone."""


def _count(value: Any) -> Any:
    if type(value) is int and value < 1:
        raise ValueError(f"{value} is too small; the least is 1")
    if type(value) is int and value > MOST_FLOWS:
        raise ValueError(f"{value} is too large; the most is {MOST_FLOWS}")
    return value


class Flow(Model):
    """One connection or stream of datagrams, or `count` of them: a client opens it, and `direction`
    says who sends.
    """

    # `Study`, `Experiment` and `Setup` take it as it is, and each would build it anew.
    model_config = ConfigDict(defer_build=False)

    client: str
    """The node that opens the connection."""
    server: str
    """The node that accepts it."""
    transport: Literal["mptcp", "tcp", "udp"] = "mptcp"
    """What carries it: Multipath TCP, plain TCP or UDP."""
    direction: Literal["upload", "download", "both"] = "upload"
    """Who sends: upload: the client; download: the server, as with iperf3 -R; both: a flow each way
    at once, name-up and name-down. Of requests the client asks and the server answers, so they have
    none.
    """
    cc: str = "cubic"
    """Congestion control of the sender; `polypath list cc` shows what there is. Datagrams (udp)
    have none.
    """
    count: Annotated[int, Field(ge=1, le=MOST_FLOWS), BeforeValidator(_count)] = 1
    """So many equal flows, called name-1, name-2 and so on."""
    client_address: Address | None = None
    """Source of the first subflow; default: the client's first address."""
    server_address: Address | None = None
    """Destination of the first subflow; default: the server's first address to which a route leads."""
    start: Time = Time("0ns")
    """Since the start of the run."""
    start_spread: Time = Time("0ns")
    """Start up to this much later, drawn from the seed for each flow, so that repetitions differ."""
    app: App = Bulk()
    """What it sends, and when."""
    datagram: Size = Size("1400B")
    """Payload of each datagram; transport udp only."""
    program: Literal["polypath", "iperf3"] = "polypath"
    """What sends and reads on the engine host; elsewhere it is always Polypath's own."""
    scheduler: Annotated[str, AfterValidator(_scheduler)] | None = None
    """Default: the kernel's own; `polypath list schedulers` shows what there is. `weighted 3:1` has
    weights of the subflows.
    """
    path_manager: PathManager = Fullmesh()
    """Which subflows an MPTCP connection opens."""
    routes: tuple[Route, ...] = ()
    """Default: the shortest path that leaves by the link of the source address."""
    window: tuple[Time, Time] | None = None
    """Span of the goodput since the connection was established; default: the study's
    `measure.window`.
    """

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            client: str,
            server: str,
            transport: str = ...,
            direction: str = ...,
            cc: str = ...,
            count: int | str = ...,
            client_address: str | None = ...,
            server_address: str | None = ...,
            start: Time | str = ...,
            start_spread: Time | str = ...,
            app: Bulk | Transfer | OnOff | Constant | Requests | Mapping[str, Any] | str = ...,
            datagram: Size | str = ...,
            program: str = ...,
            scheduler: str | None = ...,
            path_manager: Fullmesh | Ndiffports | Endpoints | Mapping[str, Any] | str = ...,
            routes: Sequence[Route | Mapping[str, Any] | str] | str = ...,
            window: Sequence[Time | str] | str | None = ...,
        ) -> None: ...
