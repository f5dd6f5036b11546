"""Fair shares of small networks that can be worked out by hand, and harm."""

import math

import numpy as np
import pandas as pd
import pytest
from analysis_data import delay, flow, link, rate

from polypath.analysis import _network, fair_shares, with_fairness
from polypath.report import _fairness
from polypath.study import Study, runs

TCP, MPTCP = 1448 / 1514, 1424 / 1514
"""Payload of a full frame, with MPTCP version 1."""


def scenario(links, flows):
    nodes = dict.fromkeys(end[side]["node"] for end in links for side in "ab")
    return {
        "seed": 1,
        "duration_ns": 20_000_000_000,
        "nodes": [{"name": name, "router": name.startswith("r")} for name in nodes],
        "links": links,
        "flows": flows,
    }


def tcp(name, client, server):
    return flow(name, client=client, server=server, transport="tcp", mptcp={"path_manager": {"kind": "fullmesh"}})


def mptcp(name, client, server):
    return flow(name, client=client, server=server, mptcp={"path_manager": {"kind": "fullmesh"}})


def shares(links, flows):
    return dict(fair_shares(scenario(links, flows)).itertuples(index=False, name=None))


def wire(name, a, b, number, mbps):
    elements = [delay(1_000_000)] if mbps is None else [delay(1_000_000), rate(mbps * 1_000_000)]
    return link(name, (a, f"10.0.{number}.1"), (b, f"10.0.{number}.2"), elements)


def test_runs_that_differ_in_seed_algorithm_and_start_have_one_network_unless_something_changes_over_time():
    def network(*more, start=0, **fields):
        links = [link("l", ("a", "10.0.1.1"), ("s", "10.0.1.2"), [rate(10_000_000), *more])]
        return _network.network_of({**scenario(links, [{**tcp("t", "a", "s"), "start_ns": start, **fields}]), "seed": start})

    assert network() == network(start=7, cc="bbr")
    assert network() != network(delay(1_000_000)) and network() != network(client_address="10.0.1.9")
    policer = {"kind": "policer", "bits_per_s": 8_000_000, "burst_bytes": 9_000, "framing_bytes": 14}
    assert network(policer) != network(policer, start=7)


def test_shares_of_one_link():
    links = [wire("x", "a", "r", 1, None), wire("y", "b", "r", 2, None), wire("last", "r", "s", 3, 30)]
    found = shares(links, [tcp("one", "a", "s"), tcp("two", "b", "s"), tcp("three", "b", "s")])
    assert found == pytest.approx(dict.fromkeys(("one", "two", "three"), 10 * TCP), rel=1e-6)
    found = shares([*links, wire("x2", "a", "r", 4, None)], [mptcp("m", "a", "s"), tcp("t", "b", "s")])
    # Equal goodputs; MPTCP's headers are longer, so its frames take a little more of the link.
    equal = 30 / (1 / TCP + 1 / MPTCP)
    assert found == pytest.approx({"m": equal, "t": equal}, rel=1e-6)
    constant = {"kind": "on_off", "on_ns": 1_000, "off_ns": 3_000, "duration_ns": 20_000_000_000, "bits_per_s": 8_000_000}
    found = shares(links, [{**tcp("one", "a", "s"), "app": constant}, tcp("two", "b", "s"), tcp("three", "b", "s")])
    rest = (30 * TCP - 2) / 2
    assert found == pytest.approx({"one": 2.0, "two": rest, "three": rest}, rel=1e-6)
    # One that wants more than its share has what the others have.
    eager = {**constant, "bits_per_s": 4 * 12_000_000}
    found = shares(links, [{**tcp("one", "a", "s"), "app": eager}, tcp("two", "b", "s"), tcp("three", "b", "s")])
    assert found == pytest.approx(dict.fromkeys(found, 10 * TCP), rel=1e-6)


def test_shares_of_several_links():
    links = [wire("own", "a", "s", 1, 20), wire("x", "a", "r", 2, None), wire("y", "b", "r", 3, None), wire("last", "r", "s", 4, 10)]
    found = shares(links, [mptcp("m", "a", "s"), tcp("t", "b", "s")])
    assert found == pytest.approx({"m": 20 * MPTCP, "t": 10 * TCP}, rel=1e-6)
    # Two flows over the wide link, one of them through the narrow one as well.
    links = [wire("x", "a", "r", 1, 2), wire("y", "b", "r", 2, None), wire("last", "r", "s", 3, 10)]
    assert shares(links, [tcp("a", "a", "s"), tcp("b", "b", "s")]) == pytest.approx({"a": 2 * TCP, "b": 8 * TCP}, rel=1e-6)
    links = [wire("x", "a", "s", 1, None), wire("y", "b", "s", 2, 10)]
    found = shares(links, [tcp("a", "a", "s"), tcp("b", "b", "s")])
    assert found["a"] == math.inf
    assert found["b"] == pytest.approx(10 * TCP, rel=1e-6)


def row(key, name, group, goodput, srtt=20.0, seed=1, **more):
    return {
        "key": key, "flow": name, "group": group, "seed": seed, "cc": "lia", "flow_cc": "lia", "experiment": "main",
        "goodput_receiver_mbps": goodput, "srtt_ms": srtt, "completion_s": np.nan, "jain": 0.9, **more,
    }  # fmt: skip


SHARED = scenario(
    [wire("x", "a", "r", 1, None), wire("y", "b", "r", 3, None), wire("last", "r", "s", 4, 20)], [tcp("m", "a", "s"), tcp("t", "b", "s")]
)
BY = ["experiment", "seed", "cc"]


