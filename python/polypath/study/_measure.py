"""What a study measures, and when."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator, model_validator

from ._model import Model
from ._placeholder import is_placeholder
from ._quantity import Size, Time
from ._topology import Topology


class Capture(Model):
    """Packets that a node sends to a link and gets from it, written to a pcapng; in a list,
    "client:wifi" is enough, or "client".
    """

    node: str
    """Where packets are captured."""
    link: str | None = None
    """By default each link of the node, a file each."""
    snaplen: Size = Size("128B")
    """Bytes kept of each packet; the default holds all headers with their options."""
    packets: int = Field(default=1_000_000, ge=1)
    """Packets kept of each link; a file says how many came after them."""
    keep: bool = True
    """With false at each capture, no file stays: what they say of segments and packets is in the
    tables.
    """

    @model_validator(mode="before")
    @classmethod
    def _node_and_link(cls, value: Any) -> Any:
        if isinstance(value, str) and not is_placeholder(value):
            node, colon, link = value.partition(":")
            if not node or bool(colon) != bool(link):
                raise ValueError(f'"{value}" names no place to capture; write node and link, like "client:wifi", or a node alone')
            return {"node": node, "link": link} if link else {"node": node}
        return value

    def links(self, topology: Topology) -> list[str]:
        """The links that are captured at this node."""
        if self.link is not None:
            return [self.link]
        return [name for name, link in topology.links.items() if self.node in (end.node for end in link.ends)]

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            node: str,
            link: str | None = ...,
            snaplen: Size | str = ...,
            packets: int | str = ...,
            keep: bool | str = ...,
        ) -> None: ...


class Measure(Model):
    """What is measured, and when."""

    window: tuple[Time, Time] | None = None
    """Span of the goodput and of the means since a connection was established; default: all of its
    application's time.
    """
    series: Time | None = Time("100ms")
    """Interval of the series of cwnd, srtt and so on; null keeps none."""
    capture: tuple[Capture, ...] = ()
    """Where to write a pcapng of the packets."""

    @field_validator("series", mode="after")
    @classmethod
    def _has_length(cls, value: Time | None) -> Time | None:
        if value == 0:
            raise ValueError("samples that are no time apart have no end: give an interval like 100ms, or null for no series")
        return value

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            window: Sequence[Time | str] | str | None = ...,
            series: Time | str | None = ...,
            capture: Sequence[Capture | Mapping[str, Any] | str] | str = ...,
        ) -> None: ...
