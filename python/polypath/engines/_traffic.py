"""What is measured of datagrams and of requests, as the simulator does it
(crates/sim/src/traffic.rs).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._records import Array

Json = dict[str, Any]


def datagrams(sent: int, arrivals: Array, window: Sequence[int] | None) -> Json:
    """Datagrams of a whole run, and of those that arrived in `window`; a row of `arrivals` each, in
    the order of arrival.
    """
    numbers = arrivals["number"].astype(np.int64)
    ahead = np.maximum.accumulate(numbers) if len(numbers) else numbers
    counts: Json = {"sent": sent, "received": len(numbers), "reordered": int(np.sum(numbers < ahead))}
    times = arrivals["received_ns"].astype(np.int64)
    first, last = np.searchsorted(times, window, side="right") if window else (0, 0)
    # Datagrams up to the latest that has arrived, before the window and in it.
    due = int(ahead[last - 1] + 1 if last else 0) - int(ahead[first - 1] + 1 if first else 0)
    within = arrivals[first:last]
    transits = within["received_ns"].astype(np.int64) - within["sent_ns"].astype(np.int64)
    steps = np.abs(np.diff(transits))
    return {
        **counts,
        "loss": 1.0 - min(len(within) / due, 1.0) if due > 0 else None,
        "jitter_ns": float(np.mean(steps)) if len(steps) else None,
        "delay": spread(transits),
    }


def responses(answered: Sequence[Sequence[int]], window: Sequence[int] | None) -> Json:
    """Requests as (sent, answered), of which those sent within the window count."""
    times = [read - sent for sent, read in answered if window and window[0] <= sent < window[1]]
    return {"count": len(times), "time": spread(np.array(times, np.int64))}


def spread(values: Array) -> Json | None:
    """How values are spread; percentiles are of the nearest rank."""
    if not len(values):
        return None
    ordered = np.sort(values)
    percentiles = {name: int(ordered[max(-(-len(ordered) * percent // 100), 1) - 1]) for name, percent in RANKS.items()}
    return {"mean_ns": float(np.mean(ordered)), **percentiles}


RANKS = {"p50_ns": 50, "p95_ns": 95, "p99_ns": 99, "max_ns": 100}
