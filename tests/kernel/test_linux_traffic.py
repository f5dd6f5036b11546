"""Datagrams and requests on a real kernel: what the simulator says of them, a kernel says too."""

import pandas as pd
import pytest
from over_router import one_flow, over_router

from polypath import Study, run

pytestmark = pytest.mark.usefixtures("linux_kernel")

WIDE = {"both": {"delay": "5ms"}}


def both(tmp_path, flows, bottleneck, **more):
    """The rows of the flows on sim and on linux."""
    study = over_router("traffic", {"wide": WIDE, "narrow": bottleneck}, flows, duration="4s", baselines=None, **more)
    sim, linux = (run(study, engine=engine, out=tmp_path / engine).runs.set_index("flow") for engine in ("sim", "linux"))
    return sim, linux


def stream(rate, **more):
    return one_flow("udp", **{"app": {"kind": "constant", "rate": rate, "duration": "3s"}, **more})


DATAGRAMS = ["datagrams_sent", "datagrams_received", "datagrams_reordered", "datagram_loss", "jitter_ms"]
DELAYS = [f"delay_{part}_ms" for part in ("mean", "p50", "p95", "p99", "max")]


def test_streams_that_share_a_queue_fare_to_the_datagram_as_in_the_simulator(tmp_path):
    burst = {"kind": "on_off", "on": "200ms", "off": "300ms", "rate": "9mbit", "duration": "2500ms"}
    flows = {"steady": stream("4mbit", datagram="700B"), "bursts": stream("1mbit", start="603ms", app=burst)}
    link = {"forward": {"rate": "10mbit", "queue": "30packets", "delay": "7ms"}, "backward": {"delay": "7ms"}}
    sim, linux = both(tmp_path, flows, link, measure={"window": ["500ms", "3s"]})
    assert (sim["datagram_loss"] > 0).all(), "the bursts overflow the queue"
    for flow in flows:
        assert linux.loc[flow, DATAGRAMS[:3]].tolist() == sim.loc[flow, DATAGRAMS[:3]].tolist()
        assert linux.loc[flow, DATAGRAMS[3:]].tolist() == pytest.approx(sim.loc[flow, DATAGRAMS[3:]].tolist(), rel=0.01)
        # Which of two datagrams of one instant is first may differ: 1.2 ms at most.
        assert linux.loc[flow, DELAYS[:3]].tolist() == pytest.approx(sim.loc[flow, DELAYS[:3]].tolist(), abs=0.2)
        assert linux.loc[flow, DELAYS[3:]].tolist() == pytest.approx(sim.loc[flow, DELAYS[3:]].tolist(), abs=1.2)
        assert linux.loc[flow, "goodput_receiver_mbps"] == pytest.approx(sim.loc[flow, "goodput_receiver_mbps"], rel=0.01)


def test_random_loss_and_jitter_of_datagrams_are_those_of_the_link(tmp_path):
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


def test_requests_take_what_they_take_in_the_simulator(tmp_path):
    def asking(transport, start):
        app = {"kind": "requests", "request": "300B", "response": "8KB", "pause": "30ms"}
        return {"client": "c", "server": "s", "transport": transport, "app": app, "start": start}

    flows = {"tcp": asking("tcp", "0s"), "mptcp": asking("mptcp", "1ms")}
    sim, linux = both(tmp_path, flows, {"both": {"rate": "20mbit", "queue": "100packets", "delay": "10ms"}})
    for flow in flows:
        # 33 ms for the round trip with the response, 30 of pause: some sixty in four seconds.
        assert sim.loc[flow, "responses"] == pytest.approx(62, abs=2)
        assert linux.loc[flow, "responses"] == pytest.approx(sim.loc[flow, "responses"], abs=1)
        assert linux.loc[flow, "response_p50_ms"] == pytest.approx(sim.loc[flow, "response_p50_ms"], rel=0.02)


