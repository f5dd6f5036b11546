"""From places in a scenario, plain data with names, to fields of the set-up it was made from."""

from __future__ import annotations

from collections.abc import Sequence

from ._errors import Where
from ._setup import Setup


def field_of(setup: Setup, place: Sequence[str | int]) -> Where:
    """The field for a place such as ("links", "wifi", "a_to_b", 0) or ("flows", "bulk-2", "app")."""
    if not place:
        return ("topology",)
    kind, *rest = place
    match kind:
        case "links":
            return _of_link(setup, str(rest[0]), rest[1:])
        case "nodes":
            name, *field = rest
            return ("topology", "nodes", name, *(field if field in (["addresses"], ["kernel"], ["mtu_search"]) else ("sysctl", *field)))
        case "flows":
            name, *field = rest
            flow = next(each for each in setup.flows if str(name) == each or str(name).startswith(f"{each}-"))
            return ("flows", flow, *(int(part) if str(part).isdigit() else part for part in field))
        case "tunnels":
            return ("topology", "tunnels", *map(str, rest))
        case "series_interval_ns":
            return ("measure", "series")
    return tuple(place)


def _of_link(setup: Setup, name: str, rest: Sequence[str | int]) -> Where:
    link = setup.topology.links[name]
    where: Where = ("topology", "links", name)
    if rest[1:] == ["mtu"]:
        end = "ab".index(str(rest[0]))
        return (*where, "mtu") if link.ends[end].mtu is None else (*where, "ends", end, "mtu")
    side = {"a_to_b": "forward", "b_to_a": "backward"}.get(str(rest[0]) if rest else "", "ends")
    if side == "ends":
        return (*where, side)
    if getattr(link, side) is None:
        side = "both"
    # A chain has its elements one by one; a line of figures stands for all of them.
    number = [int(part) for part in rest[1:]] if isinstance(getattr(link, side), tuple) else []
    return (*where, side, *number)
