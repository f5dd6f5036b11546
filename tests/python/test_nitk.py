"""The study of the nitk paper."""

import csv

import pytest

from polypath.analysis import path_bounds
from polypath.study import Study, cells, runs


@pytest.fixture(scope="module")
def study(request):
    return Study.load(request.config.rootpath / "studies/nitk")


@pytest.fixture(scope="module")
def scenario(study):
    return next(runs(study, engine="none", version="0")).scenario


def test_set_up_is_that_of_the_appendix(scenario):
    # netem delay D rate R at both ends of each link, with its own limit of 1000 packets.
    wanted = {"path1": (5_000_000, 50_000_000), "path2": (10_000_000, 50_000_000), "last": (2_000_000, 10_000_000)}
    for link in scenario["links"]:
        for side in ("a_to_b", "b_to_a"):
            (rate,) = link[side]
            assert (rate["hold_ns"], rate["bits_per_s"]) == wanted[link["name"]]
            assert rate["queue"] == {"packets": 1000}
            assert rate["framing_bytes"] == 14
    ends = {(link["name"], end["node"]): end["address"] for link in scenario["links"] for end in (link["a"], link["b"])}
    assert ends == {
        ("path1", "h1"): "10.0.0.1",
        ("path1", "h2"): "10.0.0.2",
        ("path2", "h1"): "192.168.0.1",
        ("path2", "h2"): "192.168.0.2",
        ("last", "h2"): "10.0.1.1",
        ("last", "h3"): "10.0.1.2",
    }


def test_experiments_claims_and_baselines_are_the_listed_ones(study):
    found = {}
    for cell in cells(study):
        found.setdefault((cell.experiment, cell.setup.kernel), []).append(cell.parameters["cc"])
    assert found == {
        ("v0", "5.4-mptcp"): ["lia", "olia", "balia", "wvegas", "cubic"],
        ("v0-16mib", "5.4-mptcp"): ["lia", "olia", "balia", "wvegas", "cubic", "reno"],
        ("v1", "6.12"): ["lia", "olia", "balia", "wvegas", "cubic", "reno"],
    }
    sources = {run.baseline.client_address for run in runs(study, engine="none", version="0") if run.baseline}
    assert sources == {"10.0.0.1", "192.168.0.1"}
    paper = ["nitk-table", "nitk-order", "nitk-olia-beats-lia", "nitk-wvegas-low", "nitk-cwnd"]
    # And two of them asked of upstream MPTCP.
    assert [claim.id for claim in study.claims] == [*paper, "nitk-order-v1", "nitk-wvegas-low-v1"]


def test_published_numbers_are_the_paper_s_and_the_kernel_s(study, scenario):
    with (study.folder / "published.csv").open() as file:
        table = {row["cc"]: (row["table_mbps"], row["text_mbps"]) for row in csv.DictReader(file)}
    assert table == {
        "lia": ("9.76", "9.25"),
        "olia": ("9.85", "9.41"),
        "balia": ("9.81", "9.41"),
        "wvegas": ("6.06", "6.05"),
        "cubic": ("9.94", "9.40"),
    }
    with (study.folder / "published.csv").open() as file:
        beside = {row["cc"]: row["kernel_v0_mbps"] for row in csv.DictReader(file)}
    with (study.folder / "kernel-v0.csv").open() as file:
        whole = {row["cc"]: row["goodput_receiver_mbps"] for row in csv.DictReader(file)}
    assert beside == {cc: whole[cc] for cc in beside}
    # 1428 of 1514 bytes are payload, so Table 1 cannot be what was received.
    possible = path_bounds(scenario)["alone_mbps"].max()
    assert possible == pytest.approx(9.432, abs=0.001)
    with (study.folder / "published.csv").open() as file:
        above = [row["cc"] for row in csv.DictReader(file) if float(row["table_mbps"]) > possible]
    assert above == ["lia", "olia", "balia", "cubic"]
