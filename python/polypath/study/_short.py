"""The short form of a study: the same questions asked for seconds, for engines in real time and for
tests.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ._model import FrozenDict, Model
from ._placeholder import Scalar
from ._quantity import Size, Time

# What stretches with a run: when something happens and how long it goes on; not what a link does to
# a packet.
_STRETCHED = ("duration", "start", "window", "at", "remove_at", "spans", "repeat", "outage", "every")


class Short(Model):
    """How long and how often the short form runs; `polypath run --short` runs it."""

    duration: Time = Time("5s")
    """Longer runs are shortened to this, and what happens in them happens sooner in proportion;
    transfers are so much smaller.
    """
    seeds: int = 2
    """At most so many seeds."""
    draws: int = Field(default=2, ge=1)
    """At most so many draws, the first ones."""
    only: Mapping[str, tuple[Scalar, ...]] = Field(default_factory=FrozenDict)
    """Parameter (or `experiment`) -> the values that the short form keeps; default: all."""

    if TYPE_CHECKING:  # tools/inputs.py writes it.

        def __init__(
            self,
            *,
            duration: Time | str = ...,
            seeds: int | str = ...,
            draws: int | str = ...,
            only: Mapping[str, Sequence[Scalar | str] | str] | str = ...,
        ) -> None: ...


def keeps(short: Short, experiment: str, parameters: Mapping[str, Scalar]) -> bool:
    """Whether the short form has a cell."""
    values = {**parameters, "experiment": experiment}
    return all(name not in values or values[name] in wanted for name, wanted in short.only.items())


def shortened(tree: Mapping[str, Any], short: Short) -> Mapping[str, Any]:
    """A set-up as plain values, without placeholders, in its short form."""
    whole = Time(tree["duration"])
    if whole <= short.duration:
        return tree
    short_tree: dict[str, Any] = _stretched(tree, int(short.duration) / int(whole))
    return {**short_tree, "duration": short.duration}


def _stretched(value: Any, factor: float, *, times: bool = False) -> Any:
    if isinstance(value, Mapping):
        # What a tunnel does to a packet does not stretch either, and its reorder rule has a window
        # of packets; nor does a file that was recorded.
        if value.get("kind") == "table":
            return dict(value)
        stretched = {key: item if key == "tunnels" else _stretched(item, factor, times=key in _STRETCHED) for key, item in value.items()}
        if value.get("kind") == "transfer":
            stretched["size"] = _scaled(Size(value["size"]), factor)
        return stretched
    if isinstance(value, list | tuple):
        return [_stretched(item, factor, times=times) for item in value]
    # Other fields have these names, too: a tunnel's window counts packets.
    return _scaled(value, factor) if times and isinstance(value, Time) else value


def _scaled(value: Time | Size, factor: float) -> Time | Size:
    # What is not zero stays so.
    return value.base(max(round(int(value) * factor), min(int(value), 1)))
