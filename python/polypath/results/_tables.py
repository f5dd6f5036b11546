"""From finished runs to tables. Rows stand in the order of the study, so the bytes do not depend on
who finished first.

Times are seconds, round-trip times milliseconds, rates Mbit/s, sizes bytes;
docs/reference/results.md names every column.

A new column of `runs.parquet`: its type in `_FLOW_COLUMNS`, its value in `_flows` (a sum over
subflows is one of `_SUMS`), its row on that page, its name in study/_parameters.py. Where the
engines have to tell it first: `FlowOutcome` in crates/sim/src/outcome.rs and flow.rs,
engines/_measure.py and tests/fake_engine.py. One that changes its name: analysis and report ask
for it, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from polypath.columns import columns_of, scaled
from polypath.study import MOST_KEPT, NUMBER_OF_DRAW, Run, Scalar, Study, kernel_of, nearest, parameter_names

from . import _captured
from ._events import events
from ._store import Kept, Store

# What Linux and the simulator write for "no threshold yet".
INFINITE_SSTHRESH = 0x7FFF_FFFF

Row = dict[str, Any]
Columns = Mapping[str, pa.Array | pa.ChunkedArray]


def tables(store: Store, runs: Iterable[Run], types: Mapping[str, pa.DataType]) -> dict[str, pa.Table]:
    """All tables of the runs that are finished; `types` are the study's."""
    return _tables_of_run(store, runs, types, readable)


def readable(store: Store, run: Run, types: Mapping[str, pa.DataType]) -> Kept | None:
    """A finished run whose rows can be made; None where there is none, or what is there was
    damaged: the store then knows why.
    """
    kept = store.look(run.key)
    if kept is None or (kept.sealed and kept.ours) or bytes.fromhex(run.key) in store.read_before:
        return kept
    try:
        if kept.record["scenario"] != json.loads(json.dumps(run.scenario)):
            raise ValueError("it is of another scenario")
        # A baseline's rows are those of any run, without series.
        _tables_of_run(store, [replace(run, baseline=None)], types, lambda *_: kept)
    except Exception as error:  # Bytes of unknown origin may raise anything.
        store.damaged[run.key] = f"{type(error).__name__}: {error}"
        return None
    store.read_before.add(bytes.fromhex(run.key))
    return kept


def _tables_of_run(
    store: Store,
    runs: Iterable[Run],
    types: Mapping[str, pa.DataType],
    look: Callable[[Store, Run, Mapping[str, pa.DataType]], Kept | None],
) -> dict[str, pa.Table]:
    parameters = list(types)[len(_WHO) :]
    names = ("runs", "baselines", "alone", "subflows", "links", "tunnels", "tunnel_paths", "counters", "events")
    rows: dict[str, list[Row]] = {name: [] for name in names}
    parts: dict[str, list[_Part]] = {"series": [], "link_series": []}
    progress: list[tuple[Row, Mapping[str, Any]]] = []
    # Many cells share a baseline.
    alone: dict[str, list[Row]] = {}
    cell_is_there = False
    for run in runs:
        kept = None if run.key in alone else look(store, run, types)
        there = kept is not None or run.key in alone
        # Baselines follow their cell, and one that several cells share says nothing of those that
        # did not run.
        cell_is_there = there if run.baseline is None else cell_is_there
        if not there or not cell_is_there:
            continue
        who = _who(run, parameters, types)
        if kept is not None and len(store.scenarios) < MOST_KEPT:
            store.scenarios[run.key] = kept.record["scenario"]
        if run.baseline is not None:
            if kept is not None:
                alone[run.key] = _flows(kept.record)
            beside: Row = {"baseline_of": run.baseline.of}
            if not run.baseline.alone:
                beside |= {"client_address": run.baseline.client_address, "server_address": run.baseline.server_address}
            rows["alone" if run.baseline.alone else "baselines"] += [{**row, **beside} for row in _of(run, who, alone[run.key])]
            continue
        kept = kept or look(store, run, types)
        assert kept is not None, "it was there a moment ago"
        record = kept.record
        subflow_rows = _with_captured(_subflows(record, who), _captured.captured(store, run))
        rows["subflows"] += subflow_rows
        rows["runs"] += _with_subflows(_of(run, who, _flows(record)), subflow_rows)
        rows["links"] += _links(record, who)
        rows["tunnels"] += _tunnels(record, who)
        rows["tunnel_paths"] += _tunnel_paths(record, who)
        rows["counters"] += _counters(record, who)
        rows["events"] += [{**who, **row} for row in events(record["scenario"], record["outcome"])]
        for name, raw, of in (("series", "subflows", "flows"), ("link_series", "links", "links")):
            table = kept.series(raw)
            if table is not None:
                parts[name].append(_Part(who, table, record["outcome"][of]))
        progress += [(who, flow) for flow in record["outcome"]["flows"]]
    tables = {name: pa.Table.from_pylist(rows[name], schema=_schema(name, types)) for name in rows}
    lengths = {name: [(part.who, part.table.num_rows) for part in pieces] for name, pieces in parts.items()}
    lengths["progress"] = [(who, len(flow["received_100ms"])) for who, flow in progress]
    columns = {"series": _subflow_series(parts["series"]), "link_series": _link_series(parts["link_series"])}
    columns["progress"] = _progress([flow for _, flow in progress])
    return tables | {name: _labelled(lengths[name], columns[name], name, types) for name in columns}


