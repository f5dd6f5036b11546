"""What in a study's runs is not what its reader expects: subflows that never came up, tunnels that
carried nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from polypath.analysis import HARMLESS, asked, bare, between, fewer_subflows, network_of, no_route, paths, tunnels_as_paths, unjoined

from ._format import several
from ._material import Material, label, varied

_MOST_WINDOW = 1 << 24
"""Segments: some seconds of 100 Gbit/s."""
_NAMED = 4
"""So many cells are named, of more their number."""


def notes(material: Material) -> tuple[list[str], list[str]]:
    """A sentence for each thing, and in which cells it is so, where it is not in all: what to
    beware of, and what changes nothing.
    """
    keys_of: dict[str, list[str]] = {}
    for sentence, key in (*_never_up(material), *_tunnels(material), *_beside_tunnels(material), *_windows(material)):
        keys_of.setdefault(sentence, []).append(key)
    sentences = {sentence: sentence + _where(material, keys) for sentence, keys in keys_of.items()}
    harmless = [sentence for sentence in keys_of if sentence.endswith(HARMLESS)]
    return [sentences[sentence] for sentence in keys_of if sentence not in harmless], [sentences[sentence] for sentence in harmless]


def _where(material: Material, keys: Sequence[str]) -> str:
    rows = material.runs[material.runs["key"].isin(keys)]
    if rows["key"].nunique() == material.runs["key"].nunique():
        return ""
    cells: dict[str, None] = {}
    among = 0
    for name, experiment_rows in rows.groupby("experiment", sort=False):
        whole = material.runs[material.runs["experiment"] == name]
        if whole["key"].nunique() == experiment_rows["key"].nunique() and material.runs["experiment"].nunique() > 1:
            cells[str(name)] = None
            among += whole["key"].nunique()
            continue
        names = varied(material, whole)
        labels = pd.Series([label(dict(row), names, 1) if names else "" for _, row in whole.iterrows()], index=whole.index)
        own = labels[experiment_rows.index].drop_duplicates()
        cells |= dict.fromkeys(own)
        among += whole.loc[labels.isin(own), "key"].nunique()
    of, runs = rows["key"].nunique(), material.runs["key"].nunique()
    named = [cell for cell in cells if cell]
    if len(cells) > _NAMED or not named:
        return f" (in {of} of {runs} runs)"
    return f" ({f'in {of} of {among} runs of ' * (of < among)}{several(named)})"


def _never_up(material: Material) -> list[tuple[str, str]]:
    """Of connections that were established: the subflows that they asked for and never had."""
    subflows = material.subflows.drop_duplicates(["key", "flow", "subflow"])
    rows = zip(subflows["key"], subflows["flow"], subflows["source"], subflows["destination"], strict=True)
    tried = {(str(key), flow, bare(source), bare(destination)) for key, flow, source, destination in rows}
    up = subflows[subflows["established_s"].notna()]
    stood: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key, flow, source, destination in zip(up["key"], up["flow"], up["source"], up["destination"], strict=True):
        stood.setdefault((key, flow), []).append((bare(source), bare(destination)))
    pairs_of: dict[str, Any] = {}
    never_up: dict[tuple[str, int, int, str], list[str]] = {}
    for key in dict.fromkeys(material.runs["key"]):
        for flow, every, pairs, without in _all_pairs(material.scenarios[str(key)], pairs_of):
            pairs_up = stood.get((str(key), flow), [])
            if not pairs_up or len(pairs_up) >= every:
                continue
            missing = [pair for pair in pairs if pair not in pairs_up and pair[::-1] not in pairs_up]
            reasons = [no_route([pair for pair in missing if pair in without])] if without else []
            in_vain = [pair for pair in missing if pair not in without and (str(key), flow, *pair) in tried]
            reasons += [f"tried without success {between(in_vain)}"] if in_vain else []
            # Why none was tried, such as an address that was never heard of, is in no table.
            none = [pair for pair in missing if pair not in without and pair not in in_vain]
            reasons += [f"none {between(none)}"] if none else []
            ends = [{end for pair in pairs for end in pair}, {end for pair in pairs_up for end in pair}]
            reasons[-1:] = [reasons[-1] + HARMLESS] if reasons and ends[0] <= ends[1] else reasons[-1:]
            never_up.setdefault((str(key), len(pairs_up), every, "; ".join(reasons)), []).append(flow)
    return [(fewer_subflows(flows, "had", some, every, why), key) for (key, some, every, why), flows in never_up.items()]


def _all_pairs(
    scenario: Mapping[str, Any], pairs_of: dict[str, Any]
) -> list[tuple[str, int, list[tuple[str, str]], list[tuple[str, str]]]]:
    """Of each MPTCP flow how many subflows it asks for, between which addresses, and between which
    no route leads.
    """
    links = [(link["name"], link["a"], link["b"]) for link in scenario["links"]]
    flows = [{name: value for name, value in flow.items() if name not in ("cc", "app", "start_ns")} for flow in scenario["flows"]]
    network = json.dumps([scenario["nodes"], links, scenario.get("tunnels"), flows], sort_keys=True)
    if network not in pairs_of:
        pairs_of[network] = []
        for flow in scenario["flows"]:
            if flow["transport"] == "mptcp":
                pairs, manager = asked(scenario, flow), flow["mptcp"]["path_manager"]
                every = manager["subflows"] if manager["kind"] == "ndiffports" else len(pairs)
                pairs_of[network].append((flow["name"], every, pairs, unjoined(scenario, flow)))
    asked_pairs: list[tuple[str, int, list[tuple[str, str]], list[tuple[str, str]]]] = pairs_of[network]
    return asked_pairs


def _tunnels(material: Material) -> list[tuple[str, str]]:
    """Tunnels, and paths of tunnels, that carried nothing. A cell may go without a tunnel that is
    used in another: it is what the tunnel is compared with.
    """
    if material.tunnel_paths.empty:
        return []
    sentences = []
    ways = material.tunnel_paths.drop_duplicates(["key", "tunnel", "a_to_b", "path"])
    used = set(ways.loc[ways["packets_sent"] > 0, "tunnel"])
    idle = ways.groupby(["key", "tunnel"], sort=False)["packets_sent"].transform("sum") == 0
    in_vain = (ways["packets_sent"] > 0) & (ways["packets_received"] == 0)
    idle_ways = ways[in_vain | (idle & ~ways.duplicated(["key", "tunnel"]))]
    for key, tunnel, sent, source, destination in zip(
        *(idle_ways[name] for name in ("key", "tunnel", "packets_sent", "source", "destination")), strict=True
    ):
        if sent > 0:
            sentence = f"of {sent:.0f} packets that the tunnel {tunnel} sent from {source} to {destination} none came"
            sentences.append((sentence, str(key)))
            continue
        bypassed = _bypassed(material.scenarios[str(key)], str(tunnel))
        if not (bypassed and tunnel in used):
            sentences.append((f"the tunnel {tunnel} carried nothing{bypassed}", str(key)))
    return sentences


def _bypassed(scenario: Mapping[str, Any], name: str) -> str:
    if any(hop.link == name for flow in scenario["flows"] for path in paths(scenario, flow) for hop in path.hops):
        return ""
    tunnel = next(entry for entry in scenario["tunnels"] if entry["name"] == name)
    ends = " and ".join(tunnel[end]["address"] for end in ("a", "b"))
    return f": no flow goes through it; one does whose `client_address` and `server_address` are {ends}"


def _windows(material: Material) -> list[tuple[str, str]]:
    """Congestion windows that no algorithm means: of no segment, or of more than any link holds."""
    series = material.series
    if series.empty:
        return []
    strange = series[(series["cwnd"] == 0) | (series["cwnd"] > _MOST_WINDOW)]
    sentences = []
    for (key, flow), rows in strange.groupby(["key", "flow"], sort=False):
        of = len(series[(series["key"] == key) & (series["flow"] == flow)])
        least, most = int(rows["cwnd"].min()), int(rows["cwnd"].max())
        values = f"{most:,} segments" if least > 0 else "0" if most == 0 else f"0 or {most:,} segments"
        sentences.append((f"the congestion window of {flow} was {values} in {len(rows)} of {of} samples: look at its algorithm", str(key)))
    return sentences


def _beside_tunnels(material: Material) -> list[tuple[str, str]]:
    keys = material.tunnel_paths["key"].unique() if not material.tunnel_paths.empty else ()
    told: dict[str, list[str]] = {}
    keys_told: list[tuple[str, str]] = []
    for key in keys:
        # Most runs have the network of another one.
        network = network_of(material.scenarios[str(key)])
        if network not in told:
            told[network] = tunnels_as_paths(material.scenarios[str(key)])
        keys_told += [(sentence, str(key)) for sentence in told[network]]
    return keys_told
