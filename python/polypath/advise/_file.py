"""Paths from a file: words or figures under `paths`, or a study, whose first connection has them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path as File
from typing import Any

from polypath.analysis import paths as study_paths
from polypath.study import FILE_NAME, Study, StudyError, cells, read_yaml, scenario, unknown

from ._errors import AdviceError
from ._path_text import check_name, path_in_words
from ._paths import MIN_RATE, Path, Span

_PACKET_BITS = 1514 * 8
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
        return _of_study(Study.load(file))
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


def _of_study(study: Study) -> tuple[list[Path], list[str]]:
    """The paths of the first flow of its first cell that has most of them."""
    cell = cells(study)[0]
    plain = scenario(cell.setup, cell.seeds[0])
    flow = max(plain["flows"], key=lambda candidate: len(study_paths(plain, candidate)))
    joined = []
    for number, path in enumerate(study_paths(plain, flow), start=1):
        links = [hop.link for hop in path.hops]
        # Of a download the data come from the server.
        there = [_chain(plain, hop.link, hop.a_to_b) for hop in path.hops]
        back = [_chain(plain, hop.link, not hop.a_to_b) for hop in path.hops]
        up, down = (back, there) if flow.get("direction") == "download" else (there, back)
        joined.append(_path_of_links(links, up, down, number))
    hops = [hop for path in study_paths(plain, flow) for hop in path.hops]
    kinds = {element["kind"] for hop in hops for way in (True, False) for element in _chain(plain, hop.link, way)}
    left = ", ".join(["changes over time", *sorted(kinds - {"rate", "delay", "loss"})])
    names = [path.name for path in joined]
    joined = [path if names.count(path.name) == 1 else replace(path, name=f"{path.name}-{number}") for number, path in enumerate(joined, 1)]
    more = "" if len(cells(study)) == 1 else f", the first of {len(cells(study))} cells"
    return joined, [f"{study.name}: the paths of the flow {flow['name']}{more}; {left} are left out"]


def _chain(plain: Mapping[str, Any], name: str, a_to_b: bool) -> Sequence[Mapping[str, Any]]:
    link = next(entry for entry in plain["links"] if entry["name"] == name)
    chain: Sequence[Mapping[str, Any]] = link["a_to_b" if a_to_b else "b_to_a"]
    return chain


def _path_of_links(
    links: Sequence[str], up: Sequence[Sequence[Mapping[str, Any]]], down: Sequence[Sequence[Mapping[str, Any]]], number: int
) -> Path:
    ways = [[element for chain in way for element in chain] for way in (down, up)]
    rates, queues = zip(*(_bottleneck(way) for way in ways), strict=True)
    if math.inf in rates:
        raise AdviceError(f"the path over {', '.join(links)} has no rate in the study, so that nothing fills it; describe it with --path")
    delays = [element for way in ways for element in way if element["kind"] == "delay"]
    rtt = float(sum(delay["delay_ns"] for delay in delays))
    through = [
        math.prod(1 - float(element["probability"]) for element in way if element["kind"] == "loss" and "probability" in element)
        for way in ways
    ]
    loss = 1 - min(through)
    narrow = next((name for name, chain in zip(links, down, strict=True) if any(_rate(element) == rates[0] for element in chain)), links[0])
    queue = max(queues) * 1e9
    return Path(
        name=narrow if narrow.isascii() else f"path{number}",
        down=Span(low=rates[0], high=rates[0]),
        up=Span(low=rates[1], high=rates[1]),
        rtt=Span(low=max(rtt, 1e5), high=max(rtt, 1e5)),
        jitter=Span(low=(wide := float(sum(delay.get("jitter_ns", 0) for delay in delays))), high=wide),
        loss=Span(low=loss, high=loss),
        queue=Span(low=queue, high=queue),
    )


def _rate(element: Mapping[str, Any]) -> float:
    return float(element["bits_per_s"]) if element["kind"] == "rate" else math.inf


def _bottleneck(way: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """The lowest rate, and the seconds that its full queue lasts."""
    rate, queue = math.inf, 0.2
    for element in way:
        if _rate(element) < rate:
            rate = max(_rate(element), MIN_RATE)
            limit = element["queue"]
            size = limit.get("packets", 0) * _PACKET_BITS or limit.get("bytes", 0) * 8
            queue = min(max(size / rate, 0.001), 10.0) if size else queue
    return rate, queue
