"""Datagrams and requests on a real kernel: what the simulator says of them, a kernel says too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from polypath import Study, run

pytestmark = pytest.mark.usefixtures("linux_kernel")

NODES = {"c": None, "r": {"router": True}, "s": None}
WIDE = {"ends": ["c", "r"], "both": {"delay": "5ms"}}


def both(tmp_path: Path, flows: dict[str, Any], bottleneck: dict[str, Any], **more: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the flows on sim and on linux."""
    topology = {"nodes": NODES, "links": {"wide": WIDE, "narrow": {"ends": ["r", "s"], **bottleneck}}}
    base = {"name": "traffic", "topology": topology, "flows": flows, "duration": "4s", "baselines": None, **more}
    study = Study.model_validate(base)
    sim, linux = (run(study, engine=engine, out=tmp_path / engine).runs.set_index("flow") for engine in ("sim", "linux"))
    return sim, linux


def stream(rate: str, **more: Any) -> dict[str, Any]:
    return {"client": "c", "server": "s", "transport": "udp", "app": {"kind": "constant", "rate": rate, "duration": "3s"}, **more}


DATAGRAMS = ["datagrams_sent", "datagrams_received", "datagrams_reordered", "datagram_loss", "jitter_ms"]
DELAYS = [f"delay_{part}_ms" for part in ("mean", "p50", "p95", "p99", "max")]


def test_streams_that_share_a_queue_fare_to_the_datagram_as_in_the_simulator(tmp_path: Path) -> None:
    burst = {"kind": "on_off", "on": "200ms", "off": "300ms", "rate": "9mbit", "duration": "2500ms"}
    flows = {"steady": stream("4mbit", datagram="700B"), "bursts": stream("1mbit", start="603ms", app=burst)}
    link = {"forward": {"rate": "10mbit", "queue": "30packets", "delay": "7ms"}, "backward": {"delay": "7ms"}}
    sim, linux = both(tmp_path, flows, link, measure={"window": ["500ms", "3s"]})
    assert (sim["datagram_loss"] > 0).all(), "the bursts overflow the queue"
    for flow in flows:
        assert linux.loc[flow, DATAGRAMS[:3]].tolist() == sim.loc[flow, DATAGRAMS[:3]].tolist()
        assert linux.loc[flow, DATAGRAMS[3:]].tolist() == pytest.approx(sim.loc[flow, DATAGRAMS[3:]].tolist(), rel=0.01)
        # Which of two datagrams of one instant is first may differ, and with it what stands before the longest waits: 1.2 ms at most.
        assert linux.loc[flow, DELAYS[:3]].tolist() == pytest.approx(sim.loc[flow, DELAYS[:3]].tolist(), abs=0.2)
        assert linux.loc[flow, DELAYS[3:]].tolist() == pytest.approx(sim.loc[flow, DELAYS[3:]].tolist(), abs=1.2)
        assert linux.loc[flow, "goodput_receiver_mbps"] == pytest.approx(sim.loc[flow, "goodput_receiver_mbps"], rel=0.01)


def test_random_loss_and_jitter_of_datagrams_are_those_of_the_link(tmp_path: Path) -> None:
    link = {"forward": {"delay": "20ms", "jitter": "4ms", "reorder": True, "loss": "3%"}, "backward": {"delay": "1ms"}}
    for rows in both(tmp_path, {"u": stream("20mbit", datagram="500B")}, link):
        row = rows.loc["u"]
        # 15000 datagrams: a standard deviation of 0.14 % of the loss, 0.02 ms of the mean delay.
        assert row["datagram_loss"] == pytest.approx(0.03, abs=0.006)
        assert row["delay_mean_ms"] == pytest.approx(25, abs=0.1)
        assert row["delay_p95_ms"] == pytest.approx(25 + 0.9 * 4, abs=0.2)
        # Two values that are uniform over 8 ms differ by a third of it.
        assert row["jitter_ms"] == pytest.approx(8 / 3, abs=0.1)
        assert row["datagrams_reordered"] > 1000


def test_requests_take_what_they_take_in_the_simulator(tmp_path: Path) -> None:
    def asking(transport: str, start: str) -> dict[str, Any]:
        app = {"kind": "requests", "request": "300B", "response": "8KB", "pause": "30ms"}
        return {"client": "c", "server": "s", "transport": transport, "app": app, "start": start}

    flows = {"tcp": asking("tcp", "0s"), "mptcp": asking("mptcp", "1ms")}
    sim, linux = both(tmp_path, flows, {"both": {"rate": "20mbit", "queue": "100packets", "delay": "10ms"}})
    for flow in flows:
        # 33 ms for the round trip with the response, 30 of pause: some sixty in four seconds.
        assert sim.loc[flow, "responses"] == pytest.approx(62, abs=2)
        assert linux.loc[flow, "responses"] == pytest.approx(sim.loc[flow, "responses"], abs=1)
        assert linux.loc[flow, "response_p50_ms"] == pytest.approx(sim.loc[flow, "response_p50_ms"], rel=0.02)
