"""What each application asks of a network: its metrics, declared once, and the most that the links and the application allow of them.

The terminal, the report, `Results.summary` and the table of docs/concepts/metrics.md are made from `APPLICATIONS`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from ._bounds import UNLIMITED, flow_bounds, max_goodput, window
from ._limits import limits, limits_of_cells, queue_shares
from ._network import IPV4_HEADER, UDP_HEADER, Path, Scenario, opposite, paths
from ._statistics import summarise


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One figure of an application."""

    # Column of the runs.
    column: str
    # In at most two words of a table's head.
    head: str
    unit: str
    meaning: str
    # How the value of one run comes about; that of a cell is the mean over its runs with Student's interval of 95 %.
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

BY_NAME: Mapping[str, Application] = {application.name: application for application in APPLICATIONS}


def application_of(flow: Mapping[str, Any]) -> str:
    """The kind of a scenario's flow: a name of `APPLICATIONS`."""
    app = flow["app"]
    if flow["transport"] == "udp":
        return "datagrams"
    if app["kind"] == "on_off":
        return "stream" if app.get("bits_per_s") else "bulk"
    return str(app["kind"])


POSSIBLE = ("possible_mbps", "least_delay_ms", "least_response_ms", "least_completion_s")


def possible(scenario: Scenario) -> pd.DataFrame:
    """A row a flow: its `application`, and what nothing can better with every other flow silent.

    possible_mbps: what the links allow, and the application asks for; least_delay_ms: one-way delay of its fastest path;
    least_response_ms: a round trip of the fastest path and the response at the links' rate; least_completion_s: the same of a transfer,
    one way. Handshakes, acknowledgements and the growth of a congestion window are not counted. Infinite or 0 where no link limits.
    """
    rows = []
    for flow in scenario["flows"]:
        there = paths(scenario, flow)
        row: dict[str, Any] = {"flow": flow["name"], "application": application_of(flow)}
        row |= _possible(scenario, flow, there) if there else dict.fromkeys(POSSIBLE, math.nan)
        rows.append(row)
    return pd.DataFrame(rows, columns=["flow", "application", *POSSIBLE])


def _possible(scenario: Scenario, flow: Mapping[str, Any], there: Sequence[Path]) -> dict[str, float]:
    app, span = flow["app"], window(scenario, flow)
    links = max_goodput(there, span)
    found = dict.fromkeys(POSSIBLE, math.nan)
    found["possible_mbps"] = min(links, _asked(app)) / 1e6
    # Of what is sent at a rate a byte may be alone in its packet, and of datagrams none is.
    alone = int(flow["datagram_bytes"]) + UDP_HEADER + IPV4_HEADER if flow["transport"] == "udp" else 0
    least = min(_delay_ns(path, alone) for path in there) / 1e6
    found["least_delay_ms"] = least
    if app["kind"] == "transfer":
        found["least_completion_s"] = least / 1e3 + _seconds(int(app["bytes"]), _fastest(there, links))
    if app["kind"] == "requests":
        back = [opposite(scenario, flow, path) for path in there]
        answers = max_goodput(back, span)
        sending = _seconds(int(app["request_bytes"]), _fastest(there, links)) + _seconds(
            int(app["response_bytes"]), _fastest(back, answers)
        )
        found["least_response_ms"] = least + min(_delay_ns(path, 0) for path in back) / 1e6 + 1e3 * sending
    return found


def _asked(app: Mapping[str, Any]) -> float:
    """What an application sends at the most, in bit/s over time."""
    if app["kind"] != "on_off" or not app.get("bits_per_s"):
        return UNLIMITED
    on, off = int(app["on_ns"]), int(app["off_ns"])
    return float(app["bits_per_s"]) * on / (on + off)


def _fastest(chosen: Sequence[Path], mean: float) -> float:
    """A short burst may find a link at its fastest: of links that change, nothing less is a bound."""
    varies = any(element.get("changes") or element["kind"] == "trace" for path in chosen for hop in path.hops for element in hop.elements)
    return UNLIMITED if varies else mean


def _seconds(size: int, bits_per_s: float) -> float:
    return 0.0 if not bits_per_s or math.isinf(bits_per_s) else 8 * size / bits_per_s