def test_responses_are_sent_with_the_algorithm_that_the_flow_asks_for(tmp_path):
    """Of what a server sends on a lossy path, bbr makes much more than reno."""
    app = {"kind": "requests", "request": "200B", "response": "500KB"}
    flows, matrix = {"f": one_flow(app=app, cc="${cc}")}, {"cc": ["reno@linux", "bbr@linux"]}
    link = {"forward": {"rate": "10mbit", "delay": "10ms"}, "backward": {"rate": "40mbit", "delay": "10ms", "loss": "1%"}}
    study = over_router("answers", {"wide": WIDE, "narrow": link}, flows, matrix=matrix, duration="8s", baselines=None)
    runs = run(study, engine="linux", out=tmp_path).runs.set_index("cc")
    assert runs.loc["bbr@linux", "responses"] > 2 * runs.loc["reno@linux", "responses"]


# To the client four times as fast as from it, on both paths.
ASYMMETRIC = {
    "nodes": {"c": None, "r": {"router": True}, "s": None},
    "links": {
        "dsl": {
            "ends": ["c", "r"],
            "forward": {"rate": "5mbit", "queue": "40packets", "delay": "5ms"},
            "backward": {"rate": "20mbit", "queue": "60packets", "delay": "5ms"},
        },
        "lte": {
            "ends": ["c", "r"],
            "forward": {"rate": "4mbit", "queue": "60packets", "delay": "20ms"},
            "backward": {"rate": "16mbit", "queue": "100packets", "delay": "20ms"},
        },
        "last": {"ends": ["r", "s"], "both": {"delay": "1ms"}},
    },
}


def downloading(**flow):
    base = {"client": "c", "server": "s", "direction": "download", "cc": "${cc}"}
    more = {"matrix": {"cc": ["reno", "lia"]}, "duration": "6s", "baselines": None}
    return Study.model_validate({"name": "down", "topology": ASYMMETRIC, "flows": {"f": {**base, **flow}}, **more})


@pytest.mark.parametrize(("transport", "possible", "to"), [("tcp", 20.0, ["10.0.1.1"]), ("mptcp", 36.0, ["10.0.1.1", "10.0.2.1"])])
def test_a_download_fares_as_in_the_simulator(tmp_path, transport, possible, to):
    sim, linux = (run(downloading(transport=transport), engine=engine, out=tmp_path / engine) for engine in ("sim", "linux"))
    for results in (sim, linux):
        assert (results.runs["goodput_receiver_mbps"] > 0.9 * possible * 1448 / 1514).all(), "at the rate towards the client"
        assert set(results.subflows["destination"].str.partition(":")[0]) == set(to)
    columns = ["acked_mbps", "mean_srtt_ms", "mean_cwnd", "min_rtt_ms"]
    ours, theirs = (results.subflows.sort_values(["cc", "subflow"])[columns].to_numpy() for results in (sim, linux))
    assert theirs == pytest.approx(ours, rel=0.03)


@pytest.mark.parametrize(("direction", "seconds"), [("download", 1.268), ("upload", 5.019)])
def test_a_transfer_is_counted_to_the_byte_and_takes_what_it_takes_in_the_simulator(tmp_path, direction, seconds):
    made = downloading(transport="tcp", direction=direction, app={"kind": "transfer", "size": "3MB"})
    sim, linux = (run(made, engine=engine, out=tmp_path / engine) for engine in ("sim", "linux"))
    assert linux.runs["bytes_received"].tolist() == [3_000_000] * 2
    assert linux.runs["completion_s"].tolist() == pytest.approx(sim.runs["completion_s"].tolist(), abs=1e-4)
    assert linux.runs["completion_s"].tolist() == pytest.approx([seconds] * 2, abs=1e-3)
    # Whole segments: the SYN is not among them.
    assert (linux.series["bytes_acked"] % 1448 == 0).all() and linux.series["bytes_acked"].max() > 2_000_000


def test_both_directions_have_subflows_of_their_own(tmp_path):
    studies = [downloading(transport="mptcp", direction="both") for _ in range(2)]
    first, second = (run(study, engine="linux", out=tmp_path / str(number)) for number, study in enumerate(studies))
    up, down = (first.subflows[first.subflows["flow"] == flow] for flow in ("f-up", "f-down"))
    assert set(up["source"].str.partition(":")[0]) == set(down["destination"].str.partition(":")[0]) == {"10.0.1.1", "10.0.2.1"}
    assert (down["bytes_acked"] > 2 * up["bytes_acked"].to_numpy()).all()
    assert first.runs["goodput_receiver_mbps"].tolist() == second.runs["goodput_receiver_mbps"].tolist()
    pd.testing.assert_frame_equal(first.series, second.series)
