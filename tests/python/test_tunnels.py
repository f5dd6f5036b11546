"""Tunnels in study files."""

import pytest
import yaml

from polypath import run
from polypath.engines import HostEngine
from polypath.engines._naming import simulator_only
from polypath.study import Study, StudyError, cells, scenario

TEXT = """
name: bond
question: does it fill both paths?
topology:
  nodes: {a: null, b: null, r1: {router: true}, r2: {router: true}}
  links:
    a-r1: {ends: [{node: a, address: 10.1.0.1}, {node: r1, address: 10.1.0.2}], both: {rate: 10mbit, delay: 5ms}}
    r1-b: {ends: [{node: r1, address: 10.1.1.1}, {node: b, address: 10.1.1.2}], both: {delay: 1ms}}
    a-r2: {ends: [{node: a, address: 10.2.0.1}, {node: r2, address: 10.2.0.2}], both: {rate: 10mbit, delay: 25ms}}
    r2-b: {ends: [{node: r2, address: 10.2.1.1}, {node: b, address: 10.2.1.2}], both: {delay: 1ms}}
  tunnels:
    bond:
      ends: [{node: a, address: 10.9.0.1}, {node: b, address: 10.9.0.2}]
      paths: [{ends: [10.1.0.1, 10.1.1.2], weight: 2}, {ends: [10.2.0.1, 10.2.1.2]}]
      reorder: off
flows:
  f: {client: a, server: b, client_address: 10.9.0.1, server_address: 10.9.0.2, transport: tcp, app: {kind: bulk}}
duration: 2s
baselines: null
seeds: 1
"""


def made(**changes):
    fields = yaml.safe_load(TEXT)
    fields["topology"]["tunnels"]["bond"] |= changes
    return Study(**fields)


@pytest.mark.parametrize(
    ("rule", "plain"),
    [
        (False, {"kind": "off"}),
        ("mpt", {"kind": "mpt", "window": 1600, "max_delay_ns": 300_000_000}),
        ({"kind": "adaptive", "cap": "50ms"}, {"kind": "adaptive", "offset_ns": 5_000_000, "cap_ns": 50_000_000, "capacity": 4096}),
        ("progress", {"kind": "progress", "max_delay_ns": 300_000_000, "capacity": 4096}),
    ],
)
def test_a_rule_is_a_name_or_a_name_with_its_figures(rule, plain):
    given = scenario(cells(made(reorder=rule))[0].setup, 1)["tunnels"][0]
    assert given["reorder"] == plain
    assert [path["weight"] for path in given["paths"]] == [2, 1]


@pytest.mark.parametrize(
    ("fec", "plain"),
    [
        ("10+2", {"data": 10, "parity": 2, "timeout_ns": 10_000_000}),
        ({"data": 4, "parity": 1, "timeout": "5ms"}, {"data": 4, "parity": 1, "timeout_ns": 5_000_000}),
    ],
)
def test_error_correction_is_two_numbers_or_its_fields(fec, plain):
    assert scenario(cells(made(reorder="progress", fec=fec))[0].setup, 1)["tunnels"][0]["fec"] == plain
    for none in (False, "off", None):
        assert "fec" not in scenario(cells(made(fec=none))[0].setup, 1)["tunnels"][0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("reorder: off", "reorder: mtp", r'14: topology\.tunnels\.bond\.reorder: there is no reorder rule "mtp"'),
        (
            "reorder: off",
            "distribution: earliest\n      reorder: mpt",
            r"14: topology\.tunnels\.bond\.distribution: .*which MPT does not send",
        ),
        ("reorder: off", "distribution: flows\n      batch: 8", r"15: topology\.tunnels\.bond\.batch: .*has turns"),
        ("reorder: off", "mtu: 1500B", r"14: topology\.tunnels\.bond\.mtu: .*1464 is the most"),
        ("reorder: off", "mtu: find", r"14: topology\.tunnels\.bond\.mtu"),
        ("reorder: off", "mtu: search\n      reorder: mpt", r"14: topology\.tunnels\.bond\.mtu: .*does not answer probes"),
        ("reorder: off", "fec: 12", r"14: topology\.tunnels\.bond\.fec: "),
        ("reorder: off", "fec: ten", r'14: topology\.tunnels\.bond\.fec: "ten" is no error correction; write "10\+2"'),
        ("reorder: off", "fec: 0+1", r"14: topology\.tunnels\.bond\.fec: 0 is too small; the least is 1"),
        ("reorder: off", "fec: 2+3", r"14: topology\.tunnels\.bond\.fec: a block has 1 to 64 packets of `data`, `parity` of 1 to as many"),
        ("reorder: off", "fec: 2+1\n      reorder: off", r"14: topology\.tunnels\.bond\.fec: .*MPT knows no parity"),
        ("reorder: off", "dead_time: 1s", r"14: topology\.tunnels\.bond\.dead_time: .*not shorter"),
        ("reorder: off", "weight: 3", r"14: topology\.tunnels\.bond\.weight: the field `weight` does not stand here but in `paths`"),
        ("[10.1.0.1, 10.1.1.2]", "[10.7.0.1, 10.1.1.2]", r"13: topology\.tunnels\.bond\.paths: .*no address of `a`"),
        ("{node: a, address: 10.9.0.1}", "{node: x, address: 10.9.0.1}", r'12: topology\.tunnels\.bond\.ends\[0\]: .*"x"'),
        ("{node: a, address: 10.9.0.1}", "{node: a, address: 10.1.0.1}", r"12: topology\.tunnels\.bond\.ends\[0\]: .*belongs to"),
    ],
)
def test_mistakes_are_told_at_their_line_and_field(tmp_path, old, new, words):
    (tmp_path / "study.yaml").write_text(TEXT.lstrip("\n").replace(old, new, 1))
    with pytest.raises(StudyError, match=words):
        Study.load(tmp_path)


