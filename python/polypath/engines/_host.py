"""The machine's own Linux in real time: its TCP and MPTCP are the endpoints, its forwarding the
routers, emulated links between them.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import pyarrow as pa

from polypath import _native, customcc, emu, kernelcc, planner, tunnel
from polypath.columns import columns_of
from polypath.study import Cell, nearest, scenario, split_cc

from . import _iperf3, _machine, _measure
from ._base import Algorithm, Engine, Output, unknown_cc
from ._errors import EngineError
from ._fingerprint import fingerprint, sources
from ._naming import check_l4s, check_one_kernel, custom_names, names, simulator_only, where
from ._sim import LINUX_ONLY, SimEngine

# Raise it when figures are derived from a run in another way.
FORMAT = 2
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_OUT_OF_TREE, _UPSTREAM = Path("/proc/sys/net/mptcp/mptcp_enabled"), Path("/proc/sys/net/mptcp/enabled")
_SOFTNET = Path("/proc/net/softnet_stat")
_MPTCP = "no MPTCP: Linux 5.6 or later has it if it was built with CONFIG_MPTCP"


class HostEngine(Engine):
    """Runs the kernel that runs this machine, between network namespaces of its own; needs root,
    and the time that a run lasts.
    """

    name: ClassVar[str] = "host"
    summary: ClassVar[str] = "this machine's own Linux in network namespaces, in real time (root)"
    # Runs at once would share the processors, and be late.
    workers: ClassVar[int | None] = 1
    real_time: ClassVar[bool] = True

    def __init__(self) -> None:
        # By what decides whether a network can be built and loaded: what this machine says against
        # it.
        self._tried: dict[str, str] = {}

    @property
    def version(self) -> str:
        # Without Linux there is no emulator, but there may be results of one.
        emulator = getattr(_native, "emulator_version", lambda: "none")
        return f"{FORMAT}+{emulator()}.{_own_hash()}"

    @property
    def only_kernel(self) -> str:
        return platform.release()

    def versions(self, kernel: str | None = None) -> str | Callable[[str], str]:
        return lambda _: f"{self.only_kernel}.{self.version}"

    def algorithms(self) -> list[Algorithm]:
        ours = {algorithm.name: algorithm for algorithm in SimEngine().algorithms()}

        def known(name: str) -> Algorithm:
            about = ours.get(split_cc(name)[0])
            return about._replace(name=name) if about else Algorithm(name, coupled=False)

        return [known(name) for name in sorted(names(self._algorithms))]

    def schedulers(self) -> list[str]:
        return ["default"]

    def kernels(self) -> list[str | None]:
        return [self.only_kernel]

    def platform(self, cell: Cell, kernel: str | None = None) -> str:
        return f"{self.name} {self.only_kernel}"

    def left_out(self, cell: Cell, kernel: str | None = None) -> str | None:
        has = 0 if _OUT_OF_TREE.exists() else 1
        algorithms = names(self._algorithms)
        for flow in cell.setup.flows.values():
            if flow.transport == "udp":
                continue
            asked = cell.setup.kernel_of(flow.client)
            if (version := nearest(asked).mptcp) != has:
                return f"kernel {asked}, which has MPTCP version {version}; this machine's ({self.only_kernel}) has version {has} or none"
            if flow.cc not in algorithms and flow.cc in self._all_names:
                lacks = f"congestion control {flow.cc}, which this machine's kernel ({self.only_kernel}) does not have"
                return lacks + self._why_not(flow.cc)
        if any(tunnel.send_buffer is not None for tunnel in cell.setup.topology.tunnels.values()):
            return "the socket buffer of a tunnel, which never fills where the emulator takes every packet at once"
        return simulator_only(cell)

    def check(self, cell: Cell, kernel: str | None = None) -> None:
        emu.require_root()
        for name, flow in cell.setup.flows.items():
            if flow.transport != "udp" and flow.cc not in names(self._algorithms):
                raise cell.error(("flows", name, "cc"), unknown_cc(flow.cc, self.algorithms()))
            if flow.transport == "mptcp" and not (_OUT_OF_TREE.exists() or _UPSTREAM.exists()):
                raise cell.error(("flows", name, "transport"), f"this machine's kernel ({self.only_kernel}) has {_MPTCP}")
        check_one_kernel(cell, self.only_kernel)
        built = scenario(cell.setup, cell.seeds[0], kernel=self.only_kernel)
        try:
            check_l4s(built)
            plan = self._plan(built)
        except planner.PlanError as error:
            raise cell.error(where(cell, error.place), error.sentence) from None
        if (other := _other_settings(plan.get("machine", []))) is not None:
            raise cell.error(("topology",), other)
        self._try_algorithms(_ours(plan))
        wrong = self._try_network(plan, built)
        if wrong:
            raise cell.error(_where_of(cell, wrong), f"this machine's kernel ({self.only_kernel}) cannot do this: {wrong}")

    def stop(self) -> None:
        emu.stop()

    def run(self, scenario: Mapping[str, Any]) -> Output:
        _machine.clean_once()
        plan = self._plan(scenario)
        try:
            with _machine.folder() as results, kernelcc.ensure(_ours(plan)):
                before = _lost_between_devices()
                ran = emu.run(emu.carried(plan, scenario, late_limit_ns=emu.LATE_LIMIT_NS), results)
                return _output(scenario, plan, {**ran, "lost_between_devices": _lost_between_devices() - before}, results)
        except (emu.EmuError, kernelcc.KernelCcError) as error:
            raise EngineError(f"the run could not be carried out: {error}") from error

    def _plan(self, scenario: Mapping[str, Any]) -> dict[str, Any]:
        # The emulator carries what stands on the links; to the kernel they are mere veth pairs.
        bare = {**scenario, "links": [{**link, "a_to_b": [], "b_to_a": []} for link in scenario["links"]]}
        release, is_v0 = platform.release(), _OUT_OF_TREE.exists()
        plan = planner.build(bare, self._algorithms, release=release, out_of_tree=is_v0, defaults=False, send_buffers=False).plan
        for planned in plan["tunnels"]:
            planned["program"] = str(tunnel.program())
        for number, (planned, flow) in enumerate(zip(plan["flows"], scenario["flows"], strict=True)):
            if flow.get("program") == _iperf3.NAME:
                planned["programs"] = _iperf3.programs(number, planned, flow)
        return plan

    def _try_algorithms(self, ours: Sequence[str]) -> None:
        """Raises `KernelCcError` if this kernel does not take ours."""
        used = customcc.used()
        for name in ours:
            tried = f"{name} {used[name].hash}" if name in used else name
            if tried not in self._tried:
                with kernelcc.ensure([name]):
                    self._tried[tried] = ""

    def _try_network(self, plan: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
        """What this machine says against the network of a plan, if anything; it is built for that,
        without its flows.
        """
        quiet = {**plan, "flows": [], "captures": []}
        key = json.dumps([quiet, scenario["links"]], sort_keys=True)
        if key not in self._tried:
            with _machine.folder() as results:
                try:
                    emu.run(emu.carried(quiet, scenario), results, rehearsal=True)
                    self._tried[key] = ""
                except emu.EmuError as error:
                    self._tried[key] = str(error)
        return self._tried[key]

    def _why_not(self, cc: str) -> str:
        bare, whose = split_cc(cc)
        if whose != "@linux" and bare in self._ours_built:
            return "; run `make setup-all` in the source folder to build those that can be loaded"
        return f" (modprobe tcp_{bare} loads it where it is a module)" if bare in LINUX_ONLY else ""

    @cached_property
    def _algorithms(self) -> Collection[str]:
        """The kernel's own, and ours that can be loaded into it."""
        algorithms = [name for name in _AVAILABLE.read_text().split() if not name.startswith(planner.PREFIX)] if _AVAILABLE.exists() else []
        with contextlib.suppress(kernelcc.KernelCcError):
            algorithms += [planner.PREFIX + name for name in kernelcc.available()] + custom_names()
        return tuple(algorithms)

    @cached_property
    def _ours_built(self) -> set[str]:
        return {algorithm.name for algorithm in SimEngine().algorithms()}

    @cached_property
    def _all_names(self) -> set[str]:
        """Names of algorithms that some kernel or we have, in every way to write them."""
        return names([*(planner.PREFIX + name for name in self._ours_built), *self._ours_built, *LINUX_ONLY])


