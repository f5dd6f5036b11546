"""Wireless links: from a radio's parameters and the seed to a chain of outages, changing rate,
retransmissions and delay.

The rate walks between the neighbouring states of the radio's table of modulation and coding;
handovers cut the link; failed attempts come later, in order. docs/concepts/wireless.md has the
sources of all figures.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Rates of IEEE 802.11ax (Wi-Fi 6), 80 MHz, one stream, guard interval 0.8 us, HE-MCS 0 to 11,
# Mbit/s (IEEE 802.11ax-2021, section 27.5).
WIFI_6 = (36.0, 72.1, 108.1, 144.1, 216.2, 288.2, 324.3, 360.3, 432.4, 480.4, 540.4, 600.5)
# Spectral efficiency of 5G NR's CQI 1 to 15 with up to 64QAM, bit/s/Hz (3GPP TS 38.214,
# table 5.2.2.1-2).
NR_64QAM = (0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547)
# Whether the state changes is drawn this often, ns.
STEP_NS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Radio:
    """A radio technology: its states as shares of the best one, and its usual figures."""

    states: tuple[float, ...]
    # Lowest state (from 0) that a usable link falls to.
    lowest: int
    dwell_ns: int
    delay_ns: int
    jitter_ns: int
    # Share of attempts that fail, the time until the next one, and attempts at most.
    retries: float
    retry_ns: int
    attempts: int


def _shares(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(value / values[-1] for value in values)


RADIOS = {
    "wifi6": Radio(
        states=_shares(WIFI_6), lowest=4, dwell_ns=500_000_000, delay_ns=2_000_000, jitter_ns=1_000_000,
        retries=0.1, retry_ns=1_000_000, attempts=7,
    ),
    "5g": Radio(
        states=_shares(NR_64QAM), lowest=6, dwell_ns=200_000_000, delay_ns=10_000_000, jitter_ns=2_000_000,
        retries=0.1, retry_ns=5_000_000, attempts=4,
    ),
}  # fmt: skip


def rates(radio: Radio, lowest: int, peak: int, dwell_ns: int, until_ns: int, draw: random.Random) -> list[tuple[int, int]]:
    """(time, bit/s) of each state that the link enters, from time 0 on: a walk to a neighbour, up
    or down, after a geometric dwell time.
    """
    top = len(radio.states) - 1
    state = draw.randrange(lowest, top + 1)
    steps = [(0, _rate(radio, state, peak))]
    leave = STEP_NS / max(dwell_ns, STEP_NS)
    for at in range(STEP_NS, until_ns, STEP_NS):
        if draw.random() >= leave or top == lowest:
            continue
        up = draw.random() < 0.5
        state = min(max(state + (1 if up else -1), lowest), top)
        if steps[-1][1] != _rate(radio, state, peak):
            steps.append((at, _rate(radio, state, peak)))
    return steps


def _rate(radio: Radio, state: int, peak: int) -> int:
    return round(peak * radio.states[state])


def handovers(every_ns: int, gap_ns: int, until_ns: int, draw: random.Random) -> Iterator[tuple[int, int]]:
    """Spans in which nothing passes, on average one in `every_ns`, drawn between half and one and a
    half of it.
    """
    at = 0
    while True:
        at += every_ns // 2 + round(draw.random() * every_ns)
        if at >= until_ns:
            return
        yield at, at + gap_ns
        at += gap_ns


def elements(model: Any, seed: int, name: str, until_ns: int) -> list[dict[str, Any]]:
    """The chain of one direction of a wireless link as the engines take it; `model` is the study's
    `Wireless`.
    """
    radio = RADIOS[model.radio]

    def stream(what: str) -> random.Random:
        # One stream for each purpose, so that another handover interval leaves the rates as they
        # were.
        return random.Random(int.from_bytes(hashlib.sha256(f"{what} {seed} {name}".encode()).digest()[:16], "big"))

    chain: list[dict[str, Any]] = []
    if model.handover_every is not None:
        spans = handovers(int(model.handover_every), int(model.handover_gap), until_ns, stream("handover"))
        cut = [list(span) for span in spans]
        chain += [{"kind": "down", "spans_ns": cut}] if cut else []
    lowest = radio.lowest if model.lowest_state is None else model.lowest_state
    dwell = radio.dwell_ns if model.dwell is None else int(model.dwell)
    first, *later = rates(radio, lowest, int(model.peak), dwell, until_ns, stream("rate"))
    changes = [{"at_ns": at, "to": rate} for at, rate in later]
    queue = {model.queue_unit: int(model.queue)}
    chain.append({"kind": "rate", "bits_per_s": first[1], "queue": queue, "framing_bytes": 14, "hold_ns": 0, "changes": changes})
    retries = radio.retries if model.retries is None else float(model.retries)
    if retries > 0:
        delay = radio.retry_ns if model.retry_delay is None else int(model.retry_delay)
        attempts = radio.attempts if model.attempts is None else model.attempts
        chain.append({"kind": "retry", "probability": retries, "delay_ns": delay, "attempts": attempts})
    delay, jitter = (usual if own is None else int(own) for usual, own in ((radio.delay_ns, model.delay), (radio.jitter_ns, model.jitter)))
    return [*chain, {"kind": "delay", "delay_ns": delay, "jitter_ns": jitter, "reorder": False, "changes": []}]
