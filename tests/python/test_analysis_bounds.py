"""Bounds against numbers computed by hand from the frame format."""

import json
import math
import random

import pytest
from analysis_data import delay, flow, link, rate, three_nodes, two_paths
from scipy.optimize import linprog

from polypath.analysis import _bounds, flow_bounds, path_bounds, paths


def test_bounds_are_those_of_the_links_that_paths_share():
    bound = flow_bounds(three_nodes()).iloc[0]
    # 1500 IP = 20 IP + 20 TCP + 12 timestamps + 20 DSS + 1428; the frame is 1514.
    assert bound["bound_mbps"] == pytest.approx(10 * 1428 / 1514)
    assert bound["paths"] == 2
    table = path_bounds(three_nodes())
    assert list(table["source"]) == ["10.0.0.1", "192.168.0.1"]
    assert list(table["alone_mbps"]) == pytest.approx([10 * 1428 / 1514] * 2)
    assert set(table["bottleneck"]) == {"h2 → h3 (last)"}
    table = path_bounds(three_nodes(flows=[flow(transport="tcp")]))
    assert list(table["payload_bytes"]) == [1448]
    assert table["alone_mbps"].iloc[0] == pytest.approx(9.564, abs=1e-3)
    scenario = two_paths(first_mtu=9000)
    # A 64-bit DSN and a 32-bit DATA_ACK take 24 bytes in v1.
    expected = 100 * (9000 - 76) / 9014 + 20 * (1500 - 76) / 1514
    assert flow_bounds(scenario)["bound_mbps"].iloc[0] == pytest.approx(expected)
    scenario = three_nodes(flows=[flow("a", transport="tcp"), flow("b", transport="tcp", client_address="192.168.0.1")])
    table = flow_bounds(scenario)
    assert list(table["bound_mbps"]) == pytest.approx([10 * 1448 / 1514] * 2)
    assert list(table["bound_all_mbps"]) == pytest.approx([10 * 1448 / 1514] * 2)


@pytest.mark.parametrize(
    "model",
    [
        '"model": "bernoulli", "probability": 0.1',
        # A quarter of the time in the bad state.
        '"model": "gilbert_elliott", "good_to_bad": 0.1, "bad_to_good": 0.3, "loss_bad": 0.25, "loss_good": 0.05',
    ],
)
def test_loss_behind_a_transmitter_costs_and_loss_before_it_does_not(model):
    # Read as from the record of a run.
    lossy = json.loads(f'{{"kind": "loss", {model}}}')
    ends = (("h1", "10.0.0.1"), ("h3", "10.0.0.2"))
    hosts = [{"name": host, "kernel": "5.4-mptcp"} for host in ("h1", "h3")]
    before = three_nodes(nodes=hosts, links=[link("only", *ends, [lossy, rate(10_000_000)])])
    behind = three_nodes(nodes=hosts, links=[link("only", *ends, [rate(10_000_000), lossy])])
    whole = 10 * 1428 / 1514
    assert flow_bounds(before)["bound_mbps"].iloc[0] == pytest.approx(whole)
    assert flow_bounds(behind)["bound_mbps"].iloc[0] == pytest.approx(0.9 * whole)


def test_rates_that_change_or_are_none_have_a_mean_or_no_bound():
    changing = rate(10_000_000, changes=[{"at_ns": 15_000_000_000, "to": 50_000_000}])
    down = {"kind": "down", "spans_ns": [[0, 10_000_000_000]]}
    hosts = [{"name": host, "kernel": "5.4-mptcp"} for host in ("h1", "h3")]
    ends = (("h1", "10.0.0.1"), ("h3", "10.0.0.2"))
    # 15 s at 10 and 5 s at 50 are 20 on average.
    changed = three_nodes(nodes=hosts, links=[link("only", *ends, [changing])])
    halved = three_nodes(nodes=hosts, links=[link("only", *ends, [down, rate(10_000_000)])])
    assert flow_bounds(changed)["bound_mbps"].iloc[0] == pytest.approx(20 * 1428 / 1514)
    assert flow_bounds(halved)["bound_mbps"].iloc[0] == pytest.approx(5 * 1428 / 1514)
    scenario = three_nodes(nodes=[{"name": "h1"}, {"name": "h3"}], links=[link("only", *ends, [delay(1)])])
    assert math.isinf(flow_bounds(scenario)["bound_mbps"].iloc[0])
    ends = (("h1", "fd00::1"), ("h3", "fd00::2"))
    hosts = [{"name": "h1", "sysctl": {"net.ipv4.tcp_timestamps": 0}}, {"name": "h3"}]
    scenario = three_nodes(nodes=hosts, links=[link("only", *ends, [rate(10_000_000)])], flows=[flow(transport="tcp")])
    assert path_bounds(scenario)["payload_bytes"].iloc[0] == 1500 - 40 - 20


def test_paths_are_those_that_routers_and_managers_open():
    scenario = two_paths()
    scenario["links"].append(link("last2", ("r", "10.4.0.1"), ("h3", "10.4.0.2"), [rate(5_000_000)]))
    fixed = flow(transport="tcp", routes=[{"from": "10.1.0.1", "to": "10.3.0.2", "via": ["one", "last2"]}])
    scenario["flows"] = [fixed]
    assert [hop.link for hop in paths(scenario, fixed)[0].hops] == ["one", "last2"]
    scenario = three_nodes(nodes=[{"name": "h1"}, {"name": "h2"}, {"name": "h3"}])
    assert paths(scenario, scenario["flows"][0]) == []
    assert flow_bounds(scenario)["bound_mbps"].iloc[0] == 0.0
    several = flow(mptcp={"path_manager": {"kind": "ndiffports", "subflows": 4}})
    named = flow(mptcp={"path_manager": {"kind": "endpoints", "addresses": [{"address": "192.168.0.1"}]}})
    assert [path.source for path in paths(three_nodes(), several)] == ["10.0.0.1"]
    assert [path.source for path in paths(three_nodes(), named)] == ["10.0.0.1", "192.168.0.1"]


def test_paths_that_share_nothing_or_one_link_need_no_solver():
    chance = random.Random(1)
    for _ in range(60):
        paths = chance.randint(1, 4)
        alone = [tuple(chance.uniform(1, 1.1) * (path == own) for path in range(paths)) for own in range(paths)]
        common = [(chance.uniform(1, 1.1),) * paths for _ in range(chance.randint(0, 2))]
        matrix = (*alone, *common, *chance.sample(alone, 1))
        room = tuple(chance.uniform(1, 100) for _ in matrix)
        solved = linprog([-1.0] * paths, A_ub=matrix, b_ub=room, method="highs")
        assert _bounds._separate(matrix, room) == pytest.approx(-solved.fun, rel=1e-12)
    assert _bounds._separate(((1.0, 1.0, 0.0), (0.0, 1.0, 1.0)), (5.0, 5.0)) is None
