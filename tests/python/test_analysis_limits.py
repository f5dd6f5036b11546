"""What limited a flow follows from counters alone."""

import pandas as pd
import pytest

from polypath import Study
from polypath import run as simulate
from polypath.analysis import limits, limits_of_cells
from polypath.report import material, with_limits


def run(**more):
    row = {"key": "k", "flow": "c", "goodput_receiver_mbps": 50.0, "bound_mbps": 100.0, "bound_all_mbps": 100.0, "lifetime_s": 10.0}
    return pd.DataFrame([row | {"app_limited_s": 0.0, "rwnd_limited_s": 0.0} | more])


def subflows(*rows):
    base = {"key": "k", "flow": "c", "busy_s": 10.0, "rwnd_limited_s": 0.0, "sndbuf_limited_s": 0.0, "cwnd_limited_s": 0.0}
    return pd.DataFrame([base | {"subflow": number, "retransmissions": 0, "timeouts": 0} | row for number, row in enumerate(rows)])


@pytest.mark.parametrize(
    ("flow", "own", "name", "words"),
    [
        ({"goodput_receiver_mbps": 99.0}, [{}], "links", "links themselves"),
        ({"app_limited_s": 6.0}, [{"busy_s": 4.0}], "application", "60 %"),
        ({"rwnd_limited_s": 7.0}, [{"cwnd_limited_s": 2.0}], "receive window", "70 %"),
        ({}, [{"rwnd_limited_s": 9.0}], "receive window", "90 %"),
        ({}, [{"sndbuf_limited_s": 5.0}], "send buffer", "50 %"),
        ({}, [{"cwnd_limited_s": 9.0, "retransmissions": 7, "timeouts": 2}], "congestion window", "7 retransmissions, 2 timeouts"),
        ({}, [{"cwnd_limited_s": 8.0}], "congestion window", "no losses"),
        ({}, [{}, {"busy_s": 0.0}], "scheduler", "50 %"),
        ({}, [{}], "not explained", "no counter"),
        ({"lifetime_s": 0.0, "goodput_receiver_mbps": 0.0}, [], "not connected", "never"),
    ],
)
def test_the_largest_counter_names_the_limit(flow, own, name, words):
    own_table = subflows(*own) if own else subflows({}).iloc[0:0]
    got = limits(run(**flow), own_table).iloc[0]
    assert got["limited_by"] == name
    assert words in got["why"]


def test_resting_subflows_and_those_that_never_came_up_do_not_count():
    got = limits(run(app_limited_s=9.0), subflows({"busy_s": 1.0}, {"busy_s": 1.0})).iloc[0]
    assert got["limited_by"] == "application"
    assert got["scheduler_share"] == pytest.approx(0.0)
    own = subflows({"cwnd_limited_s": 9.0}, {"busy_s": 0.0}, {"busy_s": 0.0}).assign(established_s=[0.1, float("nan"), float("nan")])
    got = limits(run(flow_transport="mptcp"), own).iloc[0]
    assert (got["limited_by"], got["scheduler_share"]) == ("congestion window", 0.0)


def test_cells_are_judged_by_the_means_of_their_runs_each_once():
    two = pd.concat([run(cc="lia"), run(cc="lia", key="k2")])
    own = pd.concat([subflows({"cwnd_limited_s": 9.0, "retransmissions": 4}), subflows({"cwnd_limited_s": 7.0}).assign(key="k2")])
    found = two.merge(limits(two, own), on=["key", "flow"]).assign(retransmissions=[4, 0], timeouts=0)
    cell = limits_of_cells(found, ["cc", "flow"]).iloc[0]
    assert cell["why"] == "the congestion window was full 80 % of the time (2 retransmissions)"
    both = pd.concat([run(goodput_receiver_mbps=50.0, kernel=kernel) for kernel in ("6.1", "6.12")])
    own = pd.concat([subflows({"cwnd_limited_s": 8.0, "retransmissions": 3})] * 2)
    got = limits(both, own)
    assert (len(got), got["share_all"].iloc[0], got["losses"].iloc[0]) == (1, 0.5, 3)
    kernel = run(rwnd_limited_s=float("nan"), app_limited_s=float("nan"))
    got = limits(kernel, subflows({"cwnd_limited_s": 8.0}, {"cwnd_limited_s": 8.0, "timeouts": float("nan")})).assign(
        lifetime_s=10.0, cc="lia"
    )
    assert got["limited_by"].iloc[0] == "congestion window"
    counted = got.assign(retransmissions=2, timeouts=float("nan"))
    assert limits_of_cells(counted, ["cc"])["why"].iloc[0] == "the congestion window was full 80 % of the time (2 retransmissions)"