def test_shares_ratios_and_harm_of_each_run():
    together = pd.DataFrame(
        [
            row("1", "m", "m", 15 * TCP, 40.0),
            row("1", "t", "t", 5 * TCP, 40.0),
            row("2", "m", "m", 10 * TCP, 40.0, 2),
            row("2", "t", "t", 8 * TCP, 50.0, 2),
        ]
    )
    alone = pd.DataFrame([{**row("3", "t", "t", 20 * TCP, 20.0, seed), "baseline_of": "t"} for seed in (1, 2)])
    single = pd.DataFrame([{**row(str(n), "m", "m", mbps * TCP), "baseline_of": "m"} for n, mbps in ((4, 10), (5, 12))])
    made = with_fairness(together, alone, single, {"1": SHARED, "2": SHARED}, BY)
    assert list(made["of_fair"]) == pytest.approx([1.5, 0.5, 1.0, 0.8], rel=1e-6)
    assert list(made["over_others"]) == pytest.approx([3.0, 1 / 3, 1.25, 0.8])
    assert made["gain"].iloc[0] == pytest.approx(15 / 12)
    assert made["harm_goodput"].iloc[[1, 3]].tolist() == pytest.approx([0.75, 0.6])
    assert made["harm_latency"].iloc[[1, 3]].tolist() == pytest.approx([0.5, 0.6])
    # m never ran alone, and nobody had the second seed's paths for himself.
    assert made["harm_goodput"].iloc[[0, 2]].isna().all()
    assert math.isnan(made["gain"].iloc[2])


def test_copies_of_a_flow_are_judged_against_the_other_groups():
    table = pd.DataFrame([row("1", "m-1", "m", 6.0), row("1", "m-2", "m", 4.0), row("1", "t", "t", 2.0)])
    made = with_fairness(table, pd.DataFrame(), pd.DataFrame(), {"1": SHARED}, BY)
    assert list(made["over_others"]) == pytest.approx([3.0, 2.0, 0.4])
    only = with_fairness(table.iloc[:2], pd.DataFrame(), pd.DataFrame(), {"1": SHARED}, BY)
    assert only["over_others"].isna().all()


STUDY = {
    "name": "shared",
    "topology": {
        "nodes": {"a": {}, "b": {}, "r": {"router": True}, "s": {}},
        "links": {
            "x": {"ends": ["a", "r"], "both": {"delay": "1ms"}},
            "x2": {"ends": ["a", "r"], "both": {"delay": "1ms"}},
            "y": {"ends": ["b", "r"], "both": {"delay": "1ms"}},
            "last": {"ends": ["r", "s"], "both": {"rate": "20mbit", "delay": "5ms"}},
        },
    },
    "flows": {
        "m": {"client": "a", "server": "s", "cc": "${cc}"},
        "t": {"client": "b", "server": "s", "transport": "tcp", "cc": "reno", "count": 2},
    },
    "duration": "2s",
    "matrix": {"cc": ["lia", "reno"]},
}


def planned(**baselines):
    return list(runs(Study.model_validate({**STUDY, "baselines": baselines}), engine="fake", version="1"))


def test_each_flow_runs_alone_where_the_study_asks_for_it():
    alone = [run for run in planned(alone=True) if run.baseline and run.baseline.alone]
    assert [(run.baseline.of, [flow["name"] for flow in run.scenario["flows"]]) for run in alone] == [("m", ["m"]), ("t", ["t"])] * 2
    assert alone[0].scenario["flows"][0]["transport"] == "mptcp"
    # What m uses does not matter to t alone: one run for both cells.
    assert alone[1].key == alone[3].key
    assert alone[0].key != alone[2].key
    assert not [run for run in planned() if run.baseline and run.baseline.alone]
    study = {**STUDY, "flows": {"m": STUDY["flows"]["m"]}, "baselines": {"alone": True}}
    made = runs(Study.model_validate(study), engine="fake", version="1")
    assert not [run for run in made if run.baseline and run.baseline.alone]


def test_the_pages_part_has_a_row_a_group_and_a_matrix_of_pairs():
    table = []
    for number, (own, other) in enumerate((a, b) for a in ("reno", "cubic") for b in ("reno", "cubic")):
        for seed in (1, 2):
            more = {"own": own, "other": other, "fair_mbps": 10.0, "over_others": 1.0, "gain": math.nan, "harm_completion": math.nan}
            for group, cc, harm in (("m", own, 0.25), ("t", other, 0.5)):
                key = f"{number}.{seed}"
                of = 0.9 + 0.1 * seed
                table.append(
                    {
                        **row(key, group, group, 9.0, seed=seed),
                        **more,
                        "flow_cc": cc,
                        "of_fair": of,
                        "harm_goodput": harm,
                        "harm_latency": 0.1,
                    }
                )
    view = _fairness.view("main", pd.DataFrame(table), ["own", "other"], alone=True)
    assert view is not None
    assert [line[0].text for line in view.table.rows][:2] == ["reno · reno · m", "reno · reno · t"]
    titles = [column.title for column in view.table.columns]
    assert titles[-2:] == ["Harm: goodput", "Harm: round-trip time"]
    assert view.table.rows[0][titles.index("Of it")].text.startswith("105.0 % ±")
    assert [figure.name for figure in view.figures] == [
        "fairness-main", "harm-goodput-main-m", "harm-latency-main-m", "harm-goodput-main-t", "harm-latency-main-t",
    ]  # fmt: skip
    assert ">50<" in view.figures[3].svg
    alone = pd.DataFrame([each for each in table if each["group"] == "m"])
    assert _fairness.view("main", alone, ["own", "other"], alone=True) is None
