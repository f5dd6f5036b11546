"""What limited a flow follows from counters alone."""

import pandas as pd
import pytest

from polypath.analysis import limits, limits_of_cells


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


def test_resting_subflows_are_not_blamed_on_the_scheduler_when_the_application_rests():
    got = limits(run(app_limited_s=9.0), subflows({"busy_s": 1.0}, {"busy_s": 1.0})).iloc[0]
    assert got["limited_by"] == "application"
    assert got["scheduler_share"] == pytest.approx(0.0)


def test_flows_that_fill_the_links_together_are_limited_by_the_links():
    both = pd.concat([run(), run(flow="d", goodput_receiver_mbps=49.0)])
    own = pd.concat([subflows({"cwnd_limited_s": 9.0}), subflows({"cwnd_limited_s": 9.0}).assign(flow="d")])
    got = limits(both, own)
    assert list(got["limited_by"]) == ["links, shared"] * 2
    assert list(got["share_all"]) == pytest.approx([0.99, 0.99])


def test_a_cell_is_judged_by_the_means_of_its_runs():
    two = pd.concat([run(cc="lia"), run(cc="lia", key="k2")])
    own = pd.concat([subflows({"cwnd_limited_s": 9.0, "retransmissions": 4}), subflows({"cwnd_limited_s": 7.0}).assign(key="k2")])
    found = two.merge(limits(two, own), on=["key", "flow"]).assign(retransmissions=[4, 0], timeouts=0)
    cell = limits_of_cells(found, ["cc", "flow"]).iloc[0]
    assert cell["why"] == "the congestion window was full 80 % of the time (2 retransmissions)"


def test_what_an_engine_cannot_tell_explains_nothing():
    kernel = run(rwnd_limited_s=float("nan"), app_limited_s=float("nan"))
    got = limits(kernel, subflows({"cwnd_limited_s": 8.0}, {"cwnd_limited_s": 8.0, "timeouts": float("nan")})).assign(
        lifetime_s=10.0, cc="lia"
    )
    assert got["limited_by"].iloc[0] == "congestion window"
    counted = got.assign(retransmissions=2, timeouts=float("nan"))
    assert limits_of_cells(counted, ["cc"])["why"].iloc[0] == "the congestion window was full 80 % of the time (2 retransmissions)"


def test_cells_that_share_a_run_do_not_count_it_twice():
    both = pd.concat([run(goodput_receiver_mbps=50.0, kernel=kernel) for kernel in ("6.1", "6.12")])
    own = pd.concat([subflows({"cwnd_limited_s": 8.0, "retransmissions": 3})] * 2)
    got = limits(both, own)
    assert (len(got), got["share_all"].iloc[0], got["losses"].iloc[0]) == (1, 0.5, 3)