def test_the_connections_counters_speak_for_mptcp():
    starved = [{"sndbuf_limited_s": 9.0}, {"sndbuf_limited_s": 9.0}]
    window = limits(run(flow_transport="mptcp", rwnd_limited_s=9.0, sndbuf_limited_s=0.5), subflows(*starved)).iloc[0]
    assert (window["limited_by"], window["send_buffer_share"]) == ("receive window", 0.05)
    buffer = limits(run(flow_transport="mptcp", rwnd_limited_s=0.5, sndbuf_limited_s=9.0), subflows(*starved)).iloc[0]
    assert (buffer["limited_by"], buffer["why"]) == ("send buffer", "the send buffer, 90 % of the time")
    kernel = run(flow_transport="mptcp", rwnd_limited_s=float("nan"), sndbuf_limited_s=float("nan"))
    unknown = limits(kernel, subflows(*starved)).iloc[0]
    assert unknown["limited_by"] == "not known"
    assert "does not tell apart" in unknown["why"]
    assert limits(run(flow_transport="tcp", sndbuf_limited_s=9.0), subflows(starved[0])).iloc[0]["limited_by"] == "send buffer"


def test_a_queue_that_is_seldom_empty_makes_it_the_links():
    full = subflows({"cwnd_limited_s": 9.9})
    kept = limits(run(queue_share=0.96), full)
    assert (kept["limited_by"].iloc[0], kept["why"].iloc[0]) == ("links", "the links: packets waited at the bottleneck 96 % of the time")
    two = pd.concat([run(queue_share=0.96), run(queue_share=0.96, flow="d", goodput_receiver_mbps=30.0)])
    assert list(limits(two, pd.concat([full, full.assign(flow="d")]))["limited_by"]) == ["links, shared"] * 2
    cell = run(queue_share=0.96).merge(kept, on=["key", "flow"]).assign(cc="lia", retransmissions=0, timeouts=0)
    assert limits_of_cells(cell, ["cc"])["limited_by"].iloc[0] == "links"
    full = subflows({"cwnd_limited_s": 9.9, "retransmissions": 3})
    mostly = limits(run(queue_share=0.8), full).iloc[0]
    assert (mostly["limited_by"], mostly["why"]) == ("links", "the links: packets waited at the bottleneck 80 % of the time")
    # A queue that is empty for longer leaves the window as what is too small.
    assert limits(run(queue_share=0.4), full)["limited_by"].iloc[0] == "congestion window"
    # Who rests, or whose peer has no room, is held by that.
    assert limits(run(queue_share=0.8, app_limited_s=9.95), full)["limited_by"].iloc[0] == "application"
    assert limits(run(queue_share=0.8, rwnd_limited_s=9.95), full)["limited_by"].iloc[0] == "receive window"
    two = pd.concat([run(queue_share=0.8), run(queue_share=0.8, flow="d", goodput_receiver_mbps=30.0)])
    shared = limits(two, pd.concat([full, full.assign(flow="d")])).iloc[0]
    assert (shared["limited_by"], shared["why"]) == (
        "links, shared",
        "the links, which the flows of the run share: packets waited at the bottleneck 80 % of the time",
    )
    both = pd.concat([run(), run(flow="d", goodput_receiver_mbps=49.0)])
    own = pd.concat([subflows({"cwnd_limited_s": 9.0}), subflows({"cwnd_limited_s": 9.0}).assign(flow="d")])
    got = limits(both, own)
    assert list(got["limited_by"]) == ["links, shared"] * 2
    assert list(got["share_all"]) == pytest.approx([0.99, 0.99])


def of_study(tmp_path, flow, **more):
    """The runs of a study with what limited each, by a matrix's values."""
    given = {"name": "limited", "flows": {"f": {"client": "c", "server": "s", **flow}}, "baselines": None, **more}
    made = simulate(Study.model_validate(given), out=tmp_path)
    return with_limits(material(made))


BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 ${rmem}", "net.ipv4.tcp_wmem": "4096 16384 ${wmem}"}


