"""How flows lived through outages and handovers: from a finished run to a row an event and flow.

Bytes are known every 100 ms on every engine, so times here are multiples of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

STEP_NS = 100_000_000
# The rate before an event is that of this time; it is regained once a second has this share of it.
BEFORE = 20
SECOND = 10
REGAINED = 0.9

Row = dict[str, Any]


def events(scenario: Mapping[str, Any], outcome: Mapping[str, Any]) -> Iterator[Row]:
    """Every span in which a direction of a link was down, with what each flow that was under way
    went through.
    """
    end = int(outcome["simulated_ns"])
    rows = [
        (int(start), min(int(until), end), link["name"], side == "a_to_b")
        for link in scenario["links"]
        for side in ("a_to_b", "b_to_a")
        for element in link[side]
        if element["kind"] == "down"
        for start, until in element["spans_ns"]
        if int(start) < end
    ]
    for start, until, link, a_to_b in sorted(rows):
        # What comes after the next outage of the same direction is that one's affair.
        horizon = min([other[0] for other in rows if other[2:] == (link, a_to_b) and other[0] > start], default=end)
        for flow in outcome["flows"]:
            row = _of_flow(flow["received_100ms"], start, horizon)
            if row is not None:
                times = {"at_s": start / 1e9, "until_s": until / 1e9}
                yield {"link": link, "a_to_b": a_to_b, "flow": flow["name"], **times, **row}


def _of_flow(received: Sequence[int], start: int, horizon: int) -> Row | None:
    """Nothing of a flow that had not sent anything yet."""
    first, last = start // STEP_NS, min(horizon // STEP_NS, len(received) - 1)
    if first >= len(received) or received[first] == 0:
        return None
    since = max(first - BEFORE, 0)
    before = (received[first] - received[since]) / max(first - since, 1)
    steps = [received[index + 1] - received[index] for index in range(first, last)]
    longest = silent = 0
    for step in steps:
        silent = 0 if step else silent + 1
        longest = max(longest, silent)
    after = (index for index in range(len(steps) - SECOND + 1) if sum(steps[index : index + SECOND]) >= REGAINED * before * SECOND)
    regained = next(after, None)
    return {
        "rate_before_mbps": before * 8 * (1e9 / STEP_NS) / 1e6,
        "stall_s": longest * STEP_NS / 1e9,
        "recover_s": None if regained is None or not before else regained * STEP_NS / 1e9,
    }
