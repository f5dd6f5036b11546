"""What each application asks of a network: its metrics, declared once.

The terminal, the report, `Results.summary` and the table of docs/concepts/metrics.md are made from
`APPLICATIONS`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One figure of an application."""

    # Column of the runs.
    column: str
    # In at most two words of a table's head.
    head: str
    unit: str
    meaning: str
    # How the value of one run comes about; that of a cell is the mean over its runs with Student's
    # interval of 95 %.
    of_a_run: str
    better: Literal["higher", "lower", ""] = ""
    # What of `possible` it stands beside: never better than that.
    best: str = ""
    digits: int = 2
    # How much of the unit is one of the column.
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Application:
    """A kind of application and what is told of it."""

    name: str
    what: str
    metrics: tuple[Metric, ...]
    # The column that its cells are compared by, in figures and sentences.
    compared_by: str

    @property
    def main(self) -> Metric:
        """The metric that its cells are compared by."""
        return next(metric for metric in self.metrics if metric.column == self.compared_by)


def _percentiles(prefix: str, head: str, meaning: str, of: str, best: str) -> tuple[Metric, ...]:
    return tuple(
        Metric(
            column=f"{prefix}_p{percent}_ms",
            head=f"{head} p{percent}",
            unit="ms",
            meaning=f"{meaning}; {'half' if percent == 50 else f'{percent} %'} of the {of} took no longer",
            of_a_run=f"percentile of the window's {of}",
            better="lower",
            best=best if percent == 50 else "",
            digits=1,
        )
        for percent in (50, 95)
    )


GOODPUT = Metric(
    column="goodput_receiver_mbps",
    head="goodput",
    unit="Mbit/s",
    meaning="bytes that the receiving application read within the window, over its length",
    of_a_run="over the window",
    better="higher",
    best="possible_mbps",
)
_COMPLETION = Metric(
    column="completion_s",
    head="completion",
    unit="s",
    meaning="from when the connection was accepted until everything was read",
    of_a_run="one a run; none where it was not complete",
    better="lower",
    best="least_completion_s",
    digits=3,
)
_RESPONSES = Metric(
    column="responses",
    head="requests",
    unit="",
    meaning="requests that were sent within the window and answered",
    of_a_run="sum",
    better="higher",
    digits=1,
)
_LOSS = Metric(
    column="datagram_loss",
    head="loss",
    unit="%",
    meaning="datagrams that did not arrive, of those numbered up to the last that did",
    of_a_run="over the window",
    better="lower",
    scale=100.0,
)
_JITTER = Metric(
    column="jitter_ms",
    head="jitter",
    unit="ms",
    meaning="difference between the delays of one datagram and the next that arrived",
    of_a_run="mean over the window's datagrams",
    better="lower",
)
_BYTES = _percentiles(
    "byte_delay", "delay", "from when the sender's socket took a byte until the receiver read it", "bytes", "least_delay_ms"
)
_DATAGRAMS = _percentiles("delay", "delay", "from when a datagram was sent until it arrived", "datagrams", "least_delay_ms")
_RESPONSE = _percentiles(
    "response", "response", "from when a request was sent until its whole response was read", "requests", "least_response_ms"
)

APPLICATIONS = (
    Application(
        name="bulk",
        what="sends as fast as its socket accepts (`bulk`, and `on_off` without a `rate`)",
        metrics=(GOODPUT,),
        compared_by="goodput_receiver_mbps",
    ),
    Application(
        name="stream",
        what="sends at a rate on a connection (`constant`, and `on_off` with a `rate`)",
        metrics=(*_BYTES, GOODPUT),
        compared_by="byte_delay_p95_ms",
    ),
    Application(
        name="datagrams",
        what="sends datagrams at a rate (the same with `transport: udp`)",
        metrics=(*_DATAGRAMS, _LOSS, _JITTER, GOODPUT),
        compared_by="delay_p95_ms",
    ),
    Application(
        name="requests",
        what="asks, and waits for the whole response (`requests`)",
        metrics=(_RESPONSES, *_RESPONSE),
        compared_by="response_p95_ms",
    ),
    Application(name="transfer", what="sends so much and closes (`transfer`)", metrics=(_COMPLETION,), compared_by="completion_s"),
)
"""Every kind of application, the most usual first."""

# What a person may call a column: the words of the tables' heads.
HEADS: Mapping[str, str] = {
    **{metric.head.split()[0]: metric.column for application in APPLICATIONS[::-1] for metric in application.metrics},
    **{metric.head: metric.column for application in APPLICATIONS[::-1] for metric in application.metrics},
}


def meant(name: str, candidates: Collection[str]) -> str:
    """Which of the known columns a person may mean by a name that is none, as a question; nothing
    where none is near.
    """
    head = HEADS.get(name.lower().replace("_", " "))
    near = [head] if head in candidates else difflib.get_close_matches(name, candidates, n=1, cutoff=0.8)
    if not near:
        words = difflib.get_close_matches(name.lower(), {column.partition("_")[0] for column in candidates}, n=1, cutoff=0.8)
        near = [column for column in candidates if words and column.startswith(f"{words[0]}_")]
        near = sorted(near, key=lambda column: column not in HEADS.values()) or difflib.get_close_matches(name, candidates, n=1)
    return f"; did you mean {' or '.join(f'{chr(34)}{column}{chr(34)}' for column in near[:3])}?" if near else ""


BY_NAME: Mapping[str, Application] = {application.name: application for application in APPLICATIONS}


def application_of(flow: Mapping[str, Any]) -> str:
    """The kind of a scenario's flow: a name of `APPLICATIONS`."""
    app = flow["app"]
    if flow["transport"] == "udp":
        return "datagrams"
    if app["kind"] == "on_off":
        return "stream" if app.get("bits_per_s") else "bulk"
    return str(app["kind"])
