"""Each kind of check, holding, failing and unmeasured."""

from types import SimpleNamespace

import pandas as pd
import pytest

from polypath.analysis import Evidence, Verdict, evaluate, select

GOODPUT = "goodput_receiver_mbps"


def claim(check, **more):
    base = {"id": "x", "sentence": "s", "source": None, "metric": GOODPUT, "where": {}, "table": "runs"}
    return SimpleNamespace(**(base | more), check=SimpleNamespace(**({"spread": None} | check)))


def evidence(values, **more):
    rows = [{"experiment": "v0", "cc": cc, "seed": seed, GOODPUT: value} for cc, each in values.items() for seed, value in enumerate(each)]
    return Evidence(**({"runs": pd.DataFrame(rows), "series": pd.DataFrame(), "parameters": ["experiment", "cc"]} | more))


def decide(check, values, **more):
    return evaluate([claim(check, **more)], evidence(values))[0]


ORDER = {"kind": "order", "by": "cc", "of": ("cubic", "lia", "wvegas"), "apart": 0.01}


def test_order_holds_when_each_is_clearly_higher_than_the_next():
    got = decide(ORDER, {"wvegas": [6.0], "lia": [9.0], "cubic": [9.9]})
    assert got.verdict is Verdict.HOLDS
    assert list(got.numbers["cc"]) == ["cubic", "lia", "wvegas"]
    got = decide(ORDER, {"wvegas": [6.0], "lia": [9.0], "cubic": [9.05]})
    assert got.verdict is Verdict.FAILS
    assert "cubic 9.050 ≈ lia 9.000" in got.why
    noisy = {"wvegas": [6.0, 6.0, 6.0], "lia": [8.0, 9.0, 10.0], "cubic": [8.6, 9.6, 10.6]}
    got = decide(ORDER, noisy)
    assert got.verdict is Verdict.FAILS
    assert "cubic 9.600 ≈ lia 9.000" in got.why
    got = decide(ORDER, {"lia": [9.0], "cubic": [9.9]})
    assert got.verdict is Verdict.NOT_MEASURED
    assert "wvegas" in got.why


def test_above_and_below_compare_with_selections_and_numbers():
    check = {"kind": "above", "left": {"cc": "cubic"}, "right": ({"cc": "lia"}, {"cc": "wvegas"}), "factor": 1.0, "apart": 0.0}
    assert decide(check, {"cubic": [9.0], "lia": [8.0], "wvegas": [7.0]}).verdict is Verdict.HOLDS
    got = decide(check, {"cubic": [9.0], "lia": [9.5], "wvegas": [7.0]})
    assert got.verdict is Verdict.FAILS
    assert "cubic 9.000 < lia 9.500" in got.why
    check = {"kind": "below", "left": {"cc": "wvegas"}, "right": {"cc": "lia"}, "factor": 0.9, "apart": 0.0}
    assert decide(check, {"wvegas": [6.0], "lia": [9.0]}).verdict is Verdict.HOLDS
    assert decide(check, {"wvegas": [8.5], "lia": [9.0]}).verdict is Verdict.FAILS
    number = {"kind": "below", "left": {"cc": "wvegas"}, "right": 6.0, "factor": 1.0, "apart": 0.0}
    assert decide(number, {"wvegas": [5.0]}).verdict is Verdict.HOLDS
    assert decide(number, {"lia": [5.0]}).verdict is Verdict.NOT_MEASURED


def test_within_compares_with_the_published_column_and_its_metric():
    published = pd.DataFrame({"cc": ["lia", "cubic"], "table": [10.0, 8.0]})
    check = claim({"kind": "within", "of": 0.1, "published": "table"})
    tables = {"published": published, "keys": ["cc"], "compare": {"table": GOODPUT}}
    assert evaluate([check], evidence({"lia": [9.5], "cubic": [8.1]}, **tables))[0].verdict is Verdict.HOLDS
    far = evaluate([check], evidence({"lia": [9.5], "cubic": [9.0]}, **tables))[0]
    assert far.verdict is Verdict.FAILS
    assert "cubic 9.00 against 8.00 (+12.5 %)" in far.why
    assert evaluate([check], evidence({"lia": [9.5]}, **tables))[0].verdict is Verdict.NOT_MEASURED
    assert evaluate([check], evidence({"lia": [9.5]}))[0].verdict is Verdict.NOT_MEASURED


