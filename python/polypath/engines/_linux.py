"""A real Linux kernel in virtual time: its TCP and MPTCP are the endpoints, its forwarding the
routers, its netem the links.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from polypath import customcc, linux, planner, tunnel
from polypath.study import OUT_OF_TREE, Cell, links_of, scenario, split_cc

from . import _machine, _measure
from ._base import Algorithm, Engine, Output, unknown_cc
from ._errors import EngineError
from ._fingerprint import fingerprint, sources
from ._naming import check_l4s, check_one_kernel, custom_names, custom_of, custom_schedulers, names, simulator_only, where
from ._sim import SimEngine
from ._variation import NONE, Variation

# Raise it when figures are derived from a run in another way.
FORMAT = 1


class LinuxEngine(Engine):
    """Runs a kernel as an ordinary process whose time stands still while it works: exact to the
    byte, without privileges.
    """

    name: ClassVar[str] = "linux"
    summary: ClassVar[str] = "a real Linux kernel in virtual time, byte-exact, no privileges (polypath linux build)"

    def __init__(self, vary: Variation = NONE) -> None:
        self.vary = vary
        # Looking for a kernel may link one, and every cell asks.
        self._found: dict[tuple[str, tuple[customcc.Algorithm, ...]], linux.Kernel] = {}

    @property
    def version(self) -> str:
        return f"{FORMAT}+{_own_hash()}" + (f"~{self.vary.key}" if self.vary else "")

    def versions(self, kernel: str | None = None) -> str | Callable[[str], str]:
        return self.version_of

    def version_of(self, kernel: str) -> str:
        """The version together with a kernel: equal ones, equal outcomes."""
        installed = self._kernel(kernel)
        return f"{installed.release}+{installed.key[:16]}.{self.version}"

    def algorithms(self) -> list[Algorithm]:
        """Of all kernels that are there."""
        coupled = {algorithm.name for algorithm in SimEngine().algorithms() if algorithm.coupled}
        algorithms = {name for kernel in linux.installed() for name in names([*kernel.algorithms, *custom_names()])}
        return [Algorithm(name, split_cc(name)[0] in coupled) for name in sorted(algorithms)]

    def schedulers(self) -> list[str]:
        return sorted({"default", *(name.removeprefix(planner.PREFIX) for kernel in linux.installed() for name in _schedulers(kernel))})

    def kernels(self) -> list[str | None]:
        return [None, *(kernel.name for kernel in linux.installed())]

    def platform(self, cell: Cell, kernel: str | None = None) -> str:
        return f"{self.name} {kernel or cell.setup.kernel}"

    def left_out(self, cell: Cell, kernel: str | None = None) -> str | None:
        name = kernel or cell.setup.kernel
        if name == OUT_OF_TREE and not linux.is_there(name):
            return f"kernel {name}, which is not there (build one from its sources with: polypath linux build FOLDER)"
        for flow in cell.setup.flows.values():
            if flow.transport == "udp":
                continue
            if flow.cc not in names(self._algorithms(name)) and flow.cc in self._all_names:
                return f"congestion control {flow.cc}, which kernel {name} does not have"
        return simulator_only(cell, _schedulers(self._kernel(name)))

    def otherwise(self, cell: Cell) -> Iterable[str]:
        for link in links_of(cell.setup, cell.seeds[0], until_ns=0):
            for side, end in (("a_to_b", "a"), ("b_to_a", "b")):
                for element in link[side]:
                    counted = planner.in_packets(element, link[end]["mtu"])
                    if counted is not element:
                        yield f"{counted['queue']['packets']} full packets in the queue of {link['name']}"

    def check(self, cell: Cell, kernel: str | None = None) -> None:
        name = kernel or cell.setup.kernel
        for flow_name, flow in cell.setup.flows.items():
            algorithms = names(self._algorithms(name))
            if flow.transport != "udp" and flow.cc not in algorithms:
                ours = {algorithm.name: algorithm for algorithm in SimEngine().algorithms()}
                here = [ours.get(algorithm, Algorithm(algorithm, coupled=False)) for algorithm in sorted(algorithms)]
                raise cell.error(("flows", flow_name, "cc"), unknown_cc(flow.cc, here))
        check_one_kernel(cell, name)
        built = scenario(cell.setup, cell.seeds[0], kernel=name)
        try:
            planned = self._plan(built)
        except planner.PlanError as error:
            raise cell.error(where(cell, error.place), error.sentence) from None
        if planned.plan["tunnels"]:
            tunnel.program()
        # A custom algorithm must compile for the kernel too, before anything runs.
        self._kernel(name, custom_of(built))

    def stop(self) -> None:
        _machine.stop()

    def run(self, scenario: Mapping[str, Any]) -> Output:
        kernel, planned = self._kernel(scenario["kernel"], custom_of(scenario)), self._plan(scenario)
        _machine.clean_once()
        with _machine.folder() as where:
            vary = self.vary.text(scenario["seed"]) if self.vary else ""
            _machine.run_plan(where, planned.plan, kernel=kernel.file, seed=scenario["seed"], vary=vary)
            return output(scenario, planned, where)

    def _plan(self, scenario: Mapping[str, Any]) -> planner.Planned:
        return plan_of(scenario, self._kernel(scenario["kernel"]))

    def _algorithms(self, kernel: str) -> tuple[str, ...]:
        return _algorithms(self._kernel(kernel))

    def _kernel(self, name: str, custom: tuple[customcc.Algorithm, ...] = ()) -> linux.Kernel:
        """With custom algorithms linked in, if a run uses any: it is the same kernel for all
        others.
        """
        if (name, custom) not in self._found:
            self._found[name, custom] = linux.find(name, custom)
        return self._found[name, custom]

    @cached_property
    def _all_names(self) -> set[str]:
        """Names of algorithms that some kernel or we have."""
        ours = {algorithm.name for algorithm in SimEngine().algorithms()}
        return ours.union(*(names(kernel.algorithms) for kernel in linux.installed()))


def plan_of(scenario: Mapping[str, Any], kernel: linux.Kernel) -> planner.Planned:
    """What a machine with this kernel is told for a scenario."""
    _check_disciplines(scenario, kernel)
    check_l4s(scenario)
    is_v0 = kernel.mptcp == 0
    return planner.build(scenario, _algorithms(kernel), release=kernel.release, schedulers=_schedulers(kernel), out_of_tree=is_v0)


def _check_disciplines(scenario: Mapping[str, Any], kernel: linux.Kernel) -> None:
    """Raises `PlanError` where a kernel is too old for what manages a queue."""
    release = tuple(int(number) for number in kernel.release.split(".")[:2])
    for link in scenario["links"]:
        for side in ("a_to_b", "b_to_a"):
            for number, element in enumerate(link[side]):
                since = _SINCE.get((element.get("aqm") or {}).get("kind", ""))
                if since is not None and release < since:
                    first = ".".join(map(str, since))
                    sentence = f"Linux {kernel.release} has no {element['aqm']['kind']}: run a kernel from {first} on, or the engine sim"
                    raise planner.PlanError(("links", link["name"], side, number), f"{sentence} (--engine sim)")


# By what manages a queue: the first release that has it, where kernels lack it.
_SINCE = {"dualpi2": (6, 17)}


def _algorithms(kernel: linux.Kernel) -> tuple[str, ...]:
    """The kernel's names for what it has, and for what can be linked into it."""
    return (*kernel.algorithms, *custom_names())


