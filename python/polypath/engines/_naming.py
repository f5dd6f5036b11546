"""What engines that run kernels call things: congestion controls by whose they are, and places of a
scenario as fields of a study.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from polypath import customcc, planner
from polypath.study import OURS, THEIRS, Cell, bare_of_ours, field_of, nearest


def names(algorithms: Collection[str]) -> set[str]:
    """The names by which a study may ask for a kernel's algorithms."""
    ours = {name.removeprefix(planner.PREFIX) for name in algorithms if name.startswith(planner.PREFIX)}
    theirs = {name for name in algorithms if not name.startswith(planner.PREFIX)}
    at = {f"{name}{OURS}" for name in ours} | {f"{name}{THEIRS}" for name in theirs} | {f"{name}@kernel" for name in theirs}
    return ours | theirs | at


def custom_names() -> list[str]:
    """What kernels call custom algorithms."""
    return [planner.PREFIX + name for name in customcc.used()]


def custom_of(scenario: Mapping[str, Any]) -> tuple[customcc.Algorithm, ...]:
    """Custom algorithms that a scenario uses, by name."""
    used = customcc.used()
    return tuple(used[name] for name in sorted({bare_of_ours(flow["cc"] or "") for flow in scenario["flows"]} & used.keys()))


def where(cell: Cell, field: planner.FieldPath) -> tuple[str | int, ...]:
    """A place in the scenario as a field of the set-up."""
    return field_of(cell.setup, field)


def simulator_only(cell: Cell) -> str | None:
    """Why no kernel can run a cell, for `Engine.left_out`: it asks for what Linux does not have."""
    for node in cell.setup.topology.nodes.values():
        if node.mtu_search not in (None, "linux"):
            return f"the search {node.mtu_search} for a path's MTU, which the simulator alone has"
    for flow in cell.setup.flows.values():
        upstream = nearest(cell.setup.kernel_of(flow.client)).mptcp == 1
        if flow.transport == "mptcp" and upstream and flow.scheduler not in (None, "default"):
            return f"the scheduler {flow.scheduler}, which upstream's MPTCP does not have, only its default"
    return None


def check_one_kernel(cell: Cell, kernel: str) -> None:
    """Raises `SetupError` if a host asks for another kernel than the one that runs all of them."""
    for name, node in cell.setup.topology.nodes.items():
        if node.kernel is not None and node.kernel != kernel:
            sentence = f"here one kernel, {kernel}, runs all hosts, and {name} asks for {node.kernel}: leave it out, or take --engine sim"
            raise cell.error(where(cell, ("nodes", name, "kernel")), sentence)
