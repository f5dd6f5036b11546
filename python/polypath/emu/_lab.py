"""One emulated network that stays until it is taken down: `polypath emu up`, `exec`, `status`,
`down`.

All that it makes stands in a state file before it is made, so that whatever ends us, the next call
knows what to remove.
"""

from __future__ import annotations

import fcntl
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from polypath import _native, programs
from polypath.study import Flow, Fullmesh, Setup, scenario, unknown

from . import _process
from ._errors import EmuError, require_root
from ._network import LATE_LIMIT_NS, network
from ._run_files import lock_file, run_file

PREFIX = "pp-"
_STATE, _STATUS, _LOG = (run_file(name) for name in ("emu.json", "emu-status.json", "emu.log"))
_LOCK = "emu.lock"
_NAMES = Path("/run/netns")
_FUNCTION = "emulate"
# Seconds until the emulator has said that all is set up, and until it has ended after being told.
_SETUP, _END = 60.0, 5.0


@dataclass(frozen=True, kw_only=True)
class Lab:
    """What is up: a file's network. Namespaces by node, each node's addresses with device and link,
    and its endpoints of MPTCP in words.
    """

    file: str
    namespaces: dict[str, str]
    addresses: dict[str, list[tuple[str, str, str]]]
    mptcp: dict[str, str] = field(default_factory=dict)
    pid: int | None = None
    started: int | None = None

    @property
    def is_alive(self) -> bool:
        return self.pid is not None and self.started is not None and _process.started_at(self.pid) == self.started


@dataclass(frozen=True, kw_only=True)
class Report:
    """How the emulator fares: the file that it writes (crates/emu/src/status.rs)."""

    lab: Lab
    status: dict[str, Any]


def up(file: str, setup: Setup, *, seed: int = 1, late_limit_ns: int = LATE_LIMIT_NS, mptcp: bool = False) -> Lab:
    """Builds the network and starts its emulator; raises `EmuError` if there is one already.

    With `mptcp` the clients and servers of the set-up's flows get endpoints and limits, so that
    MPTCP uses all paths between them.
    """
    require_root()
    spec = scenario(_over_mptcp(setup) if mptcp else setup, seed)
    specification = {**network(spec, mptcp=mptcp), "late_limit_ns": late_limit_ns, "status": str(_STATUS)}
    # The wire keeps no name: it ends with the emulator.
    names = {node["name"]: PREFIX + node["name"] for node in spec["nodes"]}
    lab = Lab(file=file, namespaces=names, addresses=_addresses(specification["plan"], spec), mptcp=_endpoints(specification["plan"]))
    with _locked():
        _refuse_a_second()
        for name in names.values():
            if (_NAMES / name).exists():
                sentence = f"there is a network namespace {name} that Polypath does not know of"
                raise EmuError(f"{sentence}: remove it (ip netns del {name}) or rename the node")
        try:
            return _start(lab, {**specification, "names": names})
        except BaseException:
            _remove(_load() or lab)
            raise


def down() -> Lab | None:
    """Takes the network down, with all that runs in it; None if there was none."""
    require_root()
    with _locked():
        lab = _load()
        if lab is not None:
            _remove(lab)
        return lab


def status() -> Report:
    """How the network fares; one whose emulator was killed is removed."""
    lab = _living()
    return Report(lab=lab, status=json.loads(_STATUS.read_text()))


def entrance(node: str, command: list[str]) -> list[str]:
    """The command that runs a command on a node."""
    lab = _living()
    if node not in lab.namespaces:
        raise EmuError(unknown("node", node, lab.namespaces))
    return [programs.need("nsenter"), f"--net={_NAMES / lab.namespaces[node]}", "--", *command]


def _living() -> Lab:
    require_root()
    with _locked():
        lab = _load()
        if lab is None:
            raise EmuError("no emulated network is up: build one with `polypath emu up FILE`")
        if not lab.is_alive:
            _remove(lab)
            raise EmuError(f"the emulator of {lab.file} was killed, and what it left is removed: build it again with `polypath emu up`")
        return lab


def _refuse_a_second() -> None:
    before = _load()
    if before is not None and before.is_alive:
        raise EmuError(f"the network of {before.file} is up already: take it down first (polypath emu down)")
    if before is not None:
        _remove(before)


