"""The studies simult-flows, poster and linux-6.8."""

import re

import pytest

from polypath import run
from polypath.analysis import fair_shares
from polypath.study import Study, cells, runs

STUDIES = ("simult-flows", "poster", "linux-6.8")


@pytest.fixture(scope="module")
def studies(request):
    return {name: Study.load(request.config.rootpath / "studies" / name) for name in STUDIES}


def claims(study):
    return {claim.id: claim for claim in study.claims}


def test_claims_are_there_and_leave_no_algorithm_out_in_silence(studies):
    poster = "fair-share not-worse efficient-path utilisation udp olia-fastest abc"
    found = set(claims(studies["poster"]))
    # That N = 10 is best can only be asked of the stack that the poster ran.
    assert {f"poster-{name}{stack}" for name in poster.split() for stack in ("", "-v0")} | {"poster-n-subflows"} <= found
    linux = "cc-matters bandwidth fair latency ratio lp-broken"
    assert {f"linux68-{name}" for name in linux.split()} <= set(claims(studies["linux-6.8"]))
    # A claim names its algorithms, and stands beside one that asks all.
    asked = claims(studies["poster"])
    for claim in asked.values():
        assert str(claim.where.get("cc", "")) in claim.sentence, claim.id
    for claim in asked.values():
        if re.fullmatch("poster-(fair-share|not-worse)(-v0)?", claim.id):
            ran = {str(cell.parameters["cc"]) for cell in cells(studies["poster"]) if cell.experiment == claim.where["experiment"]}
            assert set(named(claim.check)) in (set(), ran) and "cc" not in claim.where
            assert {f"{claim.id}-{cc}" for cc in ran} <= set(asked)


def named(check):
    """The algorithms that the right side of a check names."""
    rights = check.right if isinstance(getattr(check, "right", None), tuple) else ()
    return [right["cc"] for right in rights if "cc" in right]


def test_the_cases_and_limits_are_the_test_s(studies):
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
    # simult_flows.sh: 80 * size / (9 * (rate1 + rate2)) in whole numbers, and 450.
    found = claims(studies["simult-flows"])
    for cell in cells(studies["simult-flows"]):
        rates = [int(re.match(r"(\d+)mbit", str(cell.parameters[name]))[1]) for name in ("rate1", "rate2")]
        least = 1000 * 16 * 2**20 * 8 * 10 // (sum(rates) * 1000 * 1000 * 9)
        assert found[f"simult-{cell.experiment}"].check.high == (least + 450) / 1000
        strict = found[f"simult-strict-{sum(rates)}mbit"]
        assert cell.experiment in strict.where["experiment"]
        assert strict.check.high == least / 1000


def shares_of(study, experiment, **wanted):
    for each in runs(study, engine="none", version="0"):
        if each.experiment == experiment and not each.baseline and wanted.items() <= each.parameters.items():
            return dict(fair_shares(each.scenario).itertuples(index=False, name=None))
    raise AssertionError(f"no cell of {experiment} has {wanted}")


def test_fair_shares_are_those_of_the_bottlenecks(studies):
    # Both have as much as both links allow together, in payload.
    beside = shares_of(studies["poster"], "beside-tcp", transport="mptcp", cc="lia")
    assert beside["m"] == pytest.approx(beside["t"], rel=1e-6)
    assert sum(beside.values()) == pytest.approx(102.3, abs=0.5)
    udp = shares_of(studies["poster"], "beside-udp", udp="50mbit", transport="mptcp", cc="lia")
    assert udp["t"] == pytest.approx(50.0)
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
        found = claims(studies[name])
        for _, row in results.runs.iterrows():
            rates = [float(str(row[rate]).removesuffix("mbit")) for rate in ("rate1", "rate2")]
            # 1424 bytes in each 1514 of both links; cubic keeps the kernel's limit.
            least = 16 * 2**20 * 8 / (sum(rates) * 1e6 * 1424 / 1514)
            assert least <= row["completion_s"] <= found[f"simult-{row['experiment']}"].check.high
            # Each path carries its part of the rate, whatever the delays.
            assert row["first_share"] == pytest.approx(rates[0] / sum(rates), abs=0.02)
