"""What studies mean by names alone: queue management with its usual figures, and what the seed
draws of each radio.

The page makes scenarios as `polypath.study` does, so these figures come from there.
"""

from __future__ import annotations

from typing import Any

from polypath.study import RADIOS, Study, cells, scenario

# The page's links that may be a radio's, its seeds, and its longest run.
LINKS = ("path1", "path2")
SEEDS = range(1, 9)
LONGEST = "60s"
_PEAK = 10**11


def declared() -> dict[str, Any]:
    """The page's file declared.json."""
    return {
        "aqm": {name: _aqm(name) for name in ("codel", "fq_codel", "pie", "dualpi2")},
        "radios": {name: _radio(name) for name in RADIOS},
    }


def _links(both: Any, seed: int) -> dict[str, Any]:
    study = Study.model_validate(
        {
            "name": "declared",
            "topology": {
                "nodes": {"client": {}, "server": {}},
                "links": {name: {"ends": ["client", "server"], "both": both} for name in LINKS},
            },
            "flows": {"connection": {"client": "client", "server": "server"}},
            "duration": LONGEST,
        }
    )
    (cell,) = cells(study)
    return {link["name"]: link for link in scenario(cell.setup, seed)["links"]}


def _aqm(name: str) -> Any:
    (rate,) = _links({"rate": "1mbit", "aqm": name}, 1)["path1"]["a_to_b"]
    return rate["aqm"]


def _radio(name: str) -> dict[str, Any]:
    radio = RADIOS[name]
    walks: dict[str, dict[int, list[tuple[int, int]]]] = {}
    retry = None
    for seed in SEEDS:
        for link, elements in _links([{"kind": "wireless", "radio": name, "peak": f"{_PEAK}bit"}], seed).items():
            for side, way in (("a_to_b", "there"), ("b_to_a", "back")):
                rate, retry, _ = elements[side]
                steps = [{"at_ns": 0, "to": rate["bits_per_s"]}, *rate["changes"]]
                walk = [(step["at_ns"] // 10**6, _state(radio.states, step["to"])) for step in steps]
                # The element stands first in its chain.
                walks.setdefault(f"{link} {way} 0", {})[seed] = walk
    return {"states": radio.states, "retry": retry, "walks": walks}


def _state(states: tuple[float, ...], rate: int) -> int:
    return min(range(len(states)), key=lambda state: abs(states[state] * _PEAK - rate))
