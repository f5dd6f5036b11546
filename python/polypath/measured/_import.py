"""Measurements into the results of a study, where report, compare and claims find them as they find
runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polypath.engines import MeasuredEngine
from polypath.results import Results, assemble, claim_folder, note, plan
from polypath.study import Study
from polypath.sweep import files_of
from polypath.traces import TraceError

from ._model import Flow, Measured
from ._output import cut_short, known_cc, output

# Bytes of a full segment's payload, and of its IP packet with the Ethernet header.
_PAYLOAD, _ON_LINK = 1448, 1514


def study_of(name: str, all_measured: Sequence[Measured]) -> Study:
    """A study of what was measured: its flows, over as many links as they have subflows. Of the links
    nothing is known but the shortest delay, and that they carried what they did.
    """
    first = all_measured[0]
    for other in all_measured[1:]:
        if [(flow.name, flow.upload, flow.transport) for flow in other.flows] != [(f.name, f.upload, f.transport) for f in first.flows]:
            raise TraceError("the files have different flows: import each by itself, or write a study and take --study")
    flows = [flow for measured in all_measured for flow in measured.flows]
    rtts = [subflow.min_rtt_ms for flow in flows for subflow in flow.subflows if subflow.min_rtt_ms]
    delay = f"{max(round(min(rtts, default=2.0) * 500), 1)}us"
    links = range(1, max(len(flow.subflows) for flow in flows) + 1)
    length = math.ceil(max(flow.length for flow in flows) * 1000)
    tree: dict[str, Any] = {
        "name": name,
        "title": f"Measured with {first.tool}",
        "topology": {
            "nodes": {"client": {}, "server": {}},
            "links": {
                f"path{number}": {
                    "ends": ["client", "server"],
                    "forward": {"rate": f"{_most(all_measured, number, upload=True)}bit", "delay": delay},
                    "backward": {"rate": f"{_most(all_measured, number, upload=False)}bit", "delay": delay},
                }
                for number in links
            },
        },
        "flows": {
            flow.name: {
                "client": "client",
                "server": "server",
                "transport": flow.transport,
                **({} if flow.upload else {"direction": "download"}),
                **({"cc": flow.cc} if flow.cc in known_cc() else {}),
                "app": {"kind": "bulk", "duration": f"{max(math.ceil(flow.length * 1000), 1)}ms"},
            }
            for flow in first.flows
        },
        "duration": f"{max(length, 1)}ms",
        "seeds": len(all_measured),
        "baselines": None,
    }
    return Study.model_validate(tree)


def without_cc(all_measured: Sequence[Measured]) -> list[str]:
    """A sentence where the study that is written says a congestion control that was not measured."""
    flows = {flow.name: flow.cc or "not told" for measured in all_measured for flow in measured.flows if flow.cc not in known_cc()}
    named = ", ".join(f"{name} ({cc})" for name, cc in flows.items())
    return [f"the congestion control of {named} is no known one, and the study has its default, cubic: write `cc`"] if flows else []


def _most(all_measured: Sequence[Measured], link: int, *, upload: bool) -> int:
    """The most that all flows of one direction carried together within a second of a measurement over
    the link of this number.
    """
    most = max(_together(measured.flows, link, upload=upload) for measured in all_measured)
    # With headers, to the kbit/s.
    return max(round(most * _ON_LINK / _PAYLOAD / 1000) * 1000, 100_000)


def _together(flows: Sequence[Flow], link: int, *, upload: bool) -> float:
    """By the shares of their subflows; where there are none, that of the other direction."""
    own = [flow for flow in flows if flow.upload is upload] or list(flows)
    length = max(flow.length for flow in own)
    edges = np.arange(0.0, math.floor(length) + 1) if length >= 1 else np.array([0.0, length])
    total = np.zeros(len(edges) - 1)
    for flow in own:
        carried = sum(subflow.bytes_acked for subflow in flow.subflows)
        mine = sum(subflow.bytes_acked for subflow in flow.subflows[link - 1 : link])
        times, counts = zip(*flow.received, strict=True)
        total += np.diff(np.interp(edges, times, counts)) * 8 / np.diff(edges) * (mine / carried if carried else 1 / len(flow.subflows))
    return float(total.max())


def take(
    study: Study, files: Sequence[tuple[str, Measured]], out: Path, only: Mapping[str, Sequence[str]] | None = None
) -> tuple[Results, list[str]]:
    """Takes each measurement for a run of the one cell that `only` leaves, with its seeds in their
    order, and writes the tables; also a sentence for each window that was cut short. Raises `TraceError` where they do not fit.
    """
    engine = MeasuredEngine()
    work = plan(study, engine=engine, out=out, only={name: list(values) for name, values in (only or {}).items()})
    cells: dict[str, list[Any]] = {}
    for run in work.runs:
        if run.baseline is None:
            cells.setdefault(repr((run.experiment, sorted(run.parameters.items()))), []).append(run)
    if len(cells) != 1:
        names = dict.fromkeys(f"{name}={value}" for runs in cells.values() for name, value in runs[0].parameters.items())
        raise TraceError(f"{study.name} has {len(cells)} cells here, and files are of one: choose it with --only, of {', '.join(names)}")
    (runs,) = cells.values()
    if len(files) > len(runs):
        raise TraceError(f"{len(files)} files are more than the {len(runs)} seeds of this cell: give the study `seeds: {len(files)}`")
    outputs = [(run, output(name, measured, run.scenario)) for run, (name, measured) in zip(runs, files, strict=False)]
    claim_folder(work.folder, study)
    store = work.store
    for run, outcome in outputs:
        own = files_of(run.key, engine.name, run.version, run.scenario, outcome)
        store.put(run.key, own, replace=run.key in store)
        note(run.key, own)
    store.close()
    assemble(study, engine, work.folder, store=store)
    said = [f"{name}: {each}" for run, (name, measured) in zip(runs, files, strict=False) for each in cut_short(measured, run.scenario)]
    return Results.open(work.folder, study, store), said
