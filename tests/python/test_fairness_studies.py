"""The studies simult-flows, poster and linux-6.8: set-ups, claims and fair shares are what they say, and their short forms run."""

import re

import pytest

from polypath import run
from polypath.analysis import fair_shares
from polypath.engines import SimEngine, check
from polypath.study import Study, cells, runs

STUDIES = ("simult-flows", "poster", "linux-6.8")


@pytest.fixture(scope="module")
def studies(request):
    return {name: Study.load(request.config.rootpath / "studies" / name) for name in STUDIES}


@pytest.mark.parametrize("name", STUDIES)
def test_the_simulator_has_all_that_they_ask_for(studies, name):
    check(SimEngine(), studies[name])


def claims(study):
    return {claim.id: claim for claim in study.claims}


def test_the_listed_claims_are_there(studies):
    poster = "fair-share not-worse efficient-path utilisation udp n-subflows olia-fastest abc"
    assert {f"poster-{name}" for name in poster.split()} <= set(claims(studies["poster"]))
    linux = "cc-matters bandwidth fair latency ratio lp-broken"
    assert {f"linux68-{name}" for name in linux.split()} <= set(claims(studies["linux-6.8"]))


def test_the_limits_are_the_test_s_formula(studies):
    # simult_flows.sh: 1000 * size * 8 * 10 / ((rate1 + rate2) * 1000 * 1000 * 9), in whole numbers, and 450.
    found = claims(studies["simult-flows"])
    for cell in cells(studies["simult-flows"]):
        rates = [int(re.match(r"(\d+)mbit", str(cell.parameters[name]))[1]) for name in ("rate1", "rate2")]
        least = 1000 * 16 * 2**20 * 8 * 10 // (sum(rates) * 1000 * 1000 * 9)
        assert found[f"simult-{cell.experiment}"].check.high == (least + 450) / 1000
        strict = found[f"simult-strict-{sum(rates)}mbit"]
        assert cell.experiment in strict.where["experiment"]
        assert strict.check.high == least / 1000


def test_the_cases_are_the_test_s(studies):
    asked = {
        cell.experiment: tuple(str(cell.parameters[name]) for name in ("rate1", "rate2", "delay1", "delay2"))
        for cell in cells(studies["simult-flows"])
    }
    assert asked == {
        "balanced": ("10mbit", "10mbit", "0ms", "0ms"),
        "balanced-delays": ("10mbit", "10mbit", "1ms", "25ms"),
        "unbalanced": ("10mbit", "3mbit", "0ms", "0ms"),
        "unbalanced-delays": ("10mbit", "3mbit", "1ms", "25ms"),
        "unbalanced-opposed": ("10mbit", "3mbit", "25ms", "1ms"),
    }


def shares_of(study, experiment, **wanted):
    for each in runs(study, engine="none", version="0"):
        if each.experiment == experiment and not each.baseline and wanted.items() <= each.parameters.items():
            return dict(fair_shares(each.scenario).itertuples(index=False, name=None))
    raise AssertionError(f"no cell of {experiment} has {wanted}")


def test_the_fair_shares_of_the_poster_are_those_of_its_bottlenecks(studies):
    # 8 Mbit/s of Wi-Fi do not make up for half of Ethernet, so both have as much as both links allow together, in payload.
    beside = shares_of(studies["poster"], "beside-tcp", transport="mptcp", cc="lia")
    assert beside["m"] == pytest.approx(beside["t"], rel=1e-6)
    assert sum(beside.values()) == pytest.approx(102.3, abs=0.5)
    udp = shares_of(studies["poster"], "beside-udp", udp="50mbit", transport="mptcp", cc="lia")
    assert udp["t"] == pytest.approx(50.0)


def test_both_paths_of_linux_68_share_the_last_hop_where_it_is_narrow(studies):
    shared = shares_of(studies["linux-6.8"], "shared", cc="cubic")
    assert shared["m"] == pytest.approx(shared["t"], rel=1e-6)
    assert sum(shared.values()) == pytest.approx(40 * 0.95, rel=0.02)
    # Beside one path MPTCP has the other for itself, and the TCP flow that whole path.
    wifi = shares_of(studies["linux-6.8"], "beside-wifi", cc="cubic")
    assert wifi["m"] == pytest.approx((60 * 1424 / 1514) * 0.9999 + (90 * 1448 / 1514 - wifi["t"]) * 1424 / 1448, rel=0.01)


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("simult-flows", {"cc": ["cubic"]}),
        ("poster", {"experiment": ["beside-tcp", "beside-udp"], "cc": ["cubic"]}),
        ("linux-6.8", {"experiment": ["shared"], "cc": ["cubic", "vegas"]}),
    ],
)
def test_short_forms_run(studies, name, only, tmp_path):
    results = run(studies[name].in_short(), out=tmp_path, only=only)
    assert not results.runs.empty
    assert (results.runs["goodput_receiver_mbps"] > 0).all()
    if name == "simult-flows":
        assert results.runs["completion_s"].between(6.5, 20).all()
        # Both paths carried something, whatever the delays.
        assert results.runs["first_share"].between(0.05, 0.95).all()
