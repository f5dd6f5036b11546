"""What held a flow below its bound: the links if packets waited before the bottleneck nearly
always, or most of the time while the congestion window was full; else what the endpoints' counters
say, and behind them what `_causes` makes of links, queues and tunnels.

Each share below is time over the life of the connection. They may overlap (one subflow limited by
its congestion window while another rests), so the verdict names the largest and the table keeps
them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ._causes import explained
from ._evidence import merged
from ._statistics import groups

LINKS_FULL = 0.98
"""Share of the bound from which the links themselves are the answer: the rest is the handshake and
the first round trips.
"""
QUEUE_KEPT = 0.95
"""Share of the samples with a queue before the bottleneck from which on the bottleneck was never
idle: the rest is the start.
"""
QUEUE_MOSTLY = 0.5
"""The same where a window was full: the links held it for so much of the time, and the window by
itself for the rest at most.
"""
WORTH_NAMING = 0.05
"""Share of the time below which a counter explains nothing."""

DATAGRAMS = "application's rate"
EVIDENCE = "evidence"
"""The column with what `_evidence.evidence` found of a run and flow."""
_COUNTERS = ("busy_s", "rwnd_limited_s", "sndbuf_limited_s", "cwnd_limited_s", "retransmissions", "timeouts")
Counters = Mapping[str, npt.NDArray[np.float64]]
"""The counters of a flow of a run, a value a subflow."""
_OF_A_RUN = ["key", "flow", "flow_transport", "goodput_receiver_mbps", "bound_mbps", "lifetime_s", "share_all"]
_OF_A_RUN += ["app_limited_s", "rwnd_limited_s", "sndbuf_limited_s", "queue_share", "flows", EVIDENCE]
CAUSES = ["application", "receive_window", "send_buffer", "not_known", "congestion_window", "scheduler"]


def limits(runs: pd.DataFrame, subflows: pd.DataFrame) -> pd.DataFrame:
    """A row a run and flow: `share` of the bound, `share_all` of all flows of the run together, the
    time shares `<cause>_share`, the name `limited_by` and a sentence `why`.

    `runs` needs key, flow, goodput_receiver_mbps, bound_mbps, bound_all_mbps, lifetime_s,
    app_limited_s, rwnd_limited_s; it may have flow_transport, sndbuf_limited_s, `queue_share` and
    `evidence` (see `_evidence.evidence`). `subflows` needs key, flow, subflow, busy_s,
    rwnd_limited_s, sndbuf_limited_s, cwnd_limited_s, retransmissions, timeouts; with established_s,
    those that never came up count for nothing.
    """
    # Cells that an engine cannot tell apart (kernels on the simulator) share a run: it counts once.
    runs, subflows = runs.drop_duplicates(["key", "flow"]), subflows.drop_duplicates(["key", "flow", "subflow"])
    if "established_s" in subflows:
        subflows = subflows[subflows["established_s"].notna()]
    counters = {
        flow: {name: values[where] for name, values in columns.items()}
        for columns in [{name: subflows[name].to_numpy(dtype=float, na_value=math.nan) for name in _COUNTERS}]
        for flow, where in subflows.groupby(["key", "flow"], sort=False).indices.items()
    }
    together = runs.groupby("key", sort=False)["goodput_receiver_mbps"].transform("sum")
    runs = runs.assign(share_all=(together / runs["bound_all_mbps"]).where(runs["bound_all_mbps"] > 0))
    runs["flows"] = runs.groupby("key", sort=False)["flow"].transform("size")
    used = runs[[name for name in _OF_A_RUN if name in runs]]
    rows = [_limit(run, counters.get((run["key"], run["flow"]))) for run in used.to_dict("records")]
    columns = ["key", "flow", "share", "share_all", "flows", *(f"{cause}_share" for cause in CAUSES)]
    return pd.DataFrame(rows, columns=[*columns, "losses", "timeouts", "limited_by", "why"])


def limits_of_cells(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """A row a cell: `limited_by` and `why` from the means over its runs. `runs` carries what
    `limits` found, one row a run and flow.
    """
    rows = []
    names = ["share", "share_all", "flows", "lifetime_s", "retransmissions", "timeouts", *(f"{cause}_share" for cause in CAUSES)]
    columns = {name: runs[name].to_numpy(dtype=float, na_value=math.nan) for name in names}
    queue = runs["queue_share"].to_numpy(dtype=float, na_value=math.nan) if "queue_share" in runs else np.full(len(runs), math.nan)
    datagrams = runs["flow_transport"].eq("udp").to_numpy(dtype=bool) if "flow_transport" in runs else np.full(len(runs), fill_value=False)
    evidences = runs[EVIDENCE].to_numpy() if EVIDENCE in runs else None
    for key, where in groups(runs, by):
        cell = {name: values[where] for name, values in columns.items()}
        times = {cause: _mean(cell[f"{cause}_share"]) for cause in CAUSES}
        life = float(np.nan_to_num(cell["lifetime_s"]).max())
        losses, timeouts = (round(float(np.nan_to_num(cell[name]).mean())) for name in ("retransmissions", "timeouts"))
        kept = _mean(queue[where])
        name = _name(_mean(cell["share"]), _mean(cell["share_all"]), times, life, kept, several=bool(cell["flows"].max() > 1))
        if datagrams[where[0]]:
            name = DATAGRAMS
        why = _sentence(name, times, losses, timeouts, kept)
        seen = [] if evidences is None else [evidence for evidence in evidences[where] if isinstance(evidence, dict)]
        if seen:
            name, why = explained(name, why, merged(seen))
        rows.append({**dict(zip(by, key, strict=True)), "limited_by": name, "why": why})
    return pd.DataFrame(rows, columns=[*by, "limited_by", "why"])


def _limit(run: Mapping[Any, Any], counters: Counters | None) -> dict[str, object]:
    bound = float(run["bound_mbps"])
    share = float(run["goodput_receiver_mbps"]) / bound if bound > 0 and math.isfinite(bound) else math.nan
    life = float(run["lifetime_s"]) if pd.notna(run["lifetime_s"]) else 0.0
    times = _times(run, counters, life)
    losses, timeouts = (int(np.nansum(counters[name])) if counters else 0 for name in ("retransmissions", "timeouts"))
    share_all = float(run["share_all"])
    kept = float(run.get("queue_share", math.nan))
    name = DATAGRAMS if run.get("flow_transport") == "udp" else _name(share, share_all, times, life, kept, several=run["flows"] > 1)
    row: dict[str, object] = {"key": run["key"], "flow": run["flow"], "share": share, "share_all": share_all, "flows": run["flows"]}
    row.update({f"{cause}_share": times[cause] for cause in CAUSES})
    why = _sentence(name, times, losses, timeouts, kept)
    if isinstance(run.get(EVIDENCE), dict):
        name, why = explained(name, why, run[EVIDENCE])
    row.update(losses=losses, timeouts=timeouts, limited_by=name, why=why)
    return row


def _times(run: Mapping[Any, Any], counters: Counters | None, life: float) -> dict[str, float]:
    if not life > 0 or not counters:
        return dict.fromkeys(CAUSES, 0.0)
    # What an engine cannot tell (a kernel: what held a whole MPTCP connection) explains nothing.
    seconds = {name: run.get(name, math.nan) for name in ("app_limited_s", "rwnd_limited_s", "sndbuf_limited_s")}
    application, window, buffer = (min(1.0, float(spent) / life) if pd.notna(spent) else 0.0 for spent in seconds.values())
    spans = ("busy_s", "rwnd_limited_s", "sndbuf_limited_s", "cwnd_limited_s")
    mean = {name: 0.0 if math.isnan(spent := _mean(counters[name])) else spent / life for name in spans}
    # A subflow of MPTCP has no send buffer of its own to fill: its counter runs when the connection
    # gives it nothing, for whatever reason.
    given_nothing = float(mean["sndbuf_limited_s"])
    if run.get("flow_transport") != "mptcp":
        buffer, given_nothing = given_nothing, 0.0
    elif pd.notna(seconds["sndbuf_limited_s"]):
        given_nothing = 0.0
    # A subflow that rests while the connection has data, buffer and room at the peer was not
    # chosen: that is the scheduler.
    resting = max(0.0, 1.0 - float(mean["busy_s"]) - application - window - buffer) if len(counters["busy_s"]) > 1 else 0.0
    return {
        "application": application,
        # A connection lives a little longer than its application, so a counter can pass the whole.
        "receive_window": min(1.0, max(window, float(mean["rwnd_limited_s"]))),
        "send_buffer": min(1.0, buffer),
        "not_known": min(1.0, given_nothing),
        "congestion_window": min(1.0, float(mean["cwnd_limited_s"])),
        "scheduler": resting,
    }


def _mean(values: npt.NDArray[np.float64]) -> float:
    """Of what is known; nothing known is no number."""
    finite = values[~np.isnan(values)]
    return float(finite.mean()) if len(finite) else math.nan


def _name(share: float, share_all: float, times: dict[str, float], life: float, queue: float, *, several: bool) -> str:
    if not life > 0:
        return "not connected"
    if share >= LINKS_FULL:
        return "links"
    if share_all >= LINKS_FULL:
        return "links, shared"
    if queue >= QUEUE_KEPT:
        # A transmitter that always has a packet waiting is full, whatever the endpoints wait for.
        return "links, shared" if several else "links"
    cause = max(CAUSES, key=lambda candidate: times[candidate])
    if cause == "congestion_window" and queue > QUEUE_MOSTLY:
        # The window is full in any case; while packets wait, a larger one would only make them wait
        # longer.
        return "links, shared" if several else "links"
    return cause.replace("_", " ") if times[cause] >= WORTH_NAMING else "not explained"


def _sentence(name: str, times: dict[str, float], losses: int, timeouts: int, queue: float = math.nan) -> str:
    if name == DATAGRAMS:
        return "datagrams leave at the application's rate, whatever becomes of them"
    if name == "not connected":
        return "the connection was never established"
    if name == "links" and queue > QUEUE_MOSTLY:
        return f"the links: packets waited at the bottleneck {100 * queue:.0f} % of the time"
    if name == "links, shared" and queue > QUEUE_MOSTLY:
        return f"the links, which the flows of the run share: packets waited at the bottleneck {100 * queue:.0f} % of the time"
    if name == "links":
        return "the links themselves"
    if name == "links, shared":
        return "the links, which the flows of the run fill together"
    if name == "not explained":
        return "no counter accounts for 5 % of the time or more"
    spent, lost = times[name.replace(" ", "_")], _losses_text(losses, timeouts)
    return {
        "application": f"the application had nothing to send for {100 * spent:.0f} % of the time",
        "receive window": f"the peer's receive window, {100 * spent:.0f} % of the time",
        "send buffer": f"the send buffer, {100 * spent:.0f} % of the time",
        "not known": f"subflows were given nothing {100 * spent:.0f} % of the time: by the peer's receive window, the send buffer or the "
        "scheduler, which this engine does not tell apart",
        "congestion window": f"the congestion window was full {100 * spent:.0f} % of the time ({lost})",
        "scheduler": f"subflows rested {100 * spent:.0f} % of the time with data waiting: the scheduler chose others",
    }[name]


def _losses_text(losses: int, timeouts: int) -> str:
    if losses == 0:
        return "no losses"
    again, late = (f"{count} {what}{'s' * (count != 1)}" for count, what in ((losses, "retransmission"), (timeouts, "timeout")))
    return f"{again}, {late}" if timeouts else again