def _delay_ns(path: Path, packet: int) -> float:
    """The least that a packet of so many bytes needs from end to end."""
    total = 0.0
    for hop in path.hops:
        for element in hop.elements:
            if element["kind"] == "delay":
                lowest = min([int(element["delay_ns"]), *(int(change["to"]) for change in element.get("changes", ()))])
                total += max(0, lowest - int(element.get("jitter_ns", 0)))
            elif element["kind"] == "rate":
                fastest = max([float(element["bits_per_s"]), *(float(change["to"]) for change in element.get("changes", ()))])
                total += 8e9 * packet / fastest
    return total


def with_limits(
    runs: pd.DataFrame, subflows: pd.DataFrame, scenarios: Mapping[str, Scenario], link_series: pd.DataFrame | None = None
) -> pd.DataFrame:
    """The runs with what `flow_bounds`, `possible` and `limits` find of them. `scenarios` are by key; `link_series` tells of queues."""
    bounds = pd.concat([flow_bounds(scenario).assign(key=key) for key, scenario in scenarios.items()])
    best = pd.concat([possible(scenario).assign(key=key) for key, scenario in scenarios.items()])
    found = runs.merge(bounds.merge(best, on=["key", "flow"]), on=["key", "flow"], how="left")
    # A run goes on a little after its applications have ended; that they have nothing to send then limits nothing.
    until = found["key"].map({key: int(scenario["duration_ns"]) / 1e9 for key, scenario in scenarios.items()})
    tail = (until - found["established_s"] - found["lifetime_s"]).clip(lower=0.0).fillna(0.0)
    found["app_limited_s"] = (found["app_limited_s"] - tail).clip(lower=0.0)
    found["queue_share"] = _queue_shares(found, scenarios, link_series)
    return found.merge(limits(found, subflows).drop(columns=["losses", "timeouts"]), on=["key", "flow"], how="left")


def _queue_shares(runs: pd.DataFrame, scenarios: Mapping[str, Scenario], link_series: pd.DataFrame | None) -> pd.Series[float]:
    """Of each row: the share of its life in which packets waited at its bottlenecks; NaN where that is not known."""
    queues = {} if link_series is None or link_series.empty else dict(list(link_series.groupby("key", sort=False)))
    shares: dict[tuple[Any, Any], float] = {}
    for key, own in runs.groupby("key", sort=False):
        if key in queues and key in scenarios:
            shares |= {(key, flow): share for flow, share in queue_shares(scenarios[str(key)], own, queues[key]).items()}
    rows = zip(runs["key"], runs["flow"], strict=True)
    return pd.Series([shares.get(row, math.nan) for row in rows], index=runs.index, dtype=float)


def answers(runs: pd.DataFrame, by: Sequence[str], application: Application, more: Sequence[str] = ()) -> pd.DataFrame:
    """A row a cell of the runs with this application: `n`, each metric's mean and `<column>_ci`, what was possible, `of_possible`,
    `limited_by` and `why`.

    `runs` are those of `with_limits` and carry what `possible` found; `more` are further columns of them.
    """
    own = runs[runs["application"] == application.name]
    columns = [*(metric.column for metric in application.metrics), *POSSIBLE, *more]
    table = summarise(own, by, list(dict.fromkeys(columns)))
    if table.empty:
        return table
    table = table.merge(limits_of_cells(own, by), on=list(by), how="left")
    table["of_possible"] = [of_possible(row, application) for row in table.to_dict("records")]
    return table


def of_possible(row: Mapping[Any, Any], application: Application) -> float:
    """How near a cell comes to what its links and its application allow: 1 is all of it, for times as for rates."""
    # Rates before times: a rate is all of what was possible more often than a time is the least.
    bounded = sorted((each for each in application.metrics if each.best), key=lambda each: each.better != "higher")
    if not bounded:
        return math.nan
    metric = bounded[0]
    value, best = float(row[metric.column]), float(row[metric.best])
    if not (math.isfinite(value) and math.isfinite(best)):
        return math.nan
    upper, lower = (value, best) if metric.better == "higher" else (best, value)
    return upper / lower if lower > 0 else math.nan


def applications_in(runs: pd.DataFrame) -> list[Application]:
    """The applications of the runs, in the order of the study's flows."""
    return [BY_NAME[name] for name in dict.fromkeys(runs["application"].dropna())]