def _who(run: Run, parameters: Sequence[str], types: Mapping[str, pa.DataType]) -> Row:
    """The columns that every table begins with; a parameter that this experiment does not have is
    null.
    """
    modelled = run.parameters.get("kernel")
    who: Row = {
        "key": run.key,
        "study": run.study,
        "experiment": run.experiment,
        "engine": run.engine,
        # A parameter may be called so: it says which kernel is modelled on an engine that runs
        # none.
        "kernel": run.kernel or (None if modelled is None else nearest(str(modelled)).name),
        "seed": run.seed,
    }
    for name in parameters:
        if name == "kernel":
            continue
        value = run.parameters.get(name)
        # One with numbers and words is a column of words.
        who[name] = str(value) if value is not None and types[name] == pa.string() else value
    return who


def _of(run: Run, who: Row, flows: Sequence[Row]) -> list[Row]:
    return [{**who, **flow, "group": run.groups[flow["flow"]]} for flow in flows]


def _flows(record: Mapping[str, Any]) -> list[Row]:
    outcome, scenario = record["outcome"], record["scenario"]
    goodputs = [flow["goodput_receiver_bps"] for flow in outcome["flows"]]
    jain = _jain(_contending(outcome, scenario))
    rows = []
    for flow, described in zip(outcome["flows"], scenario["flows"], strict=True):
        subflows = flow["subflows"]
        rows.append(
            {
                "flow": flow["name"],
                "flow_transport": described["transport"],
                "flow_cc": described["cc"],
                "client_kernel": kernel_of(scenario, described["client"]),
                "server_kernel": kernel_of(scenario, described["server"]),
                "flow_program": flow.get("program"),
                "start_s": _seconds(described["start_ns"]),
                "established_s": _seconds(flow["established_ns"]),
                "lifetime_s": _lifetime(flow, described, outcome),
                "goodput_receiver_mbps": flow["goodput_receiver_bps"] / 1e6,
                "goodput_sender_mbps": flow["goodput_sender_bps"] / 1e6,
                "total_receiver_mbps": sum(goodputs) / 1e6,
                "jain": jain,
                "bytes_received": flow["bytes_received"],
                "bytes_accepted": flow["bytes_accepted"],
                "completion_s": _seconds(flow["completion_ns"]),
                "transient_s": _seconds(flow["transient_ns"]),
                "subflows": sum(subflow["established_ns"] is not None for subflow in subflows),
                "first_share": _first_share(subflows),
                "srtt_ms": _mean_srtt(subflows),
                **{column.name: _sum(flow, column.raw) for column in _SUMS},
                "reinjected_bytes": flow["reinjected_bytes"],
                "rwnd_limited_s": _seconds(flow["rwnd_limited_ns"]),
                "sndbuf_limited_s": _seconds(flow.get("sndbuf_limited_ns")),
                "app_limited_s": _seconds(flow["app_limited_ns"]),
                "fallback": flow["fallback"],
                **_traffic(flow),
                **_order(flow),
                **_lateness(outcome.get("late")),
            }
        )
    return rows


