"""The segment size that searches for a path's MTU came to, and whose rule each search is."""

from __future__ import annotations

import pandas as pd

from polypath import _native

from ._material import Material

SEGMENT = "segment_bytes"
"""A column of runs: payload of a full segment at the run's end, mean over the subflows that came
up.
"""


def mtu_searches(material: Material, rows: pd.DataFrame) -> dict[str, str]:
    """The searches that hosts of these runs name, and what each does, with the version of the
    program that it follows.
    """
    scenarios = [material.scenarios[key] for key in dict.fromkeys(rows["key"])]
    names = dict.fromkeys(node["mtu_search"] for scenario in scenarios for node in scenario["nodes"] if node.get("mtu_search"))
    searches = dict(_native.mtu_searches())
    return {name: searches[name][:1].lower() + searches[name][1:].removesuffix(".") for name in names}


def segments(material: Material, rows: pd.DataFrame) -> list[float]:
    """Of each row the segment size at the end of its run."""
    established = material.subflows[material.subflows["established_s"].notna()].drop_duplicates(["key", "flow", "subflow"])
    sizes = established.groupby(["key", "flow"])["mss"].mean().to_dict()
    return [float(sizes.get(flow, float("nan"))) for flow in zip(rows["key"], rows["flow"], strict=True)]
