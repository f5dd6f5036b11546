"""The study of the mpt-gre paper: its set-up and its numbers, and how often the simulator agrees with real MPT over a kernel."""

import csv
import importlib.util

import pytest

from polypath.engines import SimEngine, check
from polypath.study import Study, cells


@pytest.fixture(scope="module")
def root(request):
    return request.config.rootpath


@pytest.fixture(scope="module")
def study(root):
    return Study.load(root / "studies/mpt-gre")


@pytest.fixture(scope="module")
def compare(root):
    spec = importlib.util.spec_from_file_location("compare", root / "studies/mpt-gre/compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_simulator_has_all_that_it_asks_for(study):
    check(SimEngine(), study)


def test_every_published_cell_is_run(study):
    with (study.folder / "published.csv").open() as file:
        published = list(csv.DictReader(file))
    own = {(c.parameters["cc"], c.parameters["delay"]) for c in cells(study) if c.experiment == "nic-delay"}
    assert {(row["cc"], row["delay"]) for row in published} == own
    # Eleven algorithms, and what the system has by default.
    assert sum(bool(row["table_mbps"]) + bool(row["uncontrolled_mbps"]) for row in published) == 72


def test_the_limit_is_the_hosts_own_interface_or_the_network(study):
    for cell in cells(study):
        router, tunnel = cell.experiment.startswith("router"), cell.setup.topology.tunnels["mpt"]
        own = cell.setup.topology.links["a-r1"].forward
        assert (tunnel.send_buffer is None, any(element.kind == "rate" for element in own)) == (router, not router)


def test_a_row_of_the_kernel_is_simulated_as_it_was_run(study, compare):
    rows = {row["id"]: row for row in compare.reference()}
    (plain,) = compare.scenarios(rows["nic_rw1600_q100_d100_vegas_synp1"], study)
    assert plain["tunnels"][0]["packets_before"] == 4
    assert [element["delay_ns"] for element in plain["links"][1]["a_to_b"] if element["kind"] == "delay"] == [100_000_000, 250_000]
    lossy = list(compare.scenarios(rows["router_rw1600_q100_l1_bbr"], study))
    assert len({each["seed"] for each in lossy}) == 5
    assert lossy[0]["links"][0]["a_to_b"][0]["probability"] == 0.01


def test_agreement_with_mpt_over_a_kernel_does_not_fall(root, compare):
    with (root / "tests/data/reference/mpt-gre/agreement.csv").open() as file:
        held = {row["mode"]: (int(row["agree"]), int(row["of"])) for row in csv.DictReader(file)}
    found = {mode: [0, 0] for mode in held}
    for row, _, _, agrees in compare.judged([]):
        found[row["mode"]][0] += agrees
        found[row["mode"]][1] += 1
    for mode, (agree, of) in held.items():
        assert found[mode][0] >= agree
        assert found[mode][1] == of
