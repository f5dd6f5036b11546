"""Whether a kernel works at all, and repeats itself: asked of each that was built before anybody
uses it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, NoReturn

from polypath import linux
from polypath.linux._config import HZ, hz
from polypath.study import Study, cells, scenario

from ._errors import EngineError
from ._qualify import Replay, replay

# Random loss, jitter and a capture of every packet: what differs by a nanosecond differs in it.
_LINKS = {
    "wifi": {"ends": ["client", "router"], "both": {"rate": "20mbit", "queue": "50packets", "delay": "5ms", "loss": "0.5%"}},
    "lte": {"ends": ["client", "router"], "both": {"rate": "10mbit", "queue": "50packets", "delay": "20ms", "jitter": "4ms"}},
    "last": {"ends": ["router", "server"], "both": {"delay": "1ms"}},
}
_NODES = {"client": None, "router": {"router": True}, "server": None}
_SECONDS = 1
# Seconds of processor time; such a run takes one or two.
PATIENCE_S = 120.0

# How far the mean response time of ours may be from the kernel's own of the same name, and why it
# is not the same. All others have the same bytes.
_KNOWN_DIFFERENCES = {
    "bbr": (0.1, "each draws the phase in which it begins to probe"),
    "cdg": (1.2, "chance decides about each back-off: of one kernel 4.1 to 6.2 s in eight runs"),
    "cubic": (0.02, "ours has an exact cube root, and no ticks"),
    "nv": (0.05, "each draws when the least RTT is renewed"),
}
# Ours takes ticks of 4 ms; a kernel with others (`--variant hz1000`) has what this allows.
_OTHER_TICKS = 0.05
# Coupled algorithms: ours see no siblings in an out-of-tree kernel, whose own have these names.
_COUPLED = ("balia", "lia", "olia", "wvegas")
_PREFIX = "pp_"


class Pair(NamedTuple):
    """Ours in a kernel beside the kernel's own of the same name, in the same run."""

    name: str
    # Mean response times.
    ours_ns: float
    theirs_ns: float
    # Nothing but the name differs in what the machine says.
    same: bool
    # As far as the means may be apart where not all is the same, relative.
    allowed: float

    @property
    def difference(self) -> str:
        """One sentence, where they are further apart than they should be."""
        if self.same or (self.allowed and abs(self.ours_ns / self.theirs_ns - 1) <= self.allowed):
            return ""
        return (
            f"{self.name}@polypath is not {self.name}@linux on this kernel: over a path with pauses and losses a response takes "
            f"{self.ours_ns / 1e6:.1f} and {self.theirs_ns / 1e6:.1f} ms; unless its {self.name} was changed, this Polypath does not "
            "know the release"
        )


def proof(kernel: linux.Kernel, seed: int, seconds: int) -> dict[str, Any]:
    """A scenario in which much can differ: a connection over two paths, of the MPTCP that the
    kernel has, or one of TCP if it has none.
    """
    flow = {"transport": "tcp", "cc": "reno"} if kernel.mptcp is None else {"transport": "mptcp", "cc": "lia"}
    study = Study.model_validate(
        {
            "name": "proof",
            "topology": {"nodes": _NODES, "links": _LINKS},
            "flows": {"f": {"client": "client", "server": "server", "start_spread": "4ms", **flow}},
            "duration": f"{seconds}s",
            "seeds": [seed],
            "baselines": None,
            "measure": {"capture": ["client", "server"]},
        }
    )
    (cell,) = cells(study)
    return scenario(cell.setup, seed, kernel=kernel.name)


