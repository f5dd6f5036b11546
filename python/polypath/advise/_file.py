"""Paths from a file: words or figures under `paths`, or a study, whose first connection has them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File
from typing import Any

from polypath.analysis import paths as study_paths
from polypath.study import FILE_NAME, Study, StudyError, cells, links_of, read_yaml, scenario, unknown

from ._errors import AdviceError
from ._path_text import MOST_OFTEN, check_name, path_in_words
from ._paths import MIN_RATE, Measured, Path, Span

_PACKET_BITS = 1514 * 8
# What is measured is taken in steps of this, or of the finer where its rows are.
_STEP_NS, _FINE_NS = 1_000_000_000, 100_000_000
_LONGEST_NS = 600_000_000_000
_FIELDS = ("down", "up", "rtt", "jitter", "loss", "queue", "outage", "every", "dev", "address", "via")
EXAMPLE = 'paths: {dsl: "50/10mbit 20ms", lte: "30/10mbit 60ms jitter 15ms loss 0.1%"}'


def paths_of_file(name: str) -> tuple[list[Path], list[str]]:
    """The paths in a file or a study's folder, and notes.

    Raises `AdviceError` or `StudyError` with one sentence.
    """
    source = File(name)
    file = source / FILE_NAME if source.is_dir() else source
    if not file.exists():
        raise AdviceError(f"{name}: there is no such file; write one with {EXAMPLE}")
    try:
        tree = read_yaml(file).value
    except StudyError as error:
        raise AdviceError(str(error)) from None
    if isinstance(tree, Mapping) and "topology" in tree:
        return _of_study(Study.load(file), name)
    if not isinstance(tree, Mapping) or not isinstance(tree.get("paths"), Mapping) or not tree["paths"]:
        raise AdviceError(f"{name} names no paths; write {EXAMPLE}, or give a study")
    if spare := [key for key in tree if key != "paths"]:
        raise AdviceError(f"{name}: there is no field `{spare[0]}` here; there is `paths`, and what they are for stands in --for")
    paths = []
    for number, (path_name, said) in enumerate(tree["paths"].items(), start=1):
        try:
            check_name(str(path_name))
            paths.append(replace(path_in_words(_words(said), number), name=str(path_name)))
        except AdviceError as error:
            raise AdviceError(f"{name}: {path_name}: {str(error).removeprefix('--path ')}") from None
    return paths, []


def _words(said: Any) -> str:
    if isinstance(said, str):
        return said
    if not isinstance(said, Mapping):
        raise AdviceError(f'{said!r} is no path; write it like "50/10mbit 20ms"')
    for field in said:
        if field not in _FIELDS:
            raise AdviceError(unknown("field of a path", str(field), _FIELDS))
    if "down" not in said or "rtt" not in said:
        raise AdviceError(f"`{'rtt' if 'down' in said else 'down'}` is missing; a path has `down`, `rtt` and, if it differs, `up`")
    rates = f"{said['down']}/{said.get('up', said['down'])}"
    return " ".join([rates, *(f"{field} {said[field]}" for field in _FIELDS[2:] if field in said)])


def _of_study(study: Study, file: str) -> tuple[list[Path], list[str]]:
    """The paths of the first flow of its first cell that has most of them."""
    cell = cells(study)[0]
    seed = cell.seeds[0]
    # Longer than the study where a table is.
    until_ns = max(int(cell.setup.duration), _LONGEST_NS)
    plain = scenario(cell.setup, seed, links=links_of(cell.setup, seed, until_ns=until_ns))
    flow = max(plain["flows"], key=lambda candidate: len(study_paths(plain, candidate)))
    joined, left = [], dict[str, None]()
    for number, path in enumerate(study_paths(plain, flow), start=1):
        links = [hop.link for hop in path.hops]
        # Of a download the data come from the server.
        there = [_chain(plain, hop.link, hop.a_to_b) for hop in path.hops]
        back = [_chain(plain, hop.link, not hop.a_to_b) for hop in path.hops]
        up, down = (back, there) if flow.get("direction") == "download" else (there, back)
        joined.append(_path_of_links(links, up, down, number, until_ns, int(cell.setup.duration), file))
        elements = [element for chain in (*up, *down) for element in chain]
        left |= dict.fromkeys(_left_out(elements, outages=joined[-1].outage.high > 0))
    names = [path.name for path in joined]
    joined = [path if names.count(path.name) == 1 else replace(path, name=f"{path.name}-{number}") for number, path in enumerate(joined, 1)]
    more = "" if len(cells(study)) == 1 else f", the first of {len(cells(study))} cells"
    notes = [f"{study.name}: the paths of the flow {flow['name']}{more}" + (f"; left out: {', '.join(sorted(left))}" if left else "")]
    return joined, [*notes, *_of_measured(joined)]


def _left_out(elements: Sequence[Mapping[str, Any]], *, outages: bool) -> list[str]:
    kept = ("rate", "trace", "delay", "loss", *(["down"] if outages else []))
    changing = [element["kind"] for element in elements if element["kind"] in ("delay", "loss") and element.get("changes")]
    return [*(element["kind"] for element in elements if element["kind"] not in kept), *(f"changes of {kind}" for kind in changing)]


def _of_measured(paths: Sequence[Path]) -> list[str]:
    notes = []
    for path in paths:
        measured = path.measured
        for way, rates in () if measured is None else (("up", measured.up), ("down", measured.down)):
            if rates:
                tenth, mean = sorted(rates)[len(rates) // 10] / 1e6, sum(rates) / len(rates) / 1e6
                notes.append(
                    f"{path.name} {way} has the rates that were measured, {min(rates) / 1e6:.3g} to {max(rates) / 1e6:.3g} Mbit/s "
                    f"(mean {mean:.3g}, 10th percentile {tenth:.3g})"
                )
        if path.outage.high:
            notes.append(f"{path.name} has the outages of the study, in both directions at once")
    return notes


def _chain(plain: Mapping[str, Any], name: str, a_to_b: bool) -> Sequence[Mapping[str, Any]]:
    link = next(entry for entry in plain["links"] if entry["name"] == name)
    chain: Sequence[Mapping[str, Any]] = link["a_to_b" if a_to_b else "b_to_a"]
    return chain


def _path_of_links(
    links: Sequence[str],
    up: Sequence[Sequence[Mapping[str, Any]]],
    down: Sequence[Sequence[Mapping[str, Any]]],
    number: int,
    until_ns: int,
    duration_ns: int,
    file: str,
) -> Path:
    ways = [[element for chain in way for element in chain] for way in (down, up)]
    lines = [_bottleneck(way, until_ns) for way in ways]
    if any(line is None for line in lines):
        raise AdviceError(f"the path over {', '.join(links)} has no rate in the study, so that nothing fills it; describe it with --path")
    (down_line, up_line) = (line for line in lines if line is not None)
    # Both directions in steps of the finer.
    step = min(down_line.step, up_line.step)
    over_time = [tuple(rate for rate in line.rates for _ in range(line.step // step)) for line in (down_line, up_line)]
    changing = [rates if len(set(rates)) > 1 else () for rates in over_time]
    delays = [element for way in ways for element in way if element["kind"] == "delay"]
    rtt = float(sum(_mean(delay["delay_ns"], delay, until_ns) for delay in delays))
    through = [
        math.prod(
            1 - _mean(float(element["probability"]), element, until_ns)
            for element in way
            if element["kind"] == "loss" and "probability" in element
        )
        for way in ways
    ]
    loss = 1 - min(through)
    narrow = next(
        (name for name, chain in zip(links, down, strict=True) if any(element is down_line.element for element in chain)),
        links[0],
    )
    queue = max(down_line.queue_s, up_line.queue_s) * 1e9
    outage, every = _outages([element for way in ways for element in way if element["kind"] == "down"], duration_ns)
    return Path(
        name=narrow if narrow.isascii() else f"path{number}",
        down=Span(low=min(down_line.rates), high=max(down_line.rates)),
        up=Span(low=min(up_line.rates), high=max(up_line.rates)),
        rtt=Span(low=max(rtt, 1e5), high=max(rtt, 1e5)),
        jitter=Span(low=(wide := float(sum(delay.get("jitter_ns", 0) for delay in delays))), high=wide),
        loss=Span(low=loss, high=loss),
        queue=Span(low=queue, high=queue),
        outage=outage,
        every=every,
        measured=Measured(file=file, step=step, down=changing[0], up=changing[1]) if any(changing) else None,
    )


@dataclass(frozen=True, kw_only=True)
class _Line:
    """The narrowest element of a direction."""

    element: Mapping[str, Any]
    rates: tuple[float, ...]
    step: int
    queue_s: float
    """How long its full queue lasts at the mean rate."""

    @property
    def mean(self) -> float:
        return sum(self.rates) / len(self.rates)


def _bottleneck(way: Sequence[Mapping[str, Any]], until_ns: int) -> _Line | None:
    lines = [_line(element, until_ns) for element in way if element["kind"] in ("rate", "trace")]
    return min(lines, key=lambda line: line.mean, default=None)


def _line(element: Mapping[str, Any], until_ns: int) -> _Line:
    limit = element["queue"]
    size = limit.get("packets", 0) * _PACKET_BITS or limit.get("bytes", 0) * 8
    step, rates = _of_trace(element) if element["kind"] == "trace" else _of_rate(element, until_ns)
    rates = tuple(max(rate, MIN_RATE) for rate in rates)
    queue_s = min(max(size * len(rates) / sum(rates), 0.001), 10.0) if size else 0.2
    return _Line(element=element, rates=rates, step=step, queue_s=queue_s)


def _of_rate(element: Mapping[str, Any], until_ns: int) -> tuple[int, tuple[float, ...]]:
    """Its mean in each step."""
    changes = [(0, float(element["bits_per_s"])), *((change["at_ns"], float(change["to"])) for change in element.get("changes", ()))]
    if len(changes) == 1:
        return _STEP_NS, (changes[0][1],)
    gaps = sorted(later[0] - earlier[0] for earlier, later in itertools.pairwise(changes))
    step = _FINE_NS if gaps[len(gaps) // 2] < _STEP_NS else _STEP_NS
    # The last row counts as long as most do.
    end = min(changes[-1][0] + max(gaps[len(gaps) // 2], step), until_ns)
    number = max(end // step, 1)
    sums = [0.0] * number
    for (at, rate), (then, _) in itertools.pairwise([*changes, (number * step, 0.0)]):
        while at < min(then, number * step):
            stop = min(then, (at // step + 1) * step)
            sums[at // step] += rate * (stop - at) / step
            at = stop
    return step, tuple(sums)


def _of_trace(element: Mapping[str, Any]) -> tuple[int, tuple[float, ...]]:
    chances = element["chances_ms"]
    fine_ms = _FINE_NS // 1_000_000
    sums = [0.0] * max(-(-chances[-1] // fine_ms), 1)
    for chance in chances:
        sums[min(chance // fine_ms, len(sums) - 1)] += element["bytes"] * 8e9 / _FINE_NS
    return _FINE_NS, tuple(sums)


def _mean(value: float, element: Mapping[str, Any], until_ns: int) -> float:
    """Of what may change over time."""
    changes = [(0, float(value)), *((change["at_ns"], float(change["to"])) for change in element.get("changes") or ()), (until_ns, 0.0)]
    return float(sum(max(then - at, 0) * each for (at, each), (then, _) in itertools.pairwise(changes))) / until_ns


def _outages(elements: Sequence[Mapping[str, Any]], duration_ns: int) -> tuple[Span, Span]:
    """How long and how often, of the direction that has most of them."""
    spans: Sequence[tuple[int, int]] = max((element["spans_ns"] for element in elements), key=len, default=[])
    none = Span(low=0, high=0)
    if not spans:
        return none, none
    lengths = [float(end - begin) for begin, end in spans]
    gaps = [float(later[0] - earlier[0]) for earlier, later in itertools.pairwise(spans)] or [float(duration_ns)]
    usual = sum(gaps) / len(gaps)
    every = Span(low=max(min(gaps), usual / 2), high=min(max(gaps), usual * 2))
    # One that never ends, takes most of the time, or comes all the time is part of the line.
    again = every.low >= MOST_OFTEN and max(lengths) < every.low / 2
    return (Span(low=min(lengths), high=max(lengths)), every) if again else (none, none)