def _order(flow: Mapping[str, Any]) -> Row:
    """Delays of the application's bytes, and how much came out of order. Kernels do not tell; the
    simulator does.
    """
    delay, disorder = flow.get("byte_delay"), flow.get("disorder")
    row: Row = {f"byte_delay_{part}_ms": delay[f"{part}_ns"] / 1e6 if delay else None for part in _PARTS}
    if disorder is not None:
        row |= {
            "out_of_order_share": disorder["share"],
            "reordering_mean_bytes": disorder["mean_ahead"],
            "reordering_max_bytes": disorder["max_ahead"],
            "out_of_order_mean_bytes": disorder["mean_waiting"],
            "out_of_order_max_bytes": disorder["max_waiting"],
            "hol_blocked_s": _seconds(disorder["blocked_ns"]),
            "hol_delay_ms": _milliseconds(disorder["mean_wait_ns"]),
        }
    return row


_ORDER: dict[str, pa.DataType] = {
    "out_of_order_share": pa.float64(),
    "reordering_mean_bytes": pa.float64(),
    "reordering_max_bytes": pa.int64(),
    "out_of_order_mean_bytes": pa.float64(),
    "out_of_order_max_bytes": pa.int64(),
    "hol_blocked_s": pa.float64(),
    "hol_delay_ms": pa.float64(),
}


def _lateness(late: Mapping[str, Any] | None) -> Row:
    """Only links in real time can be late; a run in which one was too late is not to be trusted."""
    if late is None:
        return {"trusted": True}
    return {**{f"{name}_ms": late[f"{name}_us"] / 1e3 for name in _LATENESS}, "trusted": not late["untrusted"]}


_LATENESS = ("late_median", "late_p99", "late_max")


def _traffic(flow: Mapping[str, Any]) -> Row:
    """What is known of datagrams and of requests; null where there are none."""
    sent, asked = flow.get("datagrams") or {}, flow.get("responses") or {}
    row: Row = {
        "datagrams_sent": sent.get("sent"),
        "datagrams_received": sent.get("received"),
        "datagrams_reordered": sent.get("reordered"),
        "datagram_loss": sent.get("loss"),
        "jitter_ms": None if sent.get("jitter_ns") is None else sent["jitter_ns"] / 1e6,
        "responses": asked.get("count"),
    }
    for name, spread in (("delay", sent.get("delay")), ("response", asked.get("time"))):
        row |= {f"{name}_{part}_ms": spread[f"{part}_ns"] / 1e6 if spread else None for part in _PARTS}
    return row


_PARTS = ("mean", "p50", "p95", "p99", "max")
# What is declared in crates/transport/src/counters.rs and crates/sim/src/outcome.rs.
_COUNTERS = columns_of("counters", "rejections")
_SERIES, _LINK_SERIES = columns_of("series"), columns_of("link_series")
_TUNNELS, _TUNNEL_PATHS = columns_of("tunnels"), columns_of("tunnel_paths")
# Times of several subflows overlap, and bytes acknowledged are beside the connection's own.
_SUMS = tuple(column for column in _COUNTERS if column.is_count and column.name != "bytes_acked")


