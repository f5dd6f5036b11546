"""Whether a kernel works at all, and repeats itself: asked of each that was built before anybody
uses it.
"""

from __future__ import annotations

from typing import Any, NoReturn

from polypath import linux
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
# Real seconds; such a run takes one or two, and a busy machine some more.
PATIENCE_S = 120.0


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
