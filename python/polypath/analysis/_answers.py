"""What applications got of their networks, and the most that the links and the application allow."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ._applications import BY_NAME, Application, application_of
from ._bounds import UNLIMITED, flow_bound_rows, max_goodput, window
from ._evidence import QUEUE, Evidence, Way, evidence, ways_of
from ._limits import EVIDENCE, limits, limits_of_cells
from ._names import POSSIBLE
from ._network import IPV4_HEADER, UDP_HEADER, Path, Scenario, network_of, opposite, paths
from ._statistics import groups, summarise


def possible(scenario: Scenario) -> pd.DataFrame:
    """A row a flow: its `application`, and what nothing can better with every other flow silent.

    possible_mbps: what the links allow, and the application asks for; least_delay_ms: one-way delay
    of its fastest path; least_response_ms: a round trip of the fastest path and the response at the
    links' rate; least_completion_s: the same of a transfer, one way. Handshakes, acknowledgements
    and the growth of a congestion window are not counted. Infinite or 0 where no link limits.
    """
    return pd.DataFrame(_possible_rows(scenario), columns=["flow", "application", *POSSIBLE])


def _possible_rows(scenario: Scenario) -> list[dict[str, Any]]:
    rows = []
    for flow in scenario["flows"]:
        there = paths(scenario, flow)
        row: dict[str, Any] = {"flow": flow["name"], "application": application_of(flow)}
        row |= _possible(scenario, flow, there) if there else dict.fromkeys(POSSIBLE, math.nan)
        rows.append(row)
    return rows


def _possible(scenario: Scenario, flow: Mapping[str, Any], there: Sequence[Path]) -> dict[str, float]:
    app, span = flow["app"], window(scenario, flow)
    links = max_goodput(there, span)
    possible = dict.fromkeys(POSSIBLE, math.nan)
    possible["possible_mbps"] = min(links, _demand(app)) / 1e6
    # Of what is sent at a rate a byte may be alone in its packet, and of datagrams none is.
    alone = int(flow["datagram_bytes"]) + UDP_HEADER + IPV4_HEADER if flow["transport"] == "udp" else 0
    least = min(_delay_ns(strand, alone) for path in there for strand in path.strands) / 1e6
    possible["least_delay_ms"] = least
    if app["kind"] == "transfer":
        possible["least_completion_s"] = least / 1e3 + _seconds(int(app["bytes"]), _fastest(there, links))
    if app["kind"] == "requests":
        back = [opposite(scenario, flow, path) for path in there]
        answers = max_goodput(back, span)
        sending = _seconds(int(app["request_bytes"]), _fastest(there, links)) + _seconds(
            int(app["response_bytes"]), _fastest(back, answers)
        )
        possible["least_response_ms"] = least + min(_delay_ns(strand, 0) for path in back for strand in path.strands) / 1e6 + 1e3 * sending
    return possible


def _demand(app: Mapping[str, Any]) -> float:
    """What an application sends at the most, in bit/s over time."""
    if app["kind"] != "on_off" or not app.get("bits_per_s"):
        return UNLIMITED
    on, off = int(app["on_ns"]), int(app["off_ns"])
    return float(app["bits_per_s"]) * on / (on + off)


def _fastest(chosen: Sequence[Path], mean: float) -> float:
    """A short burst may find a link at its fastest: of links that change, nothing less is a bound."""
    elements = [element for path in chosen for strand in path.strands for hop in strand.hops for element in hop.elements]
    varies = any(element.get("changes") or element["kind"] == "trace" for element in elements)
    return UNLIMITED if varies else mean


def _seconds(size: int, bits_per_s: float) -> float:
    return 0.0 if not bits_per_s or math.isinf(bits_per_s) else 8 * size / bits_per_s


def _delay_ns(path: Path, packet: int) -> float:
    """The least that a packet of so many bytes needs from end to end."""
    total = 0.0
    for hop in path.hops:
        for element in hop.elements:
            if element["kind"] == "delay":
                lowest = min([int(element["delay_ns"]), *(int(change["to"]) for change in element.get("changes", ()))])
                total += max(0, lowest - int(element.get("jitter_ns", 0)))
            elif element["kind"] == "rate":
                fastest = max([float(element["bits_per_s"]), *(float(change["to"]) for change in element.get("changes", ()))])
                total += 8e9 * packet / fastest
    return total


def with_limits(
    runs: pd.DataFrame,
    subflows: pd.DataFrame,
    scenarios: Mapping[str, Scenario],
    link_series: pd.DataFrame | None = None,
    links: pd.DataFrame | None = None,
    tunnel_paths: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The runs with what `flow_bounds`, `possible` and `limits` find of them.

    `scenarios` are by key; `link_series` tells of queues, `links` and `tunnel_paths` of causes.
    """
    # Most runs have the network of another one.
    by_network: dict[str, tuple[Sequence[Mapping[str, Any]], Mapping[str, Sequence[Way]]]] = {}
    of_key, ends = {}, {}
    for key, scenario in scenarios.items():
        network, ends[key] = network_of(scenario), int(scenario["duration_ns"]) / 1e9
        if network not in by_network:
            rows = zip(flow_bound_rows(scenario), _possible_rows(scenario), strict=True)
            by_network[network] = [{**bounds, **best} for bounds, best in rows], ways_of(scenario)
        of_key[key] = by_network[network]
    said = pd.DataFrame([{**row, "key": key} for key, (rows, _) in of_key.items() for row in rows])
    limited = runs.merge(said, on=["key", "flow"], how="left")
    # A run goes on a little after its applications have ended; that they have nothing to send then
    # limits nothing.
    tail = (limited["key"].map(ends) - limited["established_s"] - limited["lifetime_s"]).clip(lower=0.0).fillna(0.0)
    limited["app_limited_s"] = (limited["app_limited_s"] - tail).clip(lower=0.0)
    ways = {key: of_flows for key, (_, of_flows) in of_key.items()}
    seen = _evidence(limited, subflows, ways, link_series, links, tunnel_paths)
    evidences = [seen.get(row) for row in zip(limited["key"], limited["flow"], strict=True)]
    limited[EVIDENCE] = pd.Series(evidences, index=limited.index, dtype=object)
    limited["queue_share"] = [math.nan if evidence is None else evidence["queue_share"] for evidence in evidences]
    return limited.merge(limits(limited, subflows).drop(columns=["losses", "timeouts"]), on=["key", "flow"], how="left")


