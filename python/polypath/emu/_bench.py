"""Measures the emulator: how many packets it carries and how exactly it delays, beside what the
machine can do without it.
"""

from __future__ import annotations

from typing import Any

from polypath.study import NETWORK_ONLY, Study, cells, scenario

from . import _process
from ._errors import require_root
from ._network import network

_DELAY = "10ms"
_PLAIN = "plain"
_STUDY = {
    "name": "bench",
    "duration": "1s",
    "topology": {
        "nodes": {"client": {}, "server": {}},
        "links": {
            # A link that does nothing but be emulated, a bare veth pair, and one that only delays.
            "through": {"ends": ["client", "server"], "both": []},
            _PLAIN: {"ends": ["client", "server"], "both": []},
            "delayed": {"ends": ["client", "server"], "both": {"delay": _DELAY}},
        },
    },
    "flows": {"none": {"client": "client", "server": "server"}},
}


def bench(seconds: float) -> dict[str, Any]:
    """The figures (crates/emu/src/bench.rs); each of the measurements lasts so many seconds."""
    require_root()
    spec = scenario(cells(Study.model_validate(_STUDY, context={NETWORK_ONLY: True}))[0].setup, seed=1)
    ends = {link["name"]: link["b"]["address"] for link in spec["links"]}
    delay = next(link["a_to_b"][0]["delay_ns"] for link in spec["links"] if link["name"] == "delayed")
    specification = {
        "spec": {**network(spec, plain=[_PLAIN]), "with_parent": True},
        "client": "client",
        "server": "server",
        **ends,
        "delay_ns": delay,
        "each_ns": int(seconds * 1e9),
    }
    figures: dict[str, Any] = _process.ask("bench_emulator", specification)
    return figures