SPREAD = pd.DataFrame({"experiment": ["a", "b"], "cc": ["lia", None], "table": [10.0, 8.0], "spread": [0.1, 2.0]})


def within_spread(values, **more):
    rows = [{"experiment": experiment, "cc": "lia", GOODPUT: value} for experiment, value in values]
    tables = {"published": SPREAD, "keys": ["experiment", "cc"], "compare": {"table": GOODPUT}, "runs": pd.DataFrame(rows)}
    check = {"kind": "within", "of": 0.03, "published": "table", "spread": "spread"}
    return evaluate([claim(check, **more)], Evidence(series=pd.DataFrame(), **tables))[0]


def test_within_allows_the_spread_of_published_repetitions_too():
    # b: 1.9 away is more than 3 % of 8, and less than the spread of 2; its empty cc matches any.
    assert within_spread([("a", 10.25), ("b", 9.9)]).verdict is Verdict.HOLDS
    far = within_spread([("a", 10.35), ("b", 10.2)])
    assert far.verdict is Verdict.FAILS
    assert far.why == "2 of 2 cells further away: a lia 10.35 against 10.00 (+3.5 %); b 10.20 against 8.00 (+27.5 %)"
    assert within_spread([("a", 10.25)]).verdict is Verdict.NOT_MEASURED
    assert within_spread([("a", 10.25)], where={"experiment": "a"}).verdict is Verdict.HOLDS


def test_between_names_the_cells_outside():
    check = {"kind": "between", "low": 9.0, "high": None}
    assert decide(check, {"lia": [9.1], "cubic": [9.2]}).verdict is Verdict.HOLDS
    got = decide(check, {"lia": [8.1], "cubic": [9.2]})
    assert got.verdict is Verdict.FAILS
    assert "1 of 2 cells outside: lia 8.100" in got.why
    assert decide(check, {"lia": [9.1]}, where={"experiment": "v9"}).verdict is Verdict.NOT_MEASURED
    assert decide(check, {"lia": [9.1]}).why == "1 cell, 9.100 to 9.100"
    got = decide(check, {f"cc{number}": [number / 10] for number in range(10)})
    assert got.why.startswith("10 of 10 cells outside: cc0 0.000; ")
    assert got.why.endswith("cc5 0.500 and 4 more")


def test_varies_reads_the_series():
    check = claim({"kind": "varies", "series": "cwnd", "by": ("cc",), "more_than": 0.05})
    moving = pd.DataFrame({"cc": ["lia"] * 4, "cwnd": [10, 20, 10, 20]})
    still = pd.DataFrame({"cc": ["lia"] * 4, "cwnd": [10, 10, 10, 10]})
    runs = pd.DataFrame()
    assert evaluate([check], Evidence(runs=runs, series=moving))[0].verdict is Verdict.HOLDS
    assert evaluate([check], Evidence(runs=runs, series=still))[0].verdict is Verdict.FAILS
    assert evaluate([check], Evidence(runs=runs, series=pd.DataFrame()))[0].verdict is Verdict.NOT_MEASURED


DECIDES = {"kind": "decides", "by": "cc", "factor": 1.2, "pairs": 0.5}


