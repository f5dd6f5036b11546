"""Comparing engines and kernels."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fake_engine import FakeEngine
from report_data import PlausibleEngine

from polypath.analysis import PLATFORM, area_between, compare, half_width, platform_names, platforms_in_order
from polypath.engines import ENGINES, EngineError, Output, find
from polypath.report import comparison, comparison_sentences, material, mean_and_interval, page, render, write_report
from polypath.report._compare import _curves
from polypath.results import execute, plan
from polypath.study import Study


def curve(*points):
    times, values = zip(*points, strict=True)
    return np.array(times, dtype=float), np.array(values, dtype=float)


def test_the_area_between_two_curves():
    # 10 and 20 for one second: between them 10, their mean 15.
    left = curve(*((tick / 10, 10) for tick in range(11)))
    right = curve(*((tick / 10, 20) for tick in range(11)))
    assert area_between(left, right, 0.0, 1.0) == pytest.approx((10.0, 15.0))
    assert area_between(left, left, 0.0, 1.0) == pytest.approx((0.0, 10.0))
    # The sign of the difference does not matter, so curves that cross do not cancel.
    crossing = curve(*((tick / 10, 20 if tick < 5 else 0) for tick in range(11)))
    assert area_between(left, crossing, 0.0, 1.0) == pytest.approx((10.0, 10.0))
    # Every 0.5 s; the subflow is gone after 1 s, so that its window counts as 0 from 2 s on.
    left = curve((0.0, 10), (0.5, 10), (1.0, 10))
    right = curve(*((tick / 10, 10) for tick in range(41)))
    between, mean = area_between(left, right, 0.0, 4.0)
    assert between == pytest.approx(10 * 1.9, abs=1.01)
    assert mean == pytest.approx(40 - 5 * 1.9, abs=0.51)
    nothing = (np.zeros(0), np.zeros(0))
    assert area_between(nothing, right, 0.0, 1.0) == pytest.approx((10.0, 5.0))
    # Of one sample no interval is known: it speaks for a second.
    assert area_between(curve((0.0, 10)), nothing, 0.0, 4.0)[0] == pytest.approx(10, abs=1.01)


def test_the_reference_is_the_newest_real_kernel():
    assert platforms_in_order(["linux 6.12", "linux 6.1", "sim", "linux 6.12"]) == ["sim", "linux 6.1", "linux 6.12"]
    table = pd.DataFrame({"engine": ["sim", "linux"], "kernel": [None, "6.1"]})
    assert list(platform_names(table)) == ["sim", "linux 6.1"]
    # A kernel that the matrix varies does not make the simulator another.
    assert list(platform_names(table.assign(kernel="6.1"))) == ["sim", "linux 6.1"]


def run_rows(values, engine, **more):
    base = {"experiment": "main", "flow": "c", "engine": engine, "established_s": 0.0, "completion_s": None, "lifetime_s": 10.0}
    base |= {"share": 0.5, "share_all": 0.5, "timeouts": 0, "srtt_ms": 20.0, "retransmissions": 3, "trusted": True}
    base |= {f"{cause}_share": 0.0 for cause in ("application", "receive_window", "send_buffer", "not_known", "scheduler")}
    base |= {"congestion_window_share": 0.9, "flows": 1} | more
    return [
        {**base, "cc": cc, "seed": seed, "key": f"{engine}-{cc}-{seed}", "goodput_receiver_mbps": value}
        for cc, each in values.items()
        for seed, value in enumerate(each, start=1)
    ]


NO_SUBFLOWS = pd.DataFrame(columns=["key", "flow", "subflow", "source", "destination"])


def compared(ours, theirs, **more):
    runs = pd.DataFrame([*run_rows(ours, "sim", **more), *run_rows(theirs, "linux")])
    return compare(runs, NO_SUBFLOWS, pd.DataFrame(), {}, by=["experiment", "cc", "flow"])


def verdicts(made):
    own = made.rows[made.rows["platform"] == "sim"]
    return dict(zip(own["cc"], own["within_10_percent"], strict=True))


def test_a_row_is_within_10_percent_of_the_references_mean_or_it_is_not():
    theirs = {"reno": [100.0], "cubic": [100.0], "bbr": [80.0, 100.0, 120.0]}
    made = compared({"reno": [110.0], "cubic": [110.2], "bbr": [119.0] * 3}, theirs)
    assert verdicts(made) == {"reno": True, "cubic": False, "bbr": False}
    assert made.count("sim") == (1, 3)
    row = made.rows[(made.rows["cc"] == "bbr") & (made.rows["platform"] == "sim")].iloc[0]
    assert (row["value"], row["n"], row["deviation"]) == (119.0, 3, pytest.approx(0.19))
    made = compared({"reno": [0.0], "cubic": [1.0]}, {"reno": [0.0], "cubic": [0.0]})
    assert verdicts(made) == {"reno": True, "cubic": False}
    made = compared({"reno": [100.0]}, {"reno": [100.0, 200.0, 300.0]})
    assert verdicts(made) == {"reno": True}
    assert list(made.rows["value"]) == [100.0, 100.0]
    made = compared({"reno": [100.0]}, {"reno": [100.0], "bbr": [90.0]})
    assert verdicts(made) == {"reno": True, "bbr": None}
    assert comparison_sentences(made) == ["sim agrees with linux within 10 % in 1 of 1 rows; 1 of 2 rows were not run on sim"]
    own = [80.0, 100.0, 120.0]
    made = compared({"bbr": own}, {"bbr": own})
    assert list(made.rows["value_ci"]) == [pytest.approx(half_width(own))] * 2
    (row, _) = made.rows.to_dict("records")
    assert mean_and_interval(row) == f"100.00 ± {half_width(own):.2f}"


def test_one_sentence_says_both_rules():
    flat = [100.0 + 0.01 * number for number in range(8)]
    lower, much = ([share * value for value in flat] for share in (0.92, 1.3))
    theirs = dict.fromkeys(("lia", "dlia", "olia", "reno"), flat)
    assert comparison_sentences(compared({**theirs, "lia": lower, "dlia": lower}, theirs)) == [
        "sim agrees with linux within 10 % in 4 of 4 rows, yet over the same starts it is significantly lower for lia and dlia (8 %)"
    ]
    assert comparison_sentences(compared({**theirs, "lia": lower, "reno": much}, theirs)) == [
        "sim agrees with linux within 10 % in 3 of 4 rows (not for reno), yet over the same starts it is significantly lower for lia (8 %) "
        "and significantly higher for reno (30 %)"
    ]
    assert comparison_sentences(compared(theirs, theirs)) == ["sim agrees with linux within 10 % in 4 of 4 rows"]
    many = {f"a{number}": flat for number in range(20)}
    assert comparison_sentences(compared({**many, **{f"a{number}": lower for number in range(5)}}, many)) == [
        "sim agrees with linux within 10 % in 20 of 20 rows, yet over the same starts it is significantly lower for 5 rows (8 %); "
        "chance alone tells up to 2 of 20 rows apart"
    ]


def test_a_transfer_is_judged_by_its_time_and_one_that_never_ended_differs():
    def made(*rows):
        return compare(pd.DataFrame([*itertools.chain(*rows)]), NO_SUBFLOWS, pd.DataFrame(), {}, by=["experiment", "cc", "flow"])

    ended, never = {"reno": [9.0]}, {"cubic": [9.0] * 8}
    linux = run_rows({**ended, **never}, "linux", completion_s=5.0)
    found = made(run_rows(ended, "sim", completion_s=5.3), run_rows(never, "sim"), linux)
    assert verdicts(found) == {"reno": True, "cubic": False}
    assert set(found.rows["metric"]) == {"completion_s"}
    (distance,) = made(run_rows(never, "sim"), run_rows(never, "linux", completion_s=5.0)).distances("sim")
    assert (distance.n, distance.standing) == (0, "differs")


def test_subflows_are_matched_by_their_addresses_whatever_their_number_and_port():
    runs = pd.DataFrame([*run_rows({"lia": [9.0]}, "sim"), *run_rows({"lia": [9.0]}, "linux")])
    windows = {("sim-lia-1", "10.0.0.1:40000"): 10, ("sim-lia-1", "10.0.1.1:40001"): 20}
    windows |= {("linux-lia-1", "10.0.1.1:51000"): 20, ("linux-lia-1", "10.0.0.1:52000"): 30}
    subflows, series = [], []
    for number, ((key, source), cwnd) in enumerate(windows.items()):
        own = {"key": key, "flow": "c", "subflow": number % 2}
        subflows.append({**own, "source": source, "destination": "10.9.0.1:5001"})
        series += [{**own, "time_s": tick / 10, "cwnd": cwnd} for tick in range(101)]
    spans = {(key, "c"): (2.0, 10.0) for key in ("sim-lia-1", "linux-lia-1")}
    # Of the first seed no engine has a series: it counts for nothing, and the next one does.
    before = runs.assign(seed=0, key=runs["key"] + "-before")
    made = compare(pd.concat([before, runs]), pd.DataFrame(subflows), pd.DataFrame(series), spans, by=["experiment", "cc", "flow"])
    areas = dict(zip(made.windows["source"], made.windows["area"], strict=True))
    assert areas == {"10.0.1.1": pytest.approx(0.0), "10.0.0.1": pytest.approx(1.0)}
    # All subflows together: 20 between them, 20 and 20 their means.
    row = made.rows[made.rows["platform"] == "sim"].iloc[0]
    assert row["window_area"] == pytest.approx(20 / 40)


def test_a_later_start_can_count_as_a_repetition():
    rows = [{**row, "start": start} for start in ("0s", "1s") for row in run_rows({"lia": [9.0 + 4 * (start == "1s")]}, "linux")]
    rows += [{**row, "start": start} for start in ("0s", "1s") for row in run_rows({"lia": [12.9]}, "sim")]
    runs = pd.DataFrame(rows).assign(key=lambda table: table["key"] + table["start"])
    made = compare(runs, NO_SUBFLOWS, pd.DataFrame(), {}, by=["experiment", "cc", "flow"], repetitions=["start", "seed"])
    reference = made.rows[made.rows["platform"] == "linux"].iloc[0]
    assert (reference["n"], reference["value"]) == (2, 11.0)
    assert verdicts(made) == {"lia": False}


GOODPUTS = ("goodput_receiver_bps", "goodput_sender_bps")


class OtherEngine(PlausibleEngine):
    """A second engine with other figures: cubic a fifth lower, windows as they are."""

    name = "linux"
    summary = "made-up figures, for tests"

    def run(self, scenario):
        output = super().run(scenario)
        flows = [
            {**flow, **{name: flow[name] * (0.8 if given["cc"] == "cubic" else 1.02) for name in GOODPUTS}}
            for flow, given in zip(output.outcome["flows"], scenario["flows"], strict=True)
        ]
        return Output(outcome={**output.outcome, "flows": flows}, subflow_series=output.subflow_series, link_series=output.link_series)


@pytest.fixture
def engines(monkeypatch):
    monkeypatch.setitem(ENGINES, "plausible", PlausibleEngine)
    monkeypatch.setitem(ENGINES, "linux", OtherEngine)
    monkeypatch.setitem(ENGINES, "fake", FakeEngine)


@pytest.fixture
def results(engines, tmp_path, request):
    study = Study.load(request.config.rootpath / "studies/nitk")
    for engine in ("plausible", "linux"):
        found = execute(plan(study, engine=find(engine), out=tmp_path, only={"experiment": ["v1"]}))
    return found


def test_the_report_sets_the_engines_beside_one_another(results, tmp_path, polypath, request):
    made = page(material(results))
    assert made.comparison.summary == ["plausible agrees with linux within 10 % in 5 of 6 rows (not for cubic)"]
    (title, table) = made.comparison.tables[0]
    assert title == "MPTCP v1 of Linux 6.12, coupled and uncoupled"
    rows = {row[0].text: [cell.text for cell in row] for row in table.rows}
    assert rows["cubic"][1:7] == ["9.43 ± 0.02", "7.54 ± 0.01", "+25.0 %", "no", "0.00", "+0 %"]
    assert rows["lia"][3:5] == ["−2.0 %", "yes"]
    assert [figure.name for figure in made.comparison.figures] == ["compare-deviation", "compare-cwnd"]
    html = render(made)
    assert 'id="comparison"' in html
    assert 'href="#comparison"' in html
    said = {claim.id: [(each.platform, str(each.verdict)) for each in claim.decisions] for claim in made.claims}
    # The reference's cubic is a fifth lower, so there wvegas is no longer the lowest.
    assert said["nitk-wvegas-low-v1"] == [("linux", "does not hold"), ("plausible", "holds")]
    assert [column.title for column in made.verdicts.columns] == ["Claim", "plausible", "linux"]
    assert ["nitk-wvegas-low-v1", "holds", "does not hold"] in [[cell.text for cell in row] for row in made.verdicts.rows]
    assert made.facts[1].value == f"{len(said) - 1} of {len(said)}"
    first, second = (write_report(results, tmp_path / name).read_bytes() for name in ("one", "two"))
    assert first == second
    assert (tmp_path / "one/figures/compare-cwnd.svg").read_bytes() == (tmp_path / "two/figures/compare-cwnd.svg").read_bytes()
    made = material(results)
    few = set(made.runs.loc[made.runs["cc"] == "lia", "key"])
    assert set(comparison(made, runs=few).rows["cc"]) == {"lia"}


def test_a_report_on_one_engine_has_no_comparison(engines, tmp_path, request):
    study = Study.load(request.config.rootpath / "studies/nitk")
    made = page(material(execute(plan(study, engine=find("plausible"), out=tmp_path, only={"experiment": ["v1"]}))))
    assert made.comparison is None
    assert 'id="comparison"' not in render(made)


@pytest.fixture
def polypath(engines, polypath):
    """The command line with engines that only these tests have."""
    return polypath


def test_the_command_runs_what_is_missing_and_prints_the_rows(polypath, tmp_path, request):
    study = request.config.rootpath / "studies/nitk"
    arguments = ("compare", study, "--engines", "plausible,linux", "--only", "experiment=v1", "--out", tmp_path, "--no-report")
    code, out, err = polypath(*arguments)
    assert code == 0
    assert "plausible agrees with linux within 10 % in 5 of 6 rows (not for cubic)" in out
    assert "+25.0 %" in out
    assert "nitk-wvegas-low-v1 on linux: wvegas 8.59" in out
    assert "finished earlier" not in err
    _, again, err = polypath(*arguments)
    assert again == out
    assert "45 of them finished earlier" not in out


def test_many_starts_are_judged_as_distributions_over_the_same_starts(polypath, tmp_path, request):
    study = request.config.rootpath / "studies/nitk"
    options = ("--engines", "plausible,linux", "--only", "experiment=v1", "--only", "cc=cubic,lia", "--out", tmp_path, "--starts", 8)
    code, out, _ = polypath("compare", study, *options, "--json", "--no-report")
    made = json.loads(out)
    assert (code, made["study"]) == (0, "nitk-starts")
    own = {row["parameters"]["cc"]: row["platforms"]["plausible"]["over_starts"] for row in made["rows"]}
    assert {cc: (found["n"], found["standing"]) for cc, found in own.items()} == {"cubic": (8, "differs"), "lia": (8, "within 5 %")}
    assert own["cubic"]["difference"] == pytest.approx(0.25)
    assert made["over_starts"]["plausible"].startswith("1 of 2 rows (50.0 %) are within 5 %")
    assert made["claims"] == []
    code, out, _ = polypath("compare", study, *options)
    assert code == 0
    assert "differs: +25.0 ±" in out
    page = (tmp_path / "nitk-starts/report.html").read_text()
    assert "Over the same starts" in page
    assert "within 10 % in 1 of 2 rows (not for cubic), and over the same starts it is significantly higher for cubic (25 %)" in page


def test_a_few_repetitions_are_no_distribution():
    made = compared({"reno": [100.0] * 7, "cubic": [100.0] * 8}, {"reno": [90.0] * 7, "cubic": [90.0] * 8})
    own = made.rows[made.rows["platform"] == "sim"].set_index("cc")["distance"]
    assert own["reno"] is None
    assert str(own["cubic"]) == "differs: +11.1 ± 0.0 %"
    assert len(made.distances("sim")) == 1


def test_json_has_every_figure_unrounded(polypath, tmp_path, request):
    study = request.config.rootpath / "studies/nitk"
    options = ("--engines", "plausible,linux", "--only", "experiment=v1", "--only", "cc=cubic", "--out", tmp_path, "--json", "--no-report")
    code, out, _ = polypath("compare", study, *options)
    made = json.loads(out)
    assert code == 0
    assert (made["platforms"], made["reference"]) == (["plausible", "linux"], "linux")
    assert made["counts"] == {"plausible": {"within_10_percent": 0, "of": 1}}
    assert made["conclusions"] == {"plausible": "plausible agrees with linux within 10 % in 0 of 1 rows"}
    (row,) = made["rows"]
    assert row["parameters"] == {"cc": "cubic"}
    assert row["platforms"]["plausible"]["deviation"] == pytest.approx(0.25)
    assert row["platforms"]["linux"]["deviation"] is None
    claims = {claim["id"]: claim["platforms"]["linux"]["verdict"] for claim in made["claims"]}
    assert claims["nitk-wvegas-low-v1"] == "not measured"


def test_mistakes_are_one_sentence(polypath, tmp_path, request):
    study = request.config.rootpath / "studies/nitk"
    code, _, err = polypath("compare", study, "--engines", "plausible", "--out", tmp_path, "--only", "cc=lia")
    assert code == 2
    assert err.splitlines()[-1] == "polypath: there is nothing to compare: only one engine ran nitk; name two, like --engines sim,linux"
    code, _, err = polypath("compare", study, "--engines", "sim,plausible", "--kernel", "6.1", "--out", tmp_path)
    assert (code, err.strip()) == (2, "polypath: --kernel names kernels of the engine linux; add it, like --engines sim,linux")
    assert polypath("compare", study, "--engines", "")[::2] == (2, "polypath: --engines names none; name two, like --engines sim,linux\n")
    code, _, err = polypath("compare", study, "--engines", "sim,lunix", "--out", tmp_path)
    assert code == 2
    assert 'there is no engine "lunix"; did you mean "linux"?' in err
    code, _, err = polypath("compare", request.config.rootpath / "studies/nitk", "--spread", "1s", "--out", tmp_path)
    assert (code, err.strip()) == (2, "polypath: --spread says within what time the flows of --starts begin; add --starts 12")


class BreakingEngine(OtherEngine):
    """The other engine, which dies at lia."""

    def run(self, scenario):
        if scenario["flows"][0]["cc"] == "lia":
            raise EngineError("the machine was killed")
        return super().run(scenario)


def test_what_did_run_is_compared_although_a_machine_died(polypath, tmp_path, request, monkeypatch):
    monkeypatch.setitem(ENGINES, "linux", BreakingEngine)
    study = request.config.rootpath / "studies/nitk"
    options = ("--engines", "plausible,linux", "--only", "experiment=v1", "--only", "cc=lia,olia", "--out", tmp_path, "--no-report")
    code, out, err = polypath("compare", study, *options)
    assert code == 1
    assert "plausible agrees with linux within 10 % in 1 of 1 rows; 1 of 2 rows were not run on linux" in out
    assert "the machine was killed" in err


def test_each_subflow_has_a_panel_of_its_own_windows():
    """Over direct links several subflows have one source, and some may have both addresses."""
    ends = [("10.0.1.1", "10.0.1.2"), ("10.0.1.1", "10.0.2.2"), ("10.0.1.1", "10.0.2.2")]
    runs = pd.DataFrame([{"key": name, "flow": "f", "seed": 1, PLATFORM: name} for name in ("sim", "linux")])
    every = [(name, number) for name in ("sim", "linux") for number in range(3)]
    subflows = pd.DataFrame(
        [{"key": name, "flow": "f", "subflow": n, "source": f"{ends[n][0]}:{n}", "destination": f"{ends[n][1]}:5"} for name, n in every]
    )
    series = pd.DataFrame([{"key": name, "flow": "f", "subflow": n, "time_s": 1.0, "cwnd": 10 * n} for name, n in every])
    windows = [{PLATFORM: "sim", "flow": "f", "source": a, "destination": b, "area": n / 10} for n, (a, b) in enumerate(ends)]
    tables = SimpleNamespace(runs=runs, subflows=subflows, living=series, study=SimpleNamespace(repeated=[]))
    compared = SimpleNamespace(by=["flow"], windows=pd.DataFrame(windows))
    curves = _curves({PLATFORM: "sim", "flow": "f"}, "lia", compared, tables)
    panels = curves.groupby("label", sort=False)["cwnd"].agg(list).to_dict()
    one, two = "lia, 10.0.1.1 → 10.0.1.2 (0.00)", "lia, 10.0.1.1 → 10.0.2.2"
    assert panels == {one: [0, 0], f"{two} (0.10)": [10, 10], f"{two}, 2 (0.20)": [20, 20]}