def _schedulers(kernel: linux.Kernel) -> tuple[str, ...]:
    """The same of schedulers; none where it takes none."""
    return (*kernel.schedulers, *custom_schedulers()) if kernel.schedulers else ()


def output(scenario: Mapping[str, Any], planned: planner.Planned, where: Path) -> Output:
    """What a machine left in its folder. Raises `EngineError` if it says that it failed."""
    results = where / "results"
    try:
        result = json.loads((results / "result.json").read_bytes())
        if result["error"]:
            # Then there may be nothing else.
            raise EngineError(_measure.failure(result, "machine"))
        sampled, queues, datagrams = ((results / name).read_bytes() for name in ("sockets.bin", "queues.bin", "datagrams.bin"))
    except (OSError, ValueError) as error:
        raise EngineError(f"the machine powered off without a result: {error}") from error
    lost = {file: count for file, count in result["capture_losses"].items() if count}
    if lost:
        raise EngineError(f"captures missed frames: {lost}")
    record = _measure.RunRecord(
        scenario=scenario, stages=planned.stages, result=result, sockets=sampled, queues=queues, datagrams=datagrams
    )
    outcome, subflows, links = _measure.outcome(record)
    # Open files outlive their folder.
    captures: dict[str, BinaryIO] = {capture["file"]: (results / capture["file"]).open("rb") for capture in planned.plan["captures"]}
    return Output(outcome=outcome, subflow_series=subflows, link_series=links, captures=captures)


@cache
def _own_hash() -> str:
    """Of everything but the kernel that can change a result: the guest, what starts it, the plan's
    maker, and what reads the records.
    """
    _machine.programs_are_there()
    # Without the tunnel daemon no cell with a tunnel runs.
    daemon = [tunnel.PROGRAM] if tunnel.PROGRAM.is_file() else []
    return fingerprint([_machine.GUEST, _machine.STARTER, *daemon, *sources("_linux", "_machine")])