def _start(lab: Lab, specification: dict[str, Any]) -> Lab:
    _STATUS.unlink(missing_ok=True)
    _save(lab)
    with _LOG.open("wb") as log, _uninterrupted():
        process = _process.start(_FUNCTION, specification, log=log, mark=str(_STATE))
        lab = Lab(**{**asdict(lab), "pid": process.pid, "started": _process.started_at(process.pid)})
        _save(lab)
    until = time.monotonic() + _SETUP
    while not _STATUS.exists():
        if process.poll() is not None:
            raise EmuError(_process.last_line(_LOG.read_text()) or f"the emulator ended with status {process.returncode}")
        if time.monotonic() > until:
            raise EmuError(f"the emulator was not ready within {_SETUP:.0f} s: its log is {_LOG}")
        time.sleep(0.01)
    return lab


def _remove(lab: Lab) -> None:
    """Ends the emulator, what runs in the namespaces, and the namespaces."""
    inodes = {name_file.stat().st_ino for name in lab.namespaces.values() if (name_file := _NAMES / name).exists()}
    # A file on which nothing is mounted is no namespace, and shares its inode with none.
    inodes.discard(Path("/proc/self/ns/net").stat().st_ino)
    # By its mark: the process that started it may have ended before it wrote the number down.
    for pid in _process.marked(_FUNCTION, str(_STATE)):
        _process.end(pid, _process.started_at(pid), _END)
    for pid in _process.inside(inodes):
        _process.end(pid, _process.started_at(pid), 1.0)
    for name in lab.namespaces.values():
        _native.unname_namespace(name)
    for file in (_STATUS, _STATE):
        file.unlink(missing_ok=True)


def _addresses(plan: dict[str, Any], spec: dict[str, Any]) -> dict[str, list[tuple[str, str, str]]]:
    """By node: each address with its device and link; the loopback device has those of no link."""
    addresses: dict[str, list[tuple[str, str, str]]] = {}
    for node in spec["nodes"]:
        addresses[node["name"]] = [(address, "lo", "") for address in node["addresses"]]
    for veth in plan["cables"]:
        for port in (veth["a"], veth["b"]):
            if "address" in port:
                link = spec["links"][int(port["device"][1:])]["name"]
                addresses[port["namespace"]].append((port["address"][0], port["device"], link))
    return addresses


def _over_mptcp(setup: Setup) -> Setup:
    """The connections of a set-up, all of them MPTCP between all addresses or as their path
    managers say.
    """
    routers = {name for name, node in setup.topology.nodes.items() if node.router}
    flows: dict[str, Flow] = {}
    for flow in setup.flows.values():
        if flow.transport == "udp":
            continue
        if routers & {flow.client, flow.server}:
            raise EmuError("--mptcp does not know who opens connections to whom: give the file `flows:` with a client and a server")
        manager = flow.path_manager if flow.transport == "mptcp" else Fullmesh()
        # One flow for each pair: kernels have endpoints for a host, not for a connection.
        update = {"transport": "mptcp", "path_manager": manager, "scheduler": None, "cc": "reno"}
        flows.setdefault(f"from {flow.client} to {flow.server}", flow.with_checked(**update))
    if not flows:
        raise EmuError("--mptcp has no connection to serve: the file's flows are all datagrams")
    return setup.with_checked(flows=flows)


def _endpoints(plan: dict[str, Any]) -> dict[str, str]:
    """By node: what `ip mptcp` has there, in words."""
    endpoints = {}
    for namespace in plan["namespaces"]:
        if "limits" in namespace:
            here = [endpoint for endpoint in plan["endpoints"] if endpoint["namespace"] == namespace["name"]]
            words = [f"{endpoint['address']} ({'announced' if endpoint.get('signal') else 'opens subflows'})" for endpoint in here]
            further = namespace["limits"]["subflows"]
            words.append(f"a connection has {further} more subflow{'s' if further != 1 else ''} at most")
            endpoints[namespace["name"]] = ", ".join(words)
    return endpoints


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C comes afterwards. A process that is started meanwhile holds it back too, as the
    emulator does anyway.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _locked() -> Iterator[None]:
    """One call at a time."""
    with lock_file(_LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _load() -> Lab | None:
    try:
        tree = json.loads(_STATE.read_text())
    except FileNotFoundError:
        return None
    return Lab(**{**tree, "addresses": {node: [(a, d, link) for a, d, link in rows] for node, rows in tree["addresses"].items()}})


def _save(lab: Lab) -> None:
    draft = _STATE.with_suffix(".draft")
    draft.write_text(json.dumps(asdict(lab)))
    draft.replace(_STATE)