@cache
def _own_hash() -> str:
    """Of what turns a scenario into a run and a run into figures; the emulator and the guest's code
    have a version of their own.
    """
    links = Path(emu.__file__).parent / "_network.py"
    # Without the tunnel daemon no cell with a tunnel runs.
    daemon = [tunnel.PROGRAM] if tunnel.PROGRAM.is_file() else []
    return fingerprint([links, *daemon, *sources("_host", "_iperf3")])


def _ours(plan: Mapping[str, Any]) -> list[str]:
    """The algorithms of a plan that have to be loaded."""
    wanted = dict.fromkeys(flow["cc"] for flow in plan["flows"] if flow["cc"].startswith(planner.PREFIX))
    return [name.removeprefix(planner.PREFIX) for name in wanted]


def _other_settings(settings: Sequence[Sequence[str]]) -> str | None:
    """What of these settings this machine has otherwise: they are everybody's on it, so a study
    must not change them.
    """
    for name, wanted in settings:
        file = Path("/", name)
        has = file.read_text(encoding="ascii").strip() if file.exists() else "absent"
        if has != wanted:
            return f"/{name} is {has} on this machine and a run needs {wanted}: set it, since a study changes nothing of the whole machine"
    return None


def _where_of(cell: Cell, wrong: str) -> tuple[str | int, ...]:
    """The setting that a sentence of the guest names, if it names one."""
    match = re.search(r"namespace (\S+): setting (\S+) to ", wrong)
    if match is None or match[1] not in cell.setup.topology.nodes:
        return ("topology",)
    settings = cell.setup.topology.nodes[match[1]].sysctl
    setting = next((name for name in settings if match[2] == name or match[2].endswith(f".{name}")), None)
    return ("topology", "nodes", match[1], *(("sysctl", setting) if setting else ()))


