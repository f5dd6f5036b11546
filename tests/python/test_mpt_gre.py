"""The study of the mpt-gre paper."""

import csv

import pytest
from study_data import module_of

from polypath.study import Study, cells


@pytest.fixture(scope="module")
def root(request):
    return request.config.rootpath


@pytest.fixture(scope="module")
def study(root):
    return Study.load(root / "studies/mpt-gre")


@pytest.fixture(scope="module")
def compare(root):
    return module_of(root / "studies/mpt-gre/compare.py")


@pytest.fixture(scope="module")
def packets(root):
    return module_of(root / "studies/mpt-gre/packets.py")


def test_the_set_up_is_the_papers(study):

    with (study.folder / "published.csv").open() as file:
        published = list(csv.DictReader(file))
    own = {(c.parameters["cc"], c.parameters["delay"]) for c in cells(study) if c.experiment == "nic-delay"}
    assert {(row["cc"], row["delay"]) for row in published} == own
    # Eleven algorithms, and what the system has by default.
    assert sum(bool(row["table_mbps"]) + bool(row["uncontrolled_mbps"]) for row in published) == 72
    for cell in cells(study):
        router = cell.experiment.startswith("router") or cell.experiment.endswith("router")
        own = cell.setup.topology.links["a-r1"].forward
        assert any(element.kind == "rate" for element in own) == (not router)
        for tunnel in cell.setup.topology.tunnels.values():
            assert (tunnel.send_buffer is None) == router


def test_a_row_of_the_kernel_is_simulated_as_it_was_run(study, compare):
    rows = {row["id"]: row for row in compare.reference()}
    (plain,) = compare.scenarios(rows["nic_rw1600_q100_d100_vegas_synp1"], study)
    assert (plain["tunnels"][0]["packets_before"], plain["tunnels"][0]["mtu"]) == (4, 1464)
    assert plain["links"][0]["a_to_b"][0]["burst_bytes"] == 1538
    assert [element["delay_ns"] for element in plain["links"][1]["a_to_b"] if element["kind"] == "delay"] == [100_000_000, 250_000]
    lossy = list(compare.scenarios(rows["router_rw1600_q100_l1_bbr"], study))
    assert len({each["seed"] for each in lossy}) == 5
    assert lossy[0]["links"][0]["a_to_b"][0]["probability"] == 0.01


def test_agreement_with_mpt_over_a_kernel_does_not_fall(root, compare):
    with (root / "tests/data/reference/mpt-gre/agreement.csv").open() as file:
        held = {row["mode"]: (int(row["agree"]), int(row["of"])) for row in csv.DictReader(file)}
    found = {mode: [0, 0] for mode in held}
    for each in compare.judged([]):
        found[each.row["mode"]][0] += each.agrees
        found[each.row["mode"]][1] += 1
    for mode, (agree, of) in held.items():
        assert found[mode][0] >= agree
        assert found[mode][1] == of


def test_repeats_of_a_kernel_are_judged_from_their_own_starts_and_with_mpt_itself(compare, tmp_path):
    file = tmp_path / "linux-6.12.csv"
    often = "nic_rw1600_q100_d50_vegas"
    rows = [(often, 1.0), (often, 5.0), (often, 3.0), ("nic_rw0_q100_d100_cubic", 4.0)]
    lines = [f"{name},{number},1,{mbps},0,1 2 3" for number, (name, mbps) in enumerate(rows)]
    file.write_text("# how | recorded 2026-01-01, Linux 6.12\nid,shift_us,seed,goodput_mbps,retrans,seconds\n" + "\n".join(lines) + "\n")
    kernel, known = compare.repeats(file)
    assert (kernel, known) == ("6.12", {often: [1.0, 5.0, 3.0], "nic_rw0_q100_d100_cubic": [4.0]})
    row = next(row for row in compare.reference() if row["id"] == often)
    (plain, *_) = compare.scenarios(row, compare.Study.load(compare.HERE), 3, kernel)
    assert {node["kernel"] for node in plain["nodes"] if "kernel" in node} == {"6.12"}
    found = {each.row["id"]: each for each in compare.judged([], file)}
    assert {name: each.theirs for name, each in found.items()} == known
    assert found[often].agrees, "within the kernel's own spread"
    file = tmp_path / "linux-6.1.csv"
    file.write_text(f"id,shift_us,seed,goodput_mbps,retrans,seconds\n{often},0,1,1.0,0,1\n{often},1,1,2.0,0,1\n")
    (only,) = compare.judged([often], file)
    assert only.theirs == [1.0, 2.0, 3.01]
    assert compare.span(only.theirs) == "2.00 | 1.00 to 3.01"


def test_packets_are_overtaken_and_rounds_read_off(packets):
    # 3 takes the slow path: 4, 5 and 6 are there before it, and 7 comes in order.
    arrivals = [(0, 4), (1, 5), (2, 6), (9, 3), (10, 7)]
    assert packets.overtaken(arrivals, 0) == ([3], [9, 8, 7], 5)
    assert packets.overtaken(arrivals, 10) == ([0], [0], 1)
    found = packets.run(0.2, experiment="nic-delay", cc="vegas", delay="50ms", captures=(("a", "mpt"),))
    (_, first, handshake), (_, second, times), *_ = packets.rounds(found)
    # The SYN takes path 2; half of the initial window takes the path slower by 50 ms.
    assert (first, second) == (1, 11)
    assert max(handshake) < 1_000_000
    assert min(times) > 50_000_000