def test_the_host_leaves_out_a_socket_buffer_and_nothing_else():
    plain, buffered = (cells(made(**tunnel))[0] for tunnel in ({}, {"send_buffer": "212992B"}))
    for tunnel in ({}, {"batch": 8}, {"distribution": "flows"}, {"distribution": "earliest", "reorder": "progress"}):
        assert simulator_only(cells(made(**tunnel))[0]) is None
    assert "socket buffer of a tunnel" in (HostEngine().left_out(buffered) or "")
    assert "socket buffer of a tunnel" not in (HostEngine().left_out(plain) or "")


def test_the_earliest_path_needs_neither_weights_nor_turns(tmp_path):
    results = run(made(distribution="earliest", reorder="progress"), out=tmp_path)
    assert results.runs["goodput_receiver_mbps"].iloc[0] > 15
    there = results.tunnels[results.tunnels["a_to_b"]].iloc[0]
    # The second path is 20 ms behind; what is held waits for much less.
    assert there["hold_time_s"] < 0.002 * there["delivered"]


def narrowed(**changes):
    """The second path passes 1400 bytes, and no router says so."""
    study = made(mtu="search", reorder="progress", **changes).model_dump(mode="json", exclude_unset=True)
    study["topology"]["links"]["r2-b"]["both"] = [{"kind": "mtu", "size": "1400B", "oversize": "silent"}, {"kind": "delay", "delay": "1ms"}]
    study["duration"] = "8s"
    return Study(**study)


def test_the_mtu_of_each_path_is_found_and_the_device_follows(tmp_path):
    results = run(narrowed(), out=tmp_path)
    assert list(results.tunnel_paths["mtu"]) == [1500, 1400, 1500, 1400]
    assert list(results.tunnels["mtu"]) == [1400 - 36, 1400 - 36]
    # What was sent before the search knew is sent again: the connection goes on.
    assert results.runs["goodput_receiver_mbps"].iloc[0] > 5
    assert simulator_only(cells(narrowed())[0]) is None


def test_a_run_fills_the_tables(tmp_path):
    results = run(made(send_buffer="212992B", reorder="mpt"), out=tmp_path)
    assert results.runs["goodput_receiver_mbps"].iloc[0] > 5
    there = results.tunnels[results.tunnels["a_to_b"]].iloc[0]
    assert (there["tunnel"], there["mtu"]) == ("bond", 1464)
    assert there["delivered"] > 500
    assert there["hold_time_s"] > 0
    paths = results.tunnel_paths[results.tunnel_paths["a_to_b"]].set_index("path")
    assert paths["packets_sent"].loc[1] == pytest.approx(2 * paths["packets_sent"].loc[2], abs=3)
    assert list(paths["source"]) == ["10.1.0.1", "10.2.0.1"]
