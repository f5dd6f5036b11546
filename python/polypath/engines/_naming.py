"""What engines that run kernels call things: congestion controls by whose they are, and places of a
scenario as fields of a study.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from polypath import _native, customcc, planner
from polypath.study import OURS, THEIRS, Cell, bare_of_ours, field_of, nearest, scheduler_of_ours


def names(algorithms: Collection[str]) -> set[str]:
    """The names by which a study may ask for a kernel's algorithms."""
    ours = {name.removeprefix(planner.PREFIX) for name in algorithms if name.startswith(planner.PREFIX)}
    theirs = {name for name in algorithms if not name.startswith(planner.PREFIX)}
    at = {f"{name}{OURS}" for name in ours} | {f"{name}{THEIRS}" for name in theirs} | {f"{name}@kernel" for name in theirs}
    return ours | theirs | at


def custom_names() -> list[str]:
    """What kernels call custom congestion controls."""
    return _custom("cc")


def custom_schedulers() -> list[str]:
    """The same of schedulers."""
    return _custom("sched")


def _custom(kind: str) -> list[str]:
    return [planner.PREFIX + name for name, algorithm in customcc.used().items() if algorithm.kind == kind]


def custom_of(scenario: Mapping[str, Any]) -> tuple[customcc.Algorithm, ...]:
    """Custom algorithms and schedulers that a scenario uses, by name."""
    used = customcc.used()
    names = {name for flow in scenario["flows"] for name in (bare_of_ours(flow["cc"] or ""), scheduler_of_ours(flow["mptcp"]["scheduler"]))}
    return tuple(used[name] for name in sorted(names & used.keys()))


def where(cell: Cell, field: planner.FieldPath) -> tuple[str | int, ...]:
    """A place in the scenario as a field of the set-up."""
    return field_of(cell.setup, field)


def simulator_only(cell: Cell, schedulers: Collection[str] = ()) -> str | None:
    """Why no kernel can run a cell, for `Engine.left_out`: it asks for what Linux does not have.
    `schedulers`: names of those that were linked into the kernel.
    """
    for node in cell.setup.topology.nodes.values():
        if node.mtu_search not in (None, "linux"):
            return f"the search {node.mtu_search} for a path's MTU, which the simulator alone has"
    for flow in cell.setup.flows.values():
        upstream = nearest(cell.setup.kernel_of(flow.client)).mptcp == 1
        if flow.transport != "mptcp" or not upstream:
            continue
        bare = scheduler_of_ours(flow.scheduler)
        if bare not in ("", "default") and planner.PREFIX + bare not in schedulers:
            return f"the scheduler {bare}, which this kernel does not have: --engine linux links it into kernels from 6.6 on"
    return None


def check_one_kernel(cell: Cell, kernel: str) -> None:
    """Raises `SetupError` if a host asks for another kernel than the one that runs all of them."""
    for name, node in cell.setup.topology.nodes.items():
        if node.kernel is not None and node.kernel != kernel:
            sentence = f"here one kernel, {kernel}, runs all hosts, and {name} asks for {node.kernel}: leave it out, or take --engine sim"
            raise cell.error(where(cell, ("nodes", name, "kernel")), sentence)


def check_l4s(scenario: Mapping[str, Any]) -> None:
    """Raises `PlanError` where a flow of L4S meets a queue that would not know it: Linux's TCP says
    ECT(0) of data, 7.3 too, whatever the congestion control is (`tcp_ecn_send`).
    """
    l4s = {name for name, *_, is_l4s in _native.algorithms() if is_l4s}
    flows = [flow for flow in scenario["flows"] if bare_of_ours(flow["cc"] or "") in l4s]
    for link in scenario["links"] if flows else ():
        for side in ("a_to_b", "b_to_a"):
            for number, element in enumerate(link[side]):
                aqm = element.get("aqm") or {}
                if aqm.get("kind") == "dualpi2" and not aqm["any_ect"]:
                    sentence = f"Linux sends {flows[0]['cc']}'s data as ECT(0), which is classic traffic here: give it `any_ect: true`"
                    raise planner.PlanError(("links", link["name"], side, number), f"{sentence}, or take the engine sim (--engine sim)")