@pytest.mark.parametrize("transport", ["tcp", "mptcp"])
def test_buffers_of_two_gigabit_paths(transport, tmp_path):
    cable = {"ends": ["c", "s"], "both": {"rate": "1gbit", "delay": "40ms", "queue": "20000packets"}}
    topology = {"nodes": {"c": {"sysctl": BUFFERS}, "s": {"sysctl": BUFFERS}}, "links": {"a": cable, "b": cable}}
    matrix = {"rmem": [6_300_000, 250_000_000], "wmem": [3_000_000, 250_000_000]}
    found = of_study(tmp_path, {"transport": transport, "cc": "cubic"}, topology=topology, duration="6s", matrix=matrix)
    by = found.set_index(["rmem", "wmem"])["limited_by"].to_dict()
    assert by[6_300_000, 250_000_000] == "receive window"
    # An MPTCP's counters account for a fifth of the six seconds (docs/limitations.md).
    named = {"tcp": ["send buffer"], "mptcp": ["send buffer", "receive window"]}
    assert by[250_000_000, 3_000_000] in named[transport]
    assert by[250_000_000, 250_000_000] in ("links", "congestion window"), "the start is a good part of six seconds"
    assert found.set_index(["rmem", "wmem"])["share"].to_dict()[250_000_000, 250_000_000] > 0.8


def test_a_share_above_all_is_what_waited_out_of_order_when_the_window_began(tmp_path):
    direction = {"rate": "10mbit", "queue": "300packets"}
    links = {
        "dsl": {"ends": ["c", "s"], "both": {**direction, "delay": "10ms"}},
        "lte": {"ends": ["c", "s"], "both": {**direction, "delay": "30ms"}},
    }
    flow = {"client": "c", "server": "s", "cc": "reno"}
    more = {"duration": "10s", "measure": {"window": ["3500ms", "8s"], "series": "5ms"}, "baselines": None}
    study = Study.model_validate(
        {"name": "held", "topology": {"nodes": {"c": None, "s": None}, "links": links}, "flows": {"f": flow}, **more}
    )
    results = simulate(study, out=tmp_path)
    (row,) = with_limits(material(results)).to_dict("records")
    assert row["share"] > 1.002, "the connection still waits for what the overshoot cost when the window begins"
    progress = results.progress.assign(since=lambda each: each["time_s"] - row["established_s"])
    first, last = (progress.iloc[(progress["since"] - edge).abs().argmin()] for edge in (3.5, 8.0))
    held = float(first["out_of_order_bytes"] - last["out_of_order_bytes"])
    in_window = (float(last["received_bytes"] - first["received_bytes"]) - held) * 8 / 1e6
    assert held > 100_000
    assert in_window <= row["bound_mbps"] * (last["since"] - first["since"]) * 1.0005


def test_a_queue_that_cubic_never_lets_run_empty(tmp_path):
    link = {"ends": ["c", "s"], "both": {"rate": "10mbit", "delay": "10ms", "queue": "500packets"}}
    given = {"topology": {"nodes": {"c": None, "s": None}, "links": {"l": link}}, "duration": "10s"}
    (row,) = of_study(tmp_path, {"transport": "tcp", "cc": "cubic"}, **given, measure={"window": ["0s", "2s"]}).to_dict("records")
    assert row["queue_share"] > 0.95
    assert row["limited_by"] == "links"
    # One packet at a time never waits, whatever the counters say.
    slow = {"transport": "tcp", "cc": "cubic", "app": {"kind": "on_off", "on": "10s", "off": "1s", "rate": "1mbit"}}
    (row,) = of_study(tmp_path / "slow", slow, **given).to_dict("records")
    assert (row["limited_by"], row["queue_share"]) == ("application", 0.0)


def test_what_a_rate_holds_in_any_case_does_not_wait(tmp_path):
    # 25 packets of 1514 bytes are on the wire at 10 Mbit/s and 30 ms, however slow the application.
    rate = [{"kind": "rate", "rate": "10mbit", "hold": "30ms", "queue": "300packets"}]
    topology = {"nodes": {"c": None, "s": None}, "links": {"l": {"ends": ["c", "s"], "forward": rate, "backward": {"delay": "1ms"}}}}
    app = {"kind": "on_off", "on": "10s", "off": "1s", "rate": "${rate}"}
    flow = {"transport": "tcp", "cc": "cubic", "app": app}
    found = of_study(tmp_path, flow, topology=topology, duration="10s", matrix={"rate": ["8mbit", "40mbit"]}).set_index("rate")
    assert found.loc["8mbit", "limited_by"] == "application"
    assert found.loc["8mbit", "queue_share"] < 0.1
    assert found.loc["40mbit", "queue_share"] > 0.9
