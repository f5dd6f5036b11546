"""Fairness of flows that run together: the fair share of each, what it took of it, and the harm
that the others did to it.

The fair share is max-min fair over the whole network: the smallest goodput of a flow is as large as
the links allow, then the second smallest, and so on, where a flow with several paths may divide
itself among them as it likes and counts once, however many subflows it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ._bounds import UNLIMITED, Capacity, capacities, most_mbps, span, window
from ._network import Scenario, network_of, paths

GOODPUT = "goodput_receiver_mbps"
LATENCY = "srtt_ms"
COMPLETION = "completion_s"
# Of the dual values, which sum to one: smaller ones are the solver's rounding.
_BINDING = 1e-7


def fair_shares(scenario: Scenario) -> pd.DataFrame:
    """A row a flow of the scenario: `fair_mbps`, its max-min fair share of goodput in Mbit/s,
    infinite where no link limits it.

    The smallest share is as large as the links allow, then the second smallest, and so on
    (Bertsekas and Gallager, Data Networks, section 6.5.2), found by a linear programme a step; a
    flow counts once, however many subflows it has (RFC 6356, goal 2).
    """
    taken = [paths(scenario, flow) for flow in scenario["flows"]]
    owner = [number for number, ways in enumerate(taken) for _ in ways]
    limits, limited = capacities([path for ways in taken for path in ways], span([window(scenario, flow) for flow in scenario["flows"]]))
    # A flow with a path that nothing limits leaves the others all the rest.
    free = {owner[index] for index, bounded in enumerate(limited) if not bounded}
    shares = dict.fromkeys(free, UNLIMITED) | {number: 0.0 for number, ways in enumerate(taken) if not ways}
    asking = {number for number in range(len(taken)) if number not in shares}
    demands = {number: _demand(flow["app"]) for number, flow in enumerate(scenario["flows"])}
    shares |= _water_filling(owner, limits, asking, demands)
    rows = [{"flow": flow["name"], "fair_mbps": shares[number]} for number, flow in enumerate(scenario["flows"])]
    return pd.DataFrame(rows, columns=["flow", "fair_mbps"])


def _demand(app: Mapping[str, Any]) -> float:
    """What an application would send by itself, in Mbit/s."""
    rate = app.get("bits_per_s")
    return UNLIMITED if rate is None else rate / 1e6 * app["on_ns"] / (app["on_ns"] + app["off_ns"])


def _water_filling(owner: Sequence[int], limits: Sequence[Capacity], asking: set[int], demands: Mapping[int, float]) -> dict[int, float]:
    """Raises all shares together; those that cannot or need not rise further stay, and the others
    go on. Mbit/s.
    """
    if len(asking) == 1:
        (number,) = asking
        return {number: min(demands[number], most_mbps(limits, [index for index, flow in enumerate(owner) if flow == number]))}
    # It takes longer to load than the share of a single flow to find.
    from scipy.optimize import linprog

    count = len(owner)
    rows = [[uses.get(index, 0.0) if owner[index] in asking else 0.0 for index in range(count)] + [0.0] for _, uses in limits]
    most = [rate / 1e6 for rate, _ in limits]
    fixed: dict[int, float] = {}
    while len(fixed) < len(asking):
        order = sorted(asking)
        # Minus the flow's paths, plus the level (or nothing, for one that stays): at most 0 (or
        # minus its share).
        level = [[-float(owner[index] == number) for index in range(count)] + [0.0 if number in fixed else 1.0] for number in order]
        least = [-fixed.get(number, 0.0) for number in order]
        solved = linprog([0.0] * count + [-1.0], A_ub=np.array(rows + level), b_ub=np.array(most + least), method="highs")
        if not solved.success:
            raise ValueError(f"the fair shares cannot be computed: {solved.message}")
        sated = {number: demands[number] for number in order if number not in fixed and demands[number] <= -solved.fun}
        if sated:
            fixed |= sated
            continue
        binding = -solved.ineqlin.marginals[len(rows) :]
        stay = [number for number, value in zip(order, binding, strict=True) if number not in fixed and value > _BINDING]
        # A hair below, so that rounding leaves the next step possible.
        fixed |= {number: float(-solved.fun) * (1 - 1e-9) for number in stay or set(order) - set(fixed)}
    return fixed


def with_fairness(
    runs: pd.DataFrame, alone: pd.DataFrame, baselines: pd.DataFrame, scenarios: Mapping[str, Scenario], by: Sequence[str]
) -> pd.DataFrame:
    """The runs with the columns `FAIRNESS`, each of a run by itself; not a number where there is
    nothing to compare with.

    docs/concepts/fairness.md has them: Jain's index is that of Jain, Chiu and Hawe 1984, harm that
    of Ware, Mukerjee, Seshan and Sherry 2019, the gain over TCP what RFC 6356 asks for (goal 1).

    `by` are the columns that tell cells and repetitions apart, the seed among them.
    """
    single: dict[str, dict[str, float]] = {}
    shares = {}
    for key in dict.fromkeys(runs["key"]):
        same = network_of(scenarios[key])
        if same not in single:
            single[same] = dict(fair_shares(scenarios[key]).itertuples(index=False, name=None))
        shares[key] = single[same]
    table = runs.assign(fair_mbps=[shares[key].get(flow, np.nan) for key, flow in zip(runs["key"], runs["flow"], strict=True)])
    table["of_fair"] = table[GOODPUT] / table["fair_mbps"].where((table["fair_mbps"] > 0) & (table["fair_mbps"] < UNLIMITED))
    table["over_others"] = _over_others(table)
    table["best_single_mbps"] = _lookup(table, baselines, by, "baseline_of", GOODPUT, "max")
    table["gain"] = table[GOODPUT] / table["best_single_mbps"]
    solo = {metric: _lookup(table, alone, by, "baseline_of", metric, "mean") for metric in (GOODPUT, LATENCY, COMPLETION)}
    # Ware et al. 2019: of what is better when larger, the part that was lost; of what is better
    # when smaller, the part that was added.
    table["harm_goodput"] = (solo[GOODPUT] - table[GOODPUT]) / solo[GOODPUT].where(solo[GOODPUT] > 0)
    table["harm_latency"] = (table[LATENCY] - solo[LATENCY]) / table[LATENCY]
    table["harm_completion"] = (table[COMPLETION] - solo[COMPLETION]) / table[COMPLETION]
    return table


def _over_others(runs: pd.DataFrame) -> pd.Series[Any]:
    """A flow's goodput over the mean of the flows of the other groups of its run; with one group
    there are none.
    """
    groups = runs.groupby("key", sort=False)
    total, count = groups[GOODPUT].transform("sum"), groups["flow"].transform("count")
    by_group = runs.groupby(["key", "group"], sort=False)
    others = count - by_group["flow"].transform("count")
    mean = (total - by_group[GOODPUT].transform("sum")) / others.where(others > 0)
    return runs[GOODPUT] / mean.where(mean > 0)


def _lookup(runs: pd.DataFrame, table: pd.DataFrame, by: Sequence[str], of: str, metric: str, how: str) -> pd.Series[Any]:
    """What the other table has for each row's cell, repetition and group."""
    if table.empty:
        return pd.Series(np.nan, index=runs.index)
    matched = table.groupby([*by, of], sort=False, dropna=False)[metric].agg(how).rename("found").reset_index()
    merged = runs[[*by, "group"]].merge(matched, left_on=[*by, "group"], right_on=[*by, of], how="left")
    return pd.Series(merged["found"].to_numpy(), index=runs.index)
