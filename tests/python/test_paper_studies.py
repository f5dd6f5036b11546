"""The studies rfc9438, bbr-shared, jittertrap and hybrid."""

import csv
import itertools
import math
import sys
from pathlib import Path

import pytest
from study_data import module_of

from polypath.study import Study, cells, runs

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

STUDIES = ("rfc9438", "bbr-shared", "jittertrap", "hybrid")


@pytest.fixture(scope="module")
def studies(request):
    return {name: Study.load(request.config.rootpath / "studies" / name) for name in STUDIES}


@pytest.fixture(scope="module")
def script(request):
    return lambda study, name: module_of(request.config.rootpath / "studies" / study / f"{name}.py")


def rows(study, name="published.csv"):
    with (study.folder / name).open() as file:
        return list(csv.DictReader(file))


def test_the_windows_and_rates_of_rfc_9438_are_those_of_its_formulas(studies, script):
    arithmetic, said = script("rfc9438", "arithmetic"), rows(studies["rfc9438"], "windows.csv")
    values = [(float(row[name]), value) for row in said for name, value in arithmetic.computed(row).items()]
    assert len(values) == 70
    # Printed whole; one in a hundred thousand is the rounding of the RFC's own constants.
    assert [pair for pair in values if abs(pair[0] - pair[1]) > 0.5 + 1e-5 * pair[1]] == []
    windows = {(row["rtt"], row["loss"]): row for row in said}
    for row in rows(studies["rfc9438"]):
        window = float(windows[row["rtt"], row["loss"]][row["cc"]])
        seconds = float(row["rtt"].removesuffix("ms")) / 1000
        assert float(row["rfc_mbps"]) == pytest.approx(window * 1448 * 8 / seconds / 1e6, abs=1e-4)
    for run in runs(studies["rfc9438"], engine="none", version="0"):
        if run.experiment.startswith("random-"):
            continue
        loss, rtt, cc = (run.parameters[name] for name in ("loss", "rtt", "cc"))
        (link,) = run.scenario["links"]
        (lost,) = (each["numbers"] for each in link["a_to_b"] if each["kind"] == "loss")
        assert {after - before for before, after in itertools.pairwise(lost[1:])} == {int(loss.removeprefix("1:"))}
        packets = float(windows[rtt, loss][cc]) / (float(rtt.removesuffix("ms")) / 1000) * run.scenario["flows"][0]["window_ns"][1] / 1e9
        assert packets < lost[-1], (loss, rtt, cc)


def test_each_cell_of_bbr_shared_was_measured_three_times_and_is_judged_by_them(studies, script):
    compare = script("bbr-shared", "compare")
    measured = compare.published()
    assert len(measured) == 252 and measured.notna().all(axis=None)
    ran = {(cell.experiment, str(cell.parameters["queue"]), str(cell.parameters["count"])) for cell in cells(studies["bbr-shared"])}
    assert ran == set(measured.index)
    capacity = {cell.experiment: float(cell.parameters["rate"].removesuffix("mbit")) for cell in cells(studies["bbr-shared"])}
    assert capacity == compare.CAPACITY
    # The repeats are 1.045, 0.276 and 1.522; and 20.333, 10.868 and 8.490 of 50.
    judged = compare.judged({("figure-5a", "2560ms", "1"): 1.94, ("figure-5b", "960ms", "2"): 20.0})
    assert list(judged["same"]) == [True, True]
    judged = compare.judged({("figure-5a", "2560ms", "1"): 1.96, ("figure-5b", "960ms", "2"): 20.4})
    assert list(judged["same"]) == [False, False]


def test_jittertrap_has_the_deviation_of_netem_s_and_keeps_the_order_where_it_says_so(studies):
    # A uniform jitter of as much either way has its half width over the root of 3.
    for run in runs(studies["jittertrap"], engine="none", version="0"):
        (link,) = run.scenario["links"]
        (delay,) = (each for each in link["a_to_b"] if each["kind"] == "delay")
        sigma = float(str(run.parameters["jitter"]).removesuffix("ms")) * 1e6
        assert delay["jitter_ns"] == pytest.approx(sigma * math.sqrt(3), abs=500)
    for run in runs(studies["jittertrap"], engine="none", version="0"):
        (link,) = run.scenario["links"]
        for side in ("a_to_b", "b_to_a"):
            (delay,) = (each for each in link[side] if each["kind"] == "delay")
            assert delay["reorder"] == (run.parameters["order"] == "netem")


def test_claims_name_cells_that_run(studies):
    for study in studies.values():
        experiments = {cell.experiment for cell in cells(study)}
        for claim in study.claims:
            named = claim.where.get("experiment", ())
            assert set([named] if isinstance(named, str) else named) <= experiments, claim.id