def prove(kernel: linux.Kernel, *, timeout_s: float = PATIENCE_S) -> None:
    """Boots a kernel three times. Raises `KernelError` unless equal runs are equal, another seed
    gives another, and data arrive.

    An error is one sentence that says which of these did not hold.
    """
    first, again, other = (_run(kernel, seed, timeout_s) for seed in (1, 1, 2))
    (flow,) = first.outcome["flows"]
    wanted = 1 if kernel.mptcp is None else 2
    subflows = [subflow for subflow in flow["subflows"] if subflow["bytes_acked"]]
    if not flow["bytes_received"]:
        _no_good(kernel, "a connection carried no data")
    if kernel.mptcp is not None and flow["fallback"]:
        _no_good(kernel, "an MPTCP connection fell back to TCP")
    if len(subflows) != wanted:
        _no_good(kernel, f"a connection used {len(subflows)} of {wanted} paths")
    if again.digest != first.digest:
        _no_good(kernel, "two equal runs differ")
    if other.digest == first.digest:
        _no_good(kernel, "another seed changes nothing")


def pairs(kernel: linux.Kernel, *, timeout_s: float = PATIENCE_S, say: Callable[[str], None] = lambda _: None) -> list[Pair]:
    """Each of our algorithms beside the kernel's own of the same name: 3 MB at a time over 10 Mbit/s
    and 100 ms, with losses, and 8 s between them in which the window is kept.

    Only the queue loses packets: before 6.6 netem draws from the generator that all draw from.
    """
    ticks = 0.0 if hz(kernel.variant) == HZ else _OTHER_TICKS
    names = [name for name in kernel.algorithms if _PREFIX + name in kernel.algorithms and name not in _COUPLED]
    say(f"comparing {len(names)} congestion controls with the kernel's own")

    def one(name: str) -> Pair:
        ours, theirs = (_run_scenario(kernel, _paused(kernel, f"{name}@{whose}"), timeout_s) for whose in ("polypath", "linux"))
        same = _without_names(ours) == _without_names(theirs)
        allowed, _ = _KNOWN_DIFFERENCES.get(name, (0.0, ""))
        return Pair(name, _mean_ns(ours), _mean_ns(theirs), same, max(allowed, ticks))

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(one, names))


def _paused(kernel: linux.Kernel, cc: str) -> dict[str, Any]:
    study = Study.model_validate(
        {
            "name": "paused",
            "topology": {
                "nodes": {"client": None, "router": {"router": True}, "server": {"sysctl": {"net.ipv4.tcp_slow_start_after_idle": 0}}},
                "links": {
                    "first": {"ends": ["client", "router"], "both": {"delay": "50ms"}},
                    "last": {"ends": ["router", "server"], "both": {"rate": "10mbit", "queue": "60packets"}},
                },
            },
            "flows": {
                "f": {
                    "client": "client",
                    "server": "server",
                    "cc": cc,
                    "app": {"kind": "requests", "request": "300B", "response": "3MB", "pause": "8s"},
                }
            },
            "duration": "40s",
            "baselines": None,
        }
    )
    (cell,) = cells(study)
    return scenario(cell.setup, 1, kernel=kernel.name)


def _run_scenario(kernel: linux.Kernel, scenario_: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    try:
        (flow,) = replay(scenario_, "plain", kernel=kernel, timeout_s=timeout_s).outcome["flows"]
    except EngineError as error:
        _no_good(kernel, str(error))
    return dict(flow)


def _mean_ns(flow: dict[str, Any]) -> float:
    return float(flow["responses"]["time"]["mean_ns"])


def _without_names(flow: dict[str, Any]) -> dict[str, Any]:
    return {**flow, "subflows": [{**subflow, "cc": ""} for subflow in flow["subflows"]]}


def _run(kernel: linux.Kernel, seed: int, timeout_s: float) -> Replay:
    try:
        return replay(proof(kernel, seed, _SECONDS), "plain", kernel=kernel, timeout_s=timeout_s)
    except EngineError as error:
        _no_good(kernel, str(error))


def _no_good(kernel: linux.Kernel, why: str) -> NoReturn:
    raise linux.KernelError(
        f"Linux {kernel.release} was compiled but does not work, so there is no kernel {kernel.name}: {why}; change its sources or its "
        "configuration and build again, which compiles only what changed"
    )
