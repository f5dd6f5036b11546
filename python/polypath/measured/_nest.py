"""NeST's dumps: ss.json, and netperf.json or iperf3.json beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from polypath.traces import TraceError, text_of

from ._model import Flow, Measured, Sample, Subflow, accumulated, ascending, checked, figure, named, optional

_RATES = ("sending_rate", "throughput", "bits_per_second")


def of_nest(folder: Path) -> Measured:
    """What NeST measured; Raises `TraceError` with the file."""
    rates = next((folder / name for name in ("netperf.json", "iperf3.json") if (folder / name).is_file()), None)
    if rates is None:
        raise TraceError(f"{folder}: no dump of NeST is here: there is neither netperf.json nor iperf3.json")
    sockets = dict(_series(folder / "ss.json")) if (folder / "ss.json").is_file() else {}
    flows, holes = [], []
    for (node, destination, port), samples in _series(rates):
        if port == "sum":
            continue
        name = named("-".join(filter(None, (node, destination, port))))
        # iperf3's dumps have the port of this end, those of ss that of the other.
        near = [told for (other, to, _), told in sockets.items() if (other, to) == (node, destination)]
        told = sockets.get((node, destination, port)) or (near[0] if len(near) == 1 else [])
        flow, missing = _flow(rates, name, samples, told)
        flows.append(flow)
        holes += [f"beware: {missing} samples of {name} are missing, and count as nothing received"] if missing else []
    return checked(rates, "nest", flows, [f"NeST: {len(flows)} flows of {rates.name}, with {len(sockets)} sockets of ss.json", *holes])


def _series(file: Path) -> Iterator[tuple[tuple[str, str, str], list[dict[str, Any]]]]:
    """By node, address and port the samples of a dump, with times."""
    try:
        tree = json.loads(text_of(file))
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{file}: this is no JSON: {error}") from None
    if not isinstance(tree, dict):
        raise TraceError(f"{file}: this is no dump of NeST, which has results by node")
    for node, results in tree.items():
        for result in results if isinstance(results, list) else ():
            for destination, found in result.items() if isinstance(result, dict) else ():
                host, _, port = destination.rpartition(":") if destination.count(":") == 1 else (destination, "", "")
                by_port = found if isinstance(found, dict) else {port: found}
                for each, rows in by_port.items():
                    if not isinstance(rows, list):
                        raise TraceError(f"{file}: {node}, {destination}: a list of samples should stand here")
                    yield (str(node), host, str(each)), [row for row in rows if isinstance(row, dict) and "timestamp" in row]


def _flow(file: Path, name: str, rows: list[dict[str, Any]], socket_samples: list[dict[str, Any]]) -> tuple[Flow, int]:
    """And how many samples are missing."""
    if not rows:
        raise TraceError(f"{file}: {name}: no sample has a time")
    key = next((each for each in _RATES if each in rows[0]), None)
    if key is None:
        raise TraceError(f"{file}: {name}: no sample has a rate ({', '.join(_RATES)})")
    times = [figure(file, row["timestamp"], "`timestamp`") for row in rows]
    ascending(file, times, name)
    steps = sorted(later - earlier for earlier, later in pairwise(times)) or [1.0]
    step = steps[len(steps) // 2]
    # iperf3's times are those at which an interval begins, netperf's at which it ends.
    lasts = [optional(file, row, "duration") for row in rows]
    ends = [time if long is None else time + long for time, long in zip(times, lasts, strict=True)]
    begins = min(end - (step if long is None else long) for end, long in zip(ends, lasts, strict=True))
    spans = [
        # Rates are Mbit/s.
        (end - (step if long is None else long) - begins, end - begins, figure(file, row.get(key), f"`{key}`") * 1e6)
        for end, long, row in zip(ends, lasts, rows, strict=True)
    ]
    received = accumulated(spans)
    samples = []
    for row in socket_samples:
        time = figure(file, row["timestamp"], "`timestamp`") - begins
        if time < 0:
            continue
        samples.append(
            Sample(
                time_s=time,
                cwnd=optional(file, row, "cwnd"),
                srtt_ms=optional(file, row, "rtt"),
                rttvar_ms=optional(file, row, "dev_rtt"),
                ssthresh=None if row.get("ssthresh") is None else int(figure(file, row["ssthresh"], "`ssthresh`")),
                pacing_bps=optional(file, row, "pacing_rate", 1e6),
                delivery_bps=optional(file, row, "delivery_rate", 1e6),
            )
        )
    rtts = [sample.srtt_ms for sample in samples if sample.srtt_ms]
    subflow = Subflow(samples=tuple(samples), bytes_acked=received[-1][1], min_rtt_ms=min(rtts, default=None))
    missing = sum(round((later - earlier) / step) - 1 for earlier, later in pairwise(times) if later - earlier > 1.5 * step)
    return Flow(name=name, received=received, subflows=(subflow,)), missing