def _subflows(record: Mapping[str, Any], who: Row) -> list[Row]:
    rows = []
    for flow in record["outcome"]["flows"]:
        for index, subflow in enumerate(flow["subflows"]):
            rows.append(
                {
                    **who,
                    "flow": flow["name"],
                    "subflow": index,
                    "source": subflow["source"],
                    "destination": subflow["destination"],
                    "established_s": _seconds(subflow["established_ns"]),
                    "acked_mbps": subflow["acked_bps"] / 1e6,
                    **{column.name: column.scaled(subflow.get(column.raw)) for column in _COUNTERS},
                    "mean_srtt_ms": subflow["mean_srtt_us"] / 1e3 or None,
                    # Linux starts from the largest number there is.
                    "min_rtt_ms": None if subflow["min_rtt_us"] in (0, 2**32 - 1) else subflow["min_rtt_us"] / 1e3,
                    "mean_cwnd": subflow["mean_cwnd"],
                    "max_cwnd": subflow["max_cwnd"],
                    "mss": subflow["mss"],
                    "pmtu": subflow["pmtu"],
                }
            )
    return rows


def _with_captured(rows: list[Row], captured: Sequence[Row]) -> list[Row]:
    """Rows of subflows with what their captures say."""
    if not captured:
        return rows
    matched_figures = _captured.matched(rows, captured)
    return [{**row, **{name: figures.get(name) for name in _captured.COLUMNS}} for row, figures in zip(rows, matched_figures, strict=True)]


def _with_subflows(rows: list[Row], subflows: Sequence[Row]) -> list[Row]:
    """Rows of connections with what the captures say of their subflows; nothing where one that sent
    data was not captured.
    """
    joined = []
    for row in rows:
        flow_subflows = [subflow for subflow in subflows if subflow["flow"] == row["flow"]]
        captured = [subflow for subflow in flow_subflows if subflow.get("captured_segments") is not None]
        whole = all(subflow in captured or not subflow["data_segments_sent"] for subflow in flow_subflows)
        joined.append({**row, **(_captured.of_connection(captured) if whole else {})})
    return joined


_KERNEL_SPANS = ("busy", "rwnd_limited", "sndbuf_limited")


def _links(record: Mapping[str, Any], who: Row) -> list[Row]:
    return [{**who, "link": link["name"], **_with_drops(link)} for link in record["outcome"]["links"]]


def _tunnels(record: Mapping[str, Any], who: Row) -> list[Row]:
    return [
        {
            **who,
            "tunnel": tunnel["name"],
            "a_to_b": tunnel["a_to_b"],
            # Without forward error correction there are no counters of it.
            **{column.name: column.scaled(tunnel.get(column.raw)) for column in _TUNNELS},
        }
        for tunnel in record["outcome"].get("tunnels", ())
    ]


def _tunnel_paths(record: Mapping[str, Any], who: Row) -> list[Row]:
    return [
        {
            **who,
            "tunnel": tunnel["name"],
            "a_to_b": tunnel["a_to_b"],
            "path": number,
            "source": path["source"],
            "destination": path["destination"],
            **{column.name: column.scaled(path[column.raw]) for column in _TUNNEL_PATHS},
        }
        for tunnel in record["outcome"].get("tunnels", ())
        for number, path in enumerate(tunnel["paths"], start=1)
    ]


def _with_drops(link: Mapping[str, Any]) -> Row:
    """All drops together: a kernel may know no more than that."""
    drops = [link[f"{reason}_drops"] for reason in ("queue", "loss", "mtu", "down")]
    plain = {name: link[name] for name in link if name != "name"}
    plain |= {f"{name}_ms": link[f"{name}_us"] / 1e3 for name in _LATENESS if f"{name}_us" in link}
    return {"drops": None if None in drops else sum(drops), **plain}


def _sum(flow: Mapping[str, Any], name: str) -> int | None:
    """A counter over the subflows that came up; where it is not known of each, the flow's own if
    there is one.

    What the others sent are SYNs, of which a kernel counts none: it has no such sockets.
    """
    counts = [subflow.get(name) for subflow in flow["subflows"] if subflow["established_ns"] is not None or subflow["bytes_acked"]]
    count: int | None = flow.get(name)
    return count if None in counts else sum(counts)