def _output(scenario: Mapping[str, Any], plan: Mapping[str, Any], ran: Mapping[str, Any], results: Path) -> Output:
    result = ran["result"]
    if result["error"]:
        raise EngineError(_measure.failure(result, "kernel"))
    lost = {file: count for file, count in result["capture_losses"].items() if count}
    if lost:
        raise EngineError(f"captures missed frames: {lost}")
    programs: dict[int, str] = {}
    for number, flow in enumerate(scenario["flows"]):
        if flow.get("program") == _iperf3.NAME:
            programs[number] = _iperf3.read(number, flow, result["flows"][number], results)
    record = _measure.RunRecord(
        scenario=scenario,
        result=result,
        sockets=(results / "sockets.bin").read_bytes(),
        datagrams=(results / "datagrams.bin").read_bytes(),
        links=[_link(direction) for direction in _in_order(scenario, ran["directions"])],
        link_series=_link_series(scenario, plan["sample_ns"], result["ended_ns"], ran["series"]),
    )
    outcome, subflows, links = _measure.outcome(record)
    for number, program in programs.items():
        outcome["flows"][number]["program"] = program
    outcome |= {"late": _late(ran), "sampled_late_ns": result["late_ns"], "emulator_cpu_ns": ran["cpu_ns"]}
    # Open files outlive their folder.
    captures: dict[str, BinaryIO] = {capture["file"]: (results / capture["file"]).open("rb") for capture in plan["captures"]}
    return Output(outcome=outcome, subflow_series=subflows, link_series=links, captures=captures)


