"""`polypath show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from polypath.study import (
    Share,
    Study,
    StudyError,
    Time,
    addresses,
    cells,
    chain,
    links_of,
    node_addresses,
    number_of_cells,
    same_for_all_seeds,
    scenario,
)
from polypath.terminal import hush

from . import _console, _studies
from ._report import as_plain, open_results
from ._work import AsJson, CcPath, Columns, names_in, use_custom


def show(
    what: Annotated[str, typer.Argument(metavar="STUDY|RESULTS", help="A study, or a folder of results such as results/nitk.")],
    columns: Columns = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Only the cells of the results, in order of this: delay, goodput, response or any column of the runs, the best first."
        ),
    ] = None,
    cc_path: CcPath = None,
    as_json: AsJson = False,
) -> None:
    """Show a study (its links, paths, flows and cells) or the table of finished results."""
    use_custom(cc_path)
    path = Path(what)
    if as_json and (columns or metric):
        raise StudyError("--json has all columns; leave --columns and --metric out")
    if as_json:
        hush()
        _console.give(_plain(what))
        return
    if (path / "runs.parquet").exists():
        _tell(what, columns, metric)
        return
    if metric is not None:
        _tell(what, columns, metric)
        return
    study = _studies.load(what)
    _check_cc(study)
    _show_study(study)
    for sentence in _unlike(study):
        _console.out.print(sentence, style="yellow", soft_wrap=True)
    if same := same_for_all_seeds(study):
        _console.out.print(f"On the engines sim and linux {same}.", soft_wrap=True)
    if ((folder := _studies.own_results(study)) / "runs.parquet").exists():
        _tell(str(folder), columns)


def _plain(what: str) -> dict[str, Any]:
    """Results with their summary; a study as its file, its cells, and what its paths are like."""
    if (Path(what) / "runs.parquet").exists():
        return as_plain(open_results(what))
    from polypath.analysis import path_figures

    study = _studies.load(what)
    _check_cc(study)
    every = cells(study)
    listed = [{"experiment": cell.experiment, **cell.varied, "seeds": list(cell.seeds)} for cell in every[:_MOST_LOOKED_AT]]
    figures = json.loads(path_figures(scenario(every[0].setup, 1)).to_json(orient="records"))
    return {
        "study": study.name,
        "number_of_cells": len(every),
        "cells": listed,
        "paths": figures,
        "notes": _unlike(study),
        "file": json.loads(study.model_dump_json()),
    }


def _check_cc(study: Study) -> None:
    """What no engine has is said as `run` says it."""
    from polypath.engines import check_cc

    check_cc(study)


def _tell(argument: str, columns: str | None, metric: str | None = None) -> None:
    from ._summary import known_columns, ranking, summary

    results = open_results(argument)
    if metric is not None:
        _console.out.print(ranking(results, metric))
        return
    _console.out.print(summary(results, columns=known_columns(results, names_in(columns))))


def _show_study(study: Study) -> None:
    from rich.table import Table
    from rich.text import Text

    _console.out.print(Text(study.title or study.name, style="bold"), soft_wrap=True)
    if study.question:
        _console.out.print(Text(study.question), soft_wrap=True)
    first = cells(study)[0].setup
    pairs = addresses(first.topology)
    links = Table("link", "from", "to", "forward", "backward", title="links (of the first cell)", title_justify="left")
    for name, link in first.topology.links.items():
        ends = [f"{end.node} {address}" for end, address in zip(link.ends, pairs[name], strict=True)]
        both = [side if side is not None else link.both for side in (link.forward, link.backward)]
        links.add_row(name, *ends, *(("" if side is None else ", ".join(_words(element) for element in chain(side))) for side in both))
    _console.out.print(links)
    if first.topology.tunnels:
        tunnels = Table("tunnel", "from", "to", "paths", "reorder", title="tunnels (of the first cell)", title_justify="left")
        for name, tunnel in first.topology.tunnels.items():
            ends = [f"{end.node} {end.address}" for end in tunnel.ends]
            ways = ", ".join(f"{path.ends[0]} - {path.ends[1]} ({path.weight})" for path in tunnel.paths)
            tunnels.add_row(name, *ends, ways, _words(tunnel.reorder))
        _console.out.print(tunnels)
    _show_paths(scenario(first, 1))
    flows = Table("flow", "from", "to", "transport", "cc", "kernels", "app", title="flows (of the first cell)", title_justify="left")
    for name, flow in first.flows.items():
        client, server = (f"{node} {', '.join(node_addresses(first.topology, node))}" for node in (flow.client, flow.server))
        server += {"upload": "", "download": " (sends)", "both": " (both send)"}.get(flow.direction, "")
        times = f"{name} x {flow.count}" if flow.count > 1 else name
        kernels = ", ".join(dict.fromkeys(first.kernel_of(node) for node in (flow.client, flow.server)))
        of_tcp = ("", "") if flow.transport == "udp" else (flow.cc, kernels)
        flows.add_row(times, client, server, flow.transport, *of_tcp, _words(flow.app))
    _console.out.print(flows)
    matrix = Table("experiment", "parameters", "cells", "seeds", title="cells", title_justify="left")
    for name, experiment in study.all_experiments.items():
        axes = [f"{parameter}: {', '.join(map(str, values))}" for parameter, values in experiment.matrix.items()]
        axes += [f"{study.draw.number} draws of {', '.join(study.draw.parameters)}"] if study.draw else []
        seeds = study.seeds if experiment.seeds is None else experiment.seeds
        words = ", ".join(map(str, seeds)) + (", made into seeds of each draw's own" if study.has_own_seeds else "")
        matrix.add_row(experiment.title or name, "; ".join(axes), str(number_of_cells(study, name)), words)
    _console.out.print(matrix)


# So many cells are looked at, which takes a second at most.
_MOST_LOOKED_AT = 200


def _unlike(study: Study) -> list[str]:
    """What the flows ask for and will not get, or get unasked, in any cell."""
    from polypath.analysis import tunnels_as_paths, without_route

    names: dict[str, None] = {}
    for cell in cells(study)[:_MOST_LOOKED_AT]:
        plain = scenario(cell.setup, 1, links=links_of(cell.setup, 1, until_ns=0))
        names |= dict.fromkeys((*without_route(plain), *tunnels_as_paths(plain)))
    return list(names)


def _show_paths(plain: Mapping[str, Any]) -> None:
    """What each path is like before anything runs; those that no route leads along are none."""
    from rich.table import Table
    from rich.text import Text

    from polypath.analysis import path_figures, short_queues, small_buffers, subflows_opened

    table = Table("flow", "path", "links", title="paths (of the first cell, the way the data go)", title_justify="left")
    for head in ("round trip\nms", "at most\nMbit/s", "under way\nkB", "full queue\nms"):
        table.add_column(head, justify="right")
    table.add_column("bottleneck")
    figures = path_figures(plain)
    for row in figures.to_dict("records"):
        columns = [f"{row['rtt_ms']:.1f}", f"{row['bound_mbps']:.2f}", f"{row['bdp_bytes'] / 1e3:.0f}", f"{row['queue_ms']:.0f}"]
        texts = ["" if text in ("inf", "nan") else text for text in columns]
        table.add_row(row["flow"], f"{row['source']} → {row['destination']}", row["hops"], *texts, row["bottleneck"] or "no rate")
    _console.out.print(table)
    for sentence in subflows_opened(plain):
        _console.out.print(Text(sentence), soft_wrap=True)
    for sentence in [*small_buffers(plain), *short_queues(figures)]:
        _console.out.print(Text(sentence, style="yellow"), soft_wrap=True)


def _words(element: object) -> str:
    """A part of a study in a few words: its kind and what differs from the defaults."""
    kind = getattr(element, "kind", "")
    parts, still = [kind], not getattr(element, "changes", True)
    for name, value in element.__repr_args__():  # type: ignore[attr-defined]
        if name == "changes":
            named = _changes(value, getattr(element, _CHANGED.get(kind, ""), None), getattr(element, "repeat", None))
            parts += [named] if named else []
            still = not named
            continue
        if name == "repeat" and still:
            # What never changes repeats nothing.
            continue
        named = _value(value)
        word = "every" if name == "repeat" else name
        parts.append(named if name in (kind, "share", "spans") else f"{word} {named}")
    return " ".join(parts)


# What the changes of an element are of.
_CHANGED = {"rate": "rate", "delay": "delay", "loss": "share"}
# So many changes or spans are told one by one.
_MOST_TOLD = 3


def _changes(changes: Sequence[Any], first: object, repeat: Time | None) -> str:
    """What changes of a figure, which begins with `first`, and again at `repeat`: times in which
    everything is lost as outages, many as their range.
    """
    kept, before = [], first
    for change in changes:
        if change.to != before:
            kept.append(change)
        before = change.to
    if not kept:
        return ""
    ends = [change.at for change in kept[1:]] + [repeat]
    cut = [(change.at, end) for change, end in zip(kept, ends, strict=True) if isinstance(change.to, Share) and float(change.to) == 1.0]
    if (
        cut
        and (len(kept) > 1 or repeat)
        and len(kept) in (2 * len(cut) - 1, 2 * len(cut))
        and all(change.to in (1, first) for change in kept)
    ):
        # Nothing may end the last one.
        open_end = f", and one from {_value(cut.pop()[0])} on" if cut[-1][1] is None else ""
        return _spans(cut, "outages") + open_end
    if len(kept) <= _MOST_TOLD:
        return "changes " + ", ".join(map(_value, kept))
    low, high = (_value(pick([change.to for change in kept])) for pick in (min, max))
    return f"{len(kept)} changes from {_value(kept[0].at)} to {_value(kept[-1].at)}: {low} to {high}"


def _spans(spans: Sequence[tuple[Any, Any]], noun: str) -> str:
    """Many spans by their number and length."""
    if len(spans) <= _MOST_TOLD - 1:
        return f"{noun} " + ", ".join(f"{_value(since)} to {_value(to)}" for since, to in spans)
    lengths = sorted({Time(f"{int(to) - int(since)}ns") for since, to in spans})
    long = _value(lengths[0]) if len(lengths) == 1 else f"{_value(lengths[0])} to {_value(lengths[-1])}"
    return f"{len(spans)} {noun} of {long} from {_value(spans[0][0])} on"


def _value(value: object) -> str:
    """A field's value as a study file would have it; a list of changes or spans as `13s to 17s`,
    `from 10s 5mbit`.
    """
    if isinstance(value, Time):
        return value.in_words()
    if isinstance(value, tuple):
        if len(value) == 2 and not any(isinstance(part, tuple) or hasattr(part, "at") for part in value):
            return f"{_value(value[0])} to {_value(value[1])}"
        if value and all(isinstance(part, tuple) and len(part) == 2 for part in value) and len(value) >= _MOST_TOLD:
            return _spans(value, "outages")
        return ", ".join(map(_value, value))
    if hasattr(value, "kind"):
        return _words(value)
    if hasattr(value, "at"):
        return f"from {_value(value.at)} {_value(getattr(value, 'to', ''))}".strip()
    return str(value)