def _counters(record: Mapping[str, Any], who: Row) -> list[Row]:
    counters = record["outcome"].get("counters", {})
    return [
        {**who, "node": node, "counter": name, "value": count}
        for node, node_counters in counters.items()
        for name, count in node_counters.items()
    ]


def _progress(flows: Sequence[Mapping[str, Any]]) -> Columns:
    lengths = [len(flow["received_100ms"]) for flow in flows]
    unknown = [flow.get("out_of_order_100ms") or [None] * length for flow, length in zip(flows, lengths, strict=True)]
    raw = {"received_bytes": [flow["received_100ms"] for flow in flows], "accepted_bytes": [flow["accepted_100ms"] for flow in flows]}
    return {
        "flow": pa.array([flow["name"] for flow in flows], pa.string()).take(_numbered(lengths)),
        "time_s": pa.array([number / 10 for length in lengths for number in range(length)], pa.float64()),
        **{name: pa.array([*chain.from_iterable(values)], pa.int64()) for name, values in {**raw, "out_of_order_bytes": unknown}.items()},
    }


class _Part(NamedTuple):
    """A series of one run as its engine wrote it, and what its rows are of: flows, or links."""

    who: Row
    table: pa.Table
    of: Sequence[Mapping[str, Any]]


def _subflow_series(parts: Sequence[_Part]) -> Columns:
    if not parts:
        return {}
    table, which = _joined(parts, "flow")
    columns = {column.name: column.scaled_all(table[column.raw]) for column in _SERIES}
    columns["flow"] = pa.array([flow["name"] for part in parts for flow in part.of], pa.string()).take(which)
    columns["ssthresh"] = pc.if_else(pc.equal(table["ssthresh"], INFINITE_SSTHRESH), None, table["ssthresh"])
    # Only a kernel tells these.
    for name in ("lost", "pmtu", "flags"):
        columns[name] = table[name] if name in table.column_names else pa.nulls(table.num_rows)
    for name in _KERNEL_SPANS:
        raw = f"{name}_us"
        columns[f"{name}_s"] = scaled(table[raw], 1e6) if raw in table.column_names else pa.nulls(table.num_rows)
    return columns


def _link_series(parts: Sequence[_Part]) -> Columns:
    if not parts:
        return {}
    table, which = _joined(parts, "link")
    links = [link for part in parts for link in part.of]
    columns = {column.name: column.scaled_all(table[column.raw]) for column in _LINK_SERIES}
    columns["link"] = pa.array([link["name"] for link in links], pa.string()).take(which)
    columns["a_to_b"] = pa.array([link["a_to_b"] for link in links], pa.bool_()).take(which)
    return columns


def _joined(parts: Sequence[_Part], index: str) -> tuple[pa.Table, pa.Array]:
    """The series of many runs as one, and for each row the number of its flow, or link, among those
    of all.
    """
    table = pa.concat_tables([part.table for part in parts], promote_options="permissive").combine_chunks()
    before = pa.array(np.cumsum([0, *(len(part.of) for part in parts[:-1])]))
    which = before.take(_numbered([part.table.num_rows for part in parts]))
    return table, pc.add(which, table[index].cast(pa.int64()))


def _numbered(lengths: Sequence[int]) -> pa.Array:
    """Each number as often as the length at its place says."""
    return pa.array(np.repeat(np.arange(len(lengths)), lengths))