def _in_order(scenario: Mapping[str, Any], directions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """As the links stand in the scenario; the emulator has them as it shared them out."""
    by_direction = {(direction["link"], direction["a_to_b"]): direction for direction in directions}
    return [by_direction[link["name"], a_to_b] for link in scenario["links"] for a_to_b in (True, False)]


_COUNTED = (*(column.raw for column in columns_of("links")), "missed")
_LATENESS = ("late_median", "late_p99", "late_max")


def _link(direction: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: direction[name] for name in _COUNTED}
    # Whatever was lost without the model's losing it: seen too late, no memory, or longer than the
    # link's device is said to be.
    counts["missed"] += direction["overflow"] + direction["cut"]
    late = {f"{name}_us": direction[f"{name}_us"] for name in _LATENESS}
    return {"name": direction["link"], "a_to_b": direction["a_to_b"], **counts, **late}


def _lost_between_devices() -> int:
    """Packets that found a processor's queue of received packets full, since the machine started:
    the second column of the file, a line a processor.
    """
    return sum(int(line.split()[1], 16) for line in _SOFTNET.read_text().splitlines())


def _late(ran: Mapping[str, Any]) -> dict[str, Any]:
    """The latest direction's figures, and why the run is not to be trusted, if so."""
    used = [direction for direction in ran["directions"] if direction["packets"]]
    why = []
    for direction in ran["directions"]:
        way = f"{direction['link']} {'there' if direction['a_to_b'] else 'back'}"
        lost = direction["missed"] + direction["overflow"] + direction["cut"]
        if direction["untrusted"] and lost:
            why.append(f"the emulator lost {lost} packets on {way}")
        elif direction["untrusted"]:
            why.append(f"packets left {way} {direction['late_p99_us'] / 1e3:.1f} ms late at the 99th percentile")
    for flow in ran["result"]["flows"]:
        # As for packets: one in a hundred may be.
        if flow["datagrams_late"] * 100 > flow["datagrams_sent"]:
            share = flow["datagrams_late"] / flow["datagrams_sent"]
            why.append(f"{flow['name']} sent {share:.0%} of its datagrams more than 1 ms late, since the processors had more to do")
    if lost := ran["lost_between_devices"]:
        why.append(
            f"this machine lost {lost} packets between its devices; enlarge net.core.netdev_max_backlog with sysctl and run it again"
        )
    return {
        "limit_us": emu.LATE_LIMIT_NS / 1e3,
        **{f"{name}_us": max((direction[f"{name}_us"] for direction in used), default=0.0) for name in _LATENESS},
        "untrusted": why,
    }


def _link_series(scenario: Mapping[str, Any], sample_ns: int, ended_ns: int, series: Sequence[Mapping[str, Any]]) -> pa.Table:
    """A row a sample and direction with a queue, by time."""
    interval, parts = scenario["series_interval_ns"], []
    for index, link_samples in enumerate(_in_order(scenario, series)):
        samples = np.array(link_samples["samples"], np.uint64).reshape(-1, 3)
        times = np.arange(len(samples), dtype=np.uint64) * np.uint64(sample_ns)
        kept = (times <= ended_ns) & (times % (interval or 1) == 0) if interval else np.zeros(len(samples), bool)
        parts.append((times[kept], np.full(int(kept.sum()), index, np.uint32), samples[kept]))
    times = np.concatenate([part[0] for part in parts])
    places = np.concatenate([part[1] for part in parts])
    values = np.concatenate([part[2] for part in parts])
    order = np.lexsort((places, times))
    return pa.table(
        {
            "time_ns": times[order],
            "link": places[order],
            "queue_packets": values[order, 0].astype(np.uint32),
            "queue_bytes": values[order, 1],
            "drops": values[order, 2],
        }
    )