def test_decides_wants_a_wide_spread_and_most_pairs_apart():
    wide = {"bbr": [9.0, 9.1], "cubic": [7.0, 7.1], "vegas": [3.0, 3.1]}
    got = decide(DECIDES, wide)
    assert got.verdict is Verdict.HOLDS
    assert got.why == "v0: bbr 9.050 > 1.2 × vegas = 3.660 (+147.27 %), 100 % of the pairs apart"
    # One algorithm far below, all others alike: the choice among them decides nothing.
    alike = {name: [9.0, 9.2] for name in ("bbr", "cubic", "reno")} | {"vegas": [3.0, 3.1]}
    assert decide(DECIDES | {"pairs": 0.6}, alike).verdict is Verdict.FAILS
    narrow = {"bbr": [9.0, 9.01], "cubic": [8.8, 8.81], "vegas": [8.6, 8.61]}
    assert decide(DECIDES, narrow).verdict is Verdict.FAILS
    rows = [
        {"experiment": x, "cc": cc, GOODPUT: v + seed / 10}
        for x, cc, v in (("a", "bbr", 9), ("a", "lia", 3), ("b", "bbr", 5), ("b", "lia", 5))
        for seed in (0, 1)
    ]
    got = evaluate([claim(DECIDES)], Evidence(runs=pd.DataFrame(rows), series=pd.DataFrame(), parameters=["experiment", "cc"]))[0]
    assert got.verdict is Verdict.FAILS
    assert got.why.startswith("b: ")
    assert decide(DECIDES, {"bbr": [9.0], "vegas": [3.0]}).verdict is Verdict.NOT_MEASURED


@pytest.mark.parametrize("wanted", ["2", 2, (2, 3)])
def test_selection_compares_as_text_so_numbers_and_words_meet(wanted):
    # Where another experiment lacks the parameter, its whole numbers are floats.
    for table in (pd.DataFrame({"n": [1, 2]}), pd.DataFrame({"n": [1, None, 2]})):
        assert list(select(table, {"n": wanted})["n"]) == [2]
    assert select(table, {"absent": 1}).empty


def test_a_claim_about_subflows_reads_their_table():
    rows = [
        {"experiment": "v0", "cc": cc, "seed": 0, "flow": "c", "subflow": number, "segment_usual_bytes": size}
        for cc, sizes in {"cubic": (8928, 1428), "lia": (8928, 8928)}.items()
        for number, size in enumerate(sizes)
    ]
    asked = claim({"kind": "between", "low": 1428, "high": 1428}, metric="segment_usual_bytes", table="subflows", where={"subflow": 1})
    evaluated = evidence({"cubic": [9.0], "lia": [9.0]}, subflows=pd.DataFrame(rows))
    (got,) = evaluate([asked], evaluated)
    assert got.verdict is Verdict.FAILS
    assert got.why == "1 of 2 cells outside: lia 8928.000"
    # The table of runs has no such column, and a claim about runs does not look elsewhere.
    asked = claim({"kind": "between", "low": 1428, "high": 1428}, metric="segment_usual_bytes")
    assert evaluate([asked], evaluated)[0].verdict is Verdict.NOT_MEASURED


def test_published_numbers_of_subflows_stand_beside_subflows():
    runs = pd.DataFrame([{"experiment": "mixed", GOODPUT: 90.0}])
    subflows = pd.DataFrame([{"experiment": "mixed", "subflow": number, "size": size} for number, size in enumerate((8900.0, 1400.0))])
    said = [
        {"experiment": "mixed", "subflow": None, "mbps": 100.0, "bytes": None},
        {"experiment": "mixed", "subflow": 0, "mbps": None, "bytes": 8928.0},
        {"experiment": "mixed", "subflow": 1, "mbps": None, "bytes": 1428.0},
    ]
    both = Evidence(
        runs=runs,
        series=pd.DataFrame(),
        subflows=subflows,
        published=pd.DataFrame(said),
        keys=("experiment", "subflow"),
        compare={"mbps": GOODPUT, "bytes": "size"},
        parameters=["experiment"],
    )
    check = {"kind": "within", "of": 0.05, "published": "bytes"}
    (got,) = evaluate([claim(check, metric="size", table="subflows")], both)
    assert (got.verdict, list(got.numbers["measured"])) == (Verdict.HOLDS, [8900.0, 1400.0])
    (got,) = evaluate([claim({**check, "published": "mbps"})], both)
    assert (got.verdict, list(got.numbers["measured"])) == (Verdict.FAILS, [90.0])
