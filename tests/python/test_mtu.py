"""The study of the thesis on MTUs of subflows."""

import csv

import pytest
from study_data import module_of

from polypath import run
from polypath.engines._naming import simulator_only
from polypath.study import Study, cells, runs

WAYS = [(oversize, probing) for oversize in ("icmp", "silent") for probing in (0, 1, 2)]


@pytest.fixture(scope="module")
def study(request):
    return Study.load(request.config.rootpath / "studies/mtu")


@pytest.fixture(scope="module")
def arithmetic(request):
    return module_of(request.config.rootpath / "studies/mtu/arithmetic.py")


def published(study):
    with (study.folder / "published.csv").open() as file:
        return list(csv.DictReader(file))


def test_both_stacks_meet_every_way_of_icmp_and_probing(study):

    for experiment in ("tcp-mixed", "mixed", "narrow-first"):
        own = [cell for cell in cells(study) if cell.experiment == experiment]
        for stack in ("5.4-mptcp", "6.12"):
            asked = [(c.parameters["oversize"], c.parameters["probing"]) for c in own if c.parameters["stack"] == stack]
            assert sorted(asked) == sorted(WAYS)
        assert {cell.setup.flows["m"].transport for cell in own} == {"tcp" if experiment == "tcp-mixed" else "mptcp"}
    bases = {c.parameters["base"] for c in cells(study) if c.experiment == "base-mss"}
    assert bases == {512, 576, 1024, 1400}


def test_engines_that_run_a_kernel_leave_out_other_searches_and_schedulers(study):
    sized = {cell.varied["scheduler"]: simulator_only(cell) for cell in cells(study) if cell.experiment.startswith("sized")}
    assert sized["default"] is None
    assert sized["payload"] == "the scheduler payload, which this kernel does not have: --engine linux links it into kernels from 6.6 on"
    searched = {cell.parameters["search"]: simulator_only(cell) for cell in cells(study) if not cell.experiment.startswith("sized")}
    assert searched["linux"] is None
    assert searched["parallel"] == "the search parallel for a path's MTU, which the simulator alone has"
    assert [name for name, reason in searched.items() if reason is None] == ["linux"]


def test_the_hosts_have_9000_and_one_path_has_1500_in_its_middle(study):
    first = {"mixed": (9000, 9000, 9000, 1500), "narrow-first": (9000, 1500, 9000, 9000), "known": (9000, 9000, 1500, 1500)}
    for run_ in runs(study, engine="none", version="0"):
        if run_.experiment in first:
            links = {link["name"]: link for link in run_.scenario["links"]}
            found = []
            for path in ("first", "second"):
                out, through = links[f"host-{path}"], links[f"{path}-server"]
                found += [out["a"]["mtu"], through["a_to_b"][0]["bytes"]]
                rates = {element["bits_per_s"] for element in through["a_to_b"] if element["kind"] == "rate"}
                assert rates == {50_000_000}, "the paths are equal"
            assert tuple(found) == first[run_.experiment]


def test_the_claims_of_the_thesis_are_there_and_each_is_asked_of_linux_6_12_too(study):
    ids = [claim.id for claim in study.claims]
    assert {"mtu-tcp-pmtud", "mtu-mixed-worse", "mtu-probing-helps", "mtu-base-mss", "mtu-base-mss-table"} <= set(ids)
    assert sum(name.startswith("mtu-wish-") for name in ids) >= 4
    for claim in study.claims:
        if claim.id.endswith("-v1"):
            assert claim.id.removesuffix("-v1") in ids


def test_the_numbers_are_those_of_the_thesis_and_of_the_kernel_s_table(study, request):
    rows = published(study)
    thesis = {(row["experiment"], row["base"]): row["thesis_mbps"] for row in rows if row["thesis_mbps"]}
    assert thesis == {("base-mss-10mbit", "576"): "17.16", ("base-mss-10mbit", "1024"): "18.36"}
    with (request.config.rootpath / "tests/data/reference/mptcp-v0.csv").open() as file:
        table = {row["id"]: row for row in csv.DictReader(file)}
    names = {"mixed": "mptcp_9000+1500", "narrow-first": "mptcp_1500first", "known": "mptcp_9000+1500hosts"}
    names |= {"uniform-9000": "mptcp_9000+9000", "uniform-1500": "mptcp_1500+1500", "base-mss": "mptcp_9000+1500"}
    told = {"icmp": "ok", "silent": "drop"}
    for row in rows:
        if row["thesis_mbps"]:
            continue
        way = f"_probe{row['probing']}_icmp{told[row['oversize']]}" if row["probing"] else ""
        way = f"_base{row['base']}_icmpdrop" if row["base"] else way
        measured = table[f"v0_e_{names[row['experiment']]}{way}_cubic"]
        if row["subflow"]:
            assert row["kernel_v0_segment_bytes"] == measured[f"sf{int(row['subflow']) + 1}_avg_seg"]
        else:
            assert row["kernel_v0_mbps"] == measured["goodput_mbps"]


def test_sizes_come_from_captures_that_leave_no_files(study, tmp_path):
    results = run(study.in_short(), out=tmp_path, only={"experiment": ["mixed"], "oversize": ["icmp"], "probing": ["0"]})
    assert not list(results.folder.glob("captures/*"))
    sizes = results.subflows.set_index(["stack", "subflow"])["segment_usual_bytes"].to_dict()
    # Options: 5.4-mptcp has a DSS of 20 bytes with its checksum, 6.12 one of 24 without.
    assert sizes == {("5.4-mptcp", 0): 8928, ("5.4-mptcp", 1): 1428, ("6.12", 0): 8924, ("6.12", 1): 1424}


def test_the_arithmetic_is_that_of_the_readme(arithmetic):
    wide = arithmetic.connection_rate(8960, arithmetic.EXAMPLE)
    # The thesis has 28.05 for the second.
    assert wide == [pytest.approx(28.672), pytest.approx(25.137, abs=5e-4)]
    assert arithmetic.connection_rate(1460, arithmetic.EXAMPLE) == [pytest.approx(0.761, abs=5e-4), pytest.approx(4.672)]
    for payload, measured in ((576, 17.16), (1024, 18.36)):
        possible = 20 * arithmetic.share_of_frame(payload)
        assert measured < possible < 1.02 * measured
