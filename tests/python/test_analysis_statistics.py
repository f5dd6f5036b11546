"""Means, intervals, fairness and published values, against numbers computed by hand."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polypath.analysis import beside, gains, groups, half_width, jain, summarise


def test_jain_of_equal_shares_is_one_and_of_one_winner_one_over_n():
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain([5.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert math.isnan(jain([0.0, 0.0]))


@given(st.lists(st.floats(min_value=0.01, max_value=1e6), min_size=1, max_size=50))
def test_jain_stays_between_one_over_n_and_one(values):
    assert 1 / len(values) - 1e-9 <= jain(values) <= 1 + 1e-9


def test_intervals_and_summaries_leave_missing_values_out():
    # Mean 10, standard deviation 1, t(0.975, 2) = 4.302653.
    assert half_width([9.0, 10.0, 11.0]) == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert math.isnan(half_width([9.0]))
    assert half_width([5.0, 5.0]) == 0.0
    table = pd.DataFrame({"cc": ["olia", "lia", "olia"], "m": [1.0, 5.0, None]})
    got = summarise(table, ["cc"], ["m", "absent"])
    assert list(got["cc"]) == ["olia", "lia"]
    assert list(got["m"]) == [1.0, 5.0]
    assert list(got["n"]) == [2, 1]
    assert got["absent"].isna().all()
    table = pd.DataFrame({"cc": ["olia", None, "lia", "olia", None], "k": [2, 1, 2, 2, 1], "x": [1.0, 2.0, 3.0, 4.0, 5.0]})
    found = groups(table, ["cc", "k"])
    assert [(str(cc), k, places.tolist()) for (cc, k), places in found] == [("olia", 2, [0, 3]), ("nan", 1, [1, 4]), ("lia", 2, [2])]
    assert groups(table.iloc[:0], ["cc"]) == []
    made = summarise(table, ["cc", "k"], ["x", "not_there"])
    assert made["n"].tolist() == [2, 2, 1]
    assert made["x"].tolist() == [2.5, 3.5, 3.0]
    assert made["not_there"].isna().all()


def test_published_values_stand_beside_the_mean_with_their_deviation():
    measured = pd.DataFrame({"cc": ["lia", "lia", "olia"], "goodput": [9.0, 11.0, 8.0]})
    published = pd.DataFrame({"cc": ["lia", "olia", "cubic"], "table": [8.0, 10.0, 9.9], "text": [None, 16.0, None]})
    got = beside(measured, published, ["cc"], {"table": "goodput", "text": "goodput"})
    assert list(zip(got["cc"], got["column"], strict=True)) == [("lia", "table"), ("olia", "table"), ("olia", "text"), ("cubic", "table")]
    assert list(got["deviation"])[:3] == pytest.approx([0.25, -0.2, -0.5])
    assert math.isnan(got["measured"].iloc[3])
    assert got["n"].iloc[3] == 0


@pytest.mark.parametrize(("measured", "said"), [("1e-2", "1e-2"), (0.01, "1e-2"), ("6.10", "6.10"), (1, "1.0"), ("1", 1.0)])
def test_a_published_key_means_what_stands_in_the_study_file(measured, said):
    runs = pd.DataFrame({"loss": [measured, "6.1"], "goodput": [9.0, 1.0]}, dtype=object)
    (got,) = beside(runs, pd.DataFrame({"loss": [said], "table": [9.0]}), ["loss"], {"table": "goodput"})["measured"]
    assert got == 9.0


def test_gain_is_over_the_best_single_path():
    runs = pd.DataFrame({"cc": ["lia"], "flow": ["c"], "goodput_receiver_mbps": [12.0]})
    single = pd.DataFrame(
        {
            "cc": ["lia", "lia"],
            "baseline_of": ["c", "c"],
            "client_address": ["10.0.0.1", "192.168.0.1"],
            "server_address": ["10.0.1.2"] * 2,
            "goodput_receiver_mbps": [8.0, 6.0],
        }
    )
    got = gains(runs, single, ["cc"]).iloc[0]
    assert (got["best_single"], got["sum_single"], got["gain"]) == (8.0, 14.0, 1.5)
    assert math.isnan(gains(runs, single.iloc[0:0], ["cc"])["gain"].iloc[0])