def _labelled(lengths: Sequence[tuple[Row, int]], columns: Columns, name: str, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The columns with those of `who` before them, the same in as many rows as a part has."""
    schema = _schema(name, types)
    if not columns:
        return schema.empty_table()
    which = _numbered([length for _, length in lengths])
    labels = {label: pa.array([who[label] for who, _ in lengths], kind).take(which) for label, kind in types.items()}
    return pa.table({**labels, **{column: columns[column] for column in _COLUMNS[name]}}).cast(schema).combine_chunks()


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


def _milliseconds(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6


def _jain(goodputs: Sequence[float]) -> float | None:
    """Jain's index of fairness over flows that contend (Jain, Chiu and Hawe 1984): 1 when all are
    equal, 1/n when one has everything, nothing of fewer than two.
    """
    squares = sum(goodput * goodput for goodput in goodputs)
    total: float = sum(goodputs)
    return total * total / (len(goodputs) * squares) if squares > 0 and len(goodputs) > 1 else None


def _contending(outcome: Mapping[str, Any], scenario: Mapping[str, Any]) -> list[float]:
    """Goodputs of the flows that take all that they can get at the same time, for half of the
    longest one's or more: one that wants less, or has ended, has no share.
    """
    spans = []
    for flow, described in zip(outcome["flows"], scenario["flows"], strict=True):
        if described["app"]["kind"] in ("bulk", "transfer") and flow["completion_ns"] is None:
            begins = described["start_ns"]
            lasts = described["app"].get("duration_ns") or outcome["simulated_ns"] - begins
            spans.append((begins, begins + lasts, flow["goodput_receiver_bps"]))
    first, last, _ = max(spans, key=lambda span: span[1] - span[0], default=(0, 0, 0.0))
    return [goodput for begins, ends, goodput in spans if 2 * (min(ends, last) - max(begins, first)) >= last - first]


def _first_share(subflows: Sequence[Mapping[str, Any]]) -> float | None:
    """What the connection's first subflow carried of all."""
    carried: int = sum(subflow["bytes_acked"] for subflow in subflows)
    return subflows[0]["bytes_acked"] / carried if carried else None


def _mean_srtt(subflows: Sequence[Mapping[str, Any]]) -> float | None:
    """Weighted by what each subflow carried, so that an idle one does not count."""
    # Zero stands for a subflow that was never sampled: it carried something for less than a
    # sample's time.
    subflows = [subflow for subflow in subflows if subflow["mean_srtt_us"] > 0]
    carried = sum(subflow["bytes_acked"] for subflow in subflows)
    if not carried:
        return None
    return float(sum(subflow["mean_srtt_us"] * subflow["bytes_acked"] for subflow in subflows) / carried / 1e3)


def _lifetime(flow: Mapping[str, Any], described: Mapping[str, Any], outcome: Mapping[str, Any]) -> float | None:
    """From establishment until the application was done, the transfer complete or the run over."""
    if flow["established_ns"] is None:
        return None
    left: int = outcome["simulated_ns"] - flow["established_ns"]
    done: int | None = described["app"].get("duration_ns", flow["completion_ns"])
    return (left if done is None else min(left, done)) / 1e9


_WHO = {name: pa.string() for name in ("key", "study", "experiment", "engine", "kernel")} | {"seed": pa.int64()}


def types_of(study: Study) -> dict[str, pa.DataType]:
    """The columns that every table of a study begins with: the run, then the study's parameters."""
    values: dict[str, list[Scalar]] = {name: [] for name in parameter_names(study)}
    if study.draw is not None:
        values[NUMBER_OF_DRAW].append(study.draw.number)
        for name, drawn in study.draw.parameters.items():
            values[name] += list(drawn.choice or [0.5])
    for experiment in study.all_experiments.values():
        for name, value in {**study.parameters, **experiment.parameters}.items():
            values[name].append(value)
        for name, axis in experiment.matrix.items():
            values[name] += axis
    return _WHO | {name: _type(of) for name, of in values.items()}


def _type(values: Iterable[Scalar | None]) -> pa.DataType:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.string()


_FLOW_COLUMNS: dict[str, pa.DataType] = {
    "flow": pa.string(),
    "group": pa.string(),
    "flow_transport": pa.string(),
    "flow_cc": pa.string(),
    "client_kernel": pa.string(),
    "server_kernel": pa.string(),
    "flow_program": pa.string(),
    "start_s": pa.float64(),
    "established_s": pa.float64(),
    "lifetime_s": pa.float64(),
    "goodput_receiver_mbps": pa.float64(),
    "goodput_sender_mbps": pa.float64(),
    "total_receiver_mbps": pa.float64(),
    "jain": pa.float64(),
    "bytes_received": pa.int64(),
    "bytes_accepted": pa.int64(),
    "completion_s": pa.float64(),
    "transient_s": pa.float64(),
    "subflows": pa.int32(),
    "first_share": pa.float64(),
    "srtt_ms": pa.float64(),
    **{column.name: column.type for column in _SUMS},
    "reinjected_bytes": pa.int64(),
    "rwnd_limited_s": pa.float64(),
    "sndbuf_limited_s": pa.float64(),
    "app_limited_s": pa.float64(),
    "fallback": pa.bool_(),
    **dict.fromkeys(("datagrams_sent", "datagrams_received", "datagrams_reordered"), pa.int64()),
    **dict.fromkeys(("datagram_loss", "jitter_ms"), pa.float64()),
    **{f"delay_{part}_ms": pa.float64() for part in _PARTS},
    "responses": pa.int64(),
    **{f"response_{part}_ms": pa.float64() for part in _PARTS},
    **{f"byte_delay_{part}_ms": pa.float64() for part in _PARTS},
    **_ORDER,
    **{f"{name}_ms": pa.float64() for name in _LATENESS},
    "trusted": pa.bool_(),
    **_captured.FLOW_COLUMNS,
}

_COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "runs": _FLOW_COLUMNS,
    "baselines": {**_FLOW_COLUMNS, "baseline_of": pa.string(), "client_address": pa.string(), "server_address": pa.string()},
    "alone": {**_FLOW_COLUMNS, "baseline_of": pa.string()},
    "subflows": {
        "flow": pa.string(),
        "subflow": pa.int32(),
        "source": pa.string(),
        "destination": pa.string(),
        "established_s": pa.float64(),
        "acked_mbps": pa.float64(),
        **{column.name: column.type for column in _COUNTERS},
        "mean_srtt_ms": pa.float64(),
        "min_rtt_ms": pa.float64(),
        "mean_cwnd": pa.float64(),
        "max_cwnd": pa.int64(),
        "mss": pa.int32(),
        "pmtu": pa.int32(),
        **_captured.COLUMNS,
    },
    "links": {
        "link": pa.string(),
        "a_to_b": pa.bool_(),
        **{column.name: column.type for column in columns_of("links")},
        **dict.fromkeys(("drops", "missed"), pa.int64()),
        **{f"{name}_ms": pa.float64() for name in _LATENESS},
    },
    "tunnels": {
        "tunnel": pa.string(),
        "a_to_b": pa.bool_(),
        **{column.name: column.type for column in _TUNNELS},
    },
    "tunnel_paths": {
        "tunnel": pa.string(),
        "a_to_b": pa.bool_(),
        "path": pa.int64(),
        **dict.fromkeys(("source", "destination"), pa.string()),
        **{column.name: column.type for column in _TUNNEL_PATHS},
    },
    "counters": {"node": pa.string(), "counter": pa.string(), "value": pa.int64()},
    "events": {
        "link": pa.string(),
        "a_to_b": pa.bool_(),
        "flow": pa.string(),
        **dict.fromkeys(("at_s", "until_s", "rate_before_mbps", "stall_s", "recover_s"), pa.float64()),
    },
    "progress": {
        "flow": pa.string(),
        "time_s": pa.float64(),
        **dict.fromkeys(("received_bytes", "accepted_bytes", "out_of_order_bytes"), pa.int64()),
    },
    "series": {
        **{column.name: column.type for column in _SERIES},
        "flow": pa.string(),
        **dict.fromkeys(("lost", "pmtu", "flags"), pa.int64()),
        **{f"{name}_s": pa.float64() for name in _KERNEL_SPANS},
    },
    "link_series": {
        **{column.name: column.type for column in _LINK_SERIES},
        "link": pa.string(),
        "a_to_b": pa.bool_(),
    },
}


def columns(name: str) -> list[str]:
    """What a table has beside what every one has."""
    return list(_COLUMNS[name])


def _schema(name: str, types: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema([*types.items(), *_COLUMNS[name].items()])
