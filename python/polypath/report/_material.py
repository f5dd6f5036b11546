"""What a report is made of: the study, its tables, and what the engines were given. Read from
anywhere; the page below asks no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from polypath.analysis import PLATFORM, beside, path_names, platforms_in_order, select
from polypath.analysis import with_limits as limited

GOODPUT = "goodput_receiver_mbps"
# What of a flow decides the paths of its data.
_OF_PATHS = ("name", "client", "server", "client_address", "server_address", "transport", "direction", "routes", "mptcp")


@dataclass(frozen=True, kw_only=True)
class Material:
    """Tables as the results keep them (docs/reference/results.md) with the `platform` of each row,
    and the study they answer.
    """

    study: Any
    parameters: Sequence[str]
    runs: pd.DataFrame
    baselines: pd.DataFrame
    subflows: pd.DataFrame
    series: pd.DataFrame
    link_series: pd.DataFrame
    scenarios: Mapping[str, Mapping[str, Any]]
    alone: pd.DataFrame = field(default_factory=pd.DataFrame)
    published: pd.DataFrame | None = None
    progress: pd.DataFrame = field(default_factory=pd.DataFrame)
    events: pd.DataFrame = field(default_factory=pd.DataFrame)
    links: pd.DataFrame = field(default_factory=pd.DataFrame)
    tunnel_paths: pd.DataFrame = field(default_factory=pd.DataFrame)
    repeat: Sequence[str] = ()
    """Commands that give these results again."""
    versions: Mapping[str, str] = field(default_factory=dict)
    against: pd.DataFrame = field(default_factory=pd.DataFrame)
    """What `analysis.against` found, where somebody asked; the parameter is its first column."""
    origin: Sequence[str] = ()
    """What to know of the runs before one believes them, a sentence each."""

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What takes long to find, for who asks again."""
        return {}

    @cached_property
    def limited(self) -> pd.DataFrame:
        """See `with_limits`; found once, since of many runs it takes seconds."""
        return limited(self.runs, self.subflows, self.scenarios, self.link_series, self.links, self.tunnel_paths)

    def paths_of(self, rows: pd.DataFrame) -> Mapping[tuple[str, str], str]:
        """What people call the path between two addresses in these runs; where their networks
        differ, the first that has it names it.
        """
        names: dict[tuple[str, str], str] = {}
        for key in dict.fromkeys(rows["key"]):
            names = {**self._named(str(key)), **names}
        return names

    def _named(self, key: str) -> Mapping[tuple[str, str], str]:
        # Most runs have the network of another one.
        scenario = self.scenarios[key]
        links = [(link["name"], link["a"]["address"], link["b"]["address"]) for link in scenario["links"]]
        flows = [[flow.get(name) for name in _OF_PATHS] for flow in scenario["flows"]]
        network = json.dumps([scenario["nodes"], links, flows, bool(scenario.get("kernel"))], sort_keys=True)
        if network not in self._names:
            self._names[network] = path_names(scenario)
        return self._names[network]

    @cached_property
    def _names(self) -> dict[str, Mapping[tuple[str, str], str]]:
        return {}

    @cached_property
    def ends(self) -> pd.Series[float]:
        """When the last connection of each run ended, in seconds, by key."""
        return (self.runs["established_s"] + self.runs["lifetime_s"]).groupby(self.runs["key"]).max()

    @cached_property
    def living(self) -> pd.DataFrame:
        """The series of all runs while they lived; see the function of this name."""
        return living(self, self.series)


def experiments(material: Material) -> dict[str, pd.DataFrame]:
    """The runs of each experiment, in the study's order."""
    return {str(name): rows for name, rows in material.runs.groupby("experiment", sort=False)}


def varied(material: Material, rows: pd.DataFrame) -> list[str]:
    """The parameters that tell these cells apart; with one cell, the first parameter there is."""
    over = material.study.repeated
    present = [name for name in material.parameters if name in rows and name not in over and bool(rows[name].notna().any())]
    if material.runs[PLATFORM].nunique() > 1:
        # A kernel that the matrix varies is part of the platform's name.
        present = [*(name for name in present if name != "kernel"), PLATFORM]
    # Beside the rows of other platforms each says which one it is of, also where an experiment ran
    # on one alone.
    return [name for name in present if name == PLATFORM or rows[name].nunique(dropna=False) > 1] or present[:1]


def with_limits(material: Material) -> pd.DataFrame:
    """The runs with bound_mbps, share of it, what limited them and why."""
    return material.limited.copy(deep=False)


def label(row: Mapping[str, Any], names: Sequence[str], flows: int) -> str:
    """A cell in a word or two: its varied parameters, and the flow where there are several."""
    words = [str(row[name]) if _speaks_for_itself(str(row[name]), len(names)) else f"{name} {row[name]}" for name in names]
    if flows > 1 or not words:
        words.append(str(row["flow"]))
    return " · ".join(words)


def _speaks_for_itself(value: str, names: int) -> bool:
    """Whether a value tells what it is of: "0%" or 4 does beside no other parameter, "none" never
    does.
    """
    return value.lower() not in ("none", "true", "false", "yes", "no", "on", "off") and (names == 1 or value[:1].isalpha())


def living(material: Material, series: pd.DataFrame, keys: Iterable[str] | None = None) -> pd.DataFrame:
    """A series (of these runs) while some connection of its run lived: a run goes on a little after
    its applications have ended.
    """
    if keys is not None and not series.empty:
        series = series[series["key"].isin(list(keys))]
    if series.empty:
        return series
    return series[series["time_s"] <= series["key"].map(material.ends)]


def published_rows(material: Material) -> pd.DataFrame:
    """The runs that the published numbers are compared with."""
    where = getattr(material.study.published, "where", {}) if material.study.published else {}
    return select(material.runs, where)


def published_beside(material: Material) -> pd.DataFrame:
    """The published numbers beside what was measured on each platform (column `platform`): those
    about subflows beside subflows.
    """
    said, table = material.study.published, material.published
    assert said is not None and table is not None, "the caller has looked"
    compare = {column: metric for column, metric in said.compare.items() if column in table}
    runs, subflows = published_rows(material), select(material.subflows, said.where)
    ours = {column: metric for column, metric in compare.items() if metric not in material.runs and metric in subflows}
    theirs = {column: metric for column, metric in compare.items() if column not in ours}
    return pd.concat(
        [
            beside(part[part[PLATFORM] == platform], table, list(said.keys), values).assign(**{PLATFORM: platform})
            for platform in platforms_in_order(runs[PLATFORM]) or [""]
            for part, values in ((runs, theirs), (subflows, ours))
            if values
        ]
    )