def _evidence(
    runs: pd.DataFrame,
    subflows: pd.DataFrame,
    ways: Mapping[str, Mapping[str, Sequence[Way]]],
    link_series: pd.DataFrame | None,
    *tables: pd.DataFrame | None,
) -> dict[tuple[Any, Any], Evidence]:
    """By key and flow: see `_evidence.evidence`."""
    series = pd.DataFrame() if link_series is None else link_series
    columns = {} if series.empty else {name: series[name].to_numpy() for name in QUEUE}
    places = {} if series.empty else series.groupby("key", sort=False).indices
    queues = {key: {name: values[where] for name, values in columns.items()} for key, where in places.items()}
    links, tunnels = (_records(pd.DataFrame() if table is None else table) for table in tables)
    rows = {name: _records(table) for name, table in (("runs", runs), ("subflows", subflows))}
    evidence_of: dict[tuple[Any, Any], Evidence] = {}
    for key, flow_rows in rows["runs"].items():
        if key not in ways:
            continue
        counted, tunnel_paths = (table.get(key, []) for table in (links, tunnels))
        of_flows = evidence(ways[key], flow_rows, rows["subflows"].get(key, []), queues.get(key), counted, tunnel_paths)
        evidence_of |= {(key, flow): evidence for flow, evidence in of_flows.items()}
    return evidence_of


def _records(table: pd.DataFrame) -> dict[str, list[dict[Any, Any]]]:
    """Rows by key."""
    records: dict[str, list[dict[Any, Any]]] = {}
    for row in table.to_dict("records"):
        records.setdefault(str(row["key"]), []).append(row)
    return records


def answers(runs: pd.DataFrame, by: Sequence[str], application: Application, more: Sequence[str] = ()) -> pd.DataFrame:
    """A row a cell of the runs with this application: `n`, each metric's mean and `<column>_ci`,
    what was possible, `of_possible`, `of_paths` ("1 path of 2" where no route joins the addresses
    of the others, else nothing), `limited_by` and `why`.

    `runs` are those of `with_limits` and carry what `possible` found; `more` are further columns of
    them.
    """
    chosen = runs[runs["application"] == application.name]
    columns = [*(metric.column for metric in application.metrics), *POSSIBLE, *more]
    table = summarise(chosen, by, list(dict.fromkeys(columns)))
    if table.empty:
        return table
    table = table.merge(limits_of_cells(chosen, by), on=list(by), how="left")
    table["of_paths"] = of_paths(chosen, by)
    table["of_possible"] = [of_possible(row, application) for row in table.to_dict("records")]
    return table


def of_paths(runs: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Of each cell: of how many of the paths that its flow asks for `bound_mbps` and
    `possible_mbps` are, if not of all.
    """
    remarks = []
    counts = [runs[name].fillna(0).to_numpy() for name in ("paths_used", "paths_asked")]
    for _, where in groups(runs, by):
        used, asked = (int(count[where].min()) for count in counts)
        remarks.append(f"{used} path{'s' * (used != 1)} of {asked}" if used < asked else "")
    return remarks


def of_possible(row: Mapping[Any, Any], application: Application) -> float:
    """How near a cell comes to what its links and its application allow: 1 is all of it, for times
    as for rates.
    """
    # Rates before times: a rate is all of what was possible more often than a time is the least.
    bounded = sorted((metric for metric in application.metrics if metric.best), key=lambda measure: measure.better != "higher")
    if not bounded:
        return math.nan
    metric = bounded[0]
    value, best = float(row[metric.column]), float(row[metric.best])
    if not (math.isfinite(value) and math.isfinite(best)):
        return math.nan
    upper, lower = (value, best) if metric.better == "higher" else (best, value)
    return upper / lower if lower > 0 else math.nan


def applications_in(runs: pd.DataFrame) -> list[Application]:
    """The applications of the runs, in the order of the study's flows."""
    return [BY_NAME[name] for name in dict.fromkeys(runs["application"].dropna())]
