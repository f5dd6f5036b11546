"""iperf3 as the program of a flow: over the same links it says what Polypath's own sender says."""

import pytest
from requirement import planned_on_host

from polypath import Study, StudyError, programs, run
from polypath.engines import HostEngine
from polypath.results import plan

LINK = {"rate": "10mbit", "queue": "40packets", "delay": "5ms"}


def study(up=LINK, **flow):
    """Two paths, `up` leading away from the client, and a flow by each program in turn."""
    links = {name: {"ends": ["c", "s"], "forward": up, "backward": LINK} for name in ("one", "two")}
    base = {"client": "c", "server": "s", "program": "${program}", "app": {"kind": "bulk", "duration": "3s"}}
    topology = {"nodes": {"c": None, "s": None}, "links": links}
    matrix = {"program": ["polypath", "iperf3"]}
    more = {"matrix": matrix, "duration": "3s", "seeds": 4, "baselines": None}
    return Study.model_validate({"name": "programs", "topology": topology, "flows": {"f": {**base, **flow}}, **more})


@pytest.fixture(scope="module", autouse=True)
def machine():
    """One that has iperf3, and mptcpize for releases that open no MPTCP sockets themselves."""
    planned_on_host(study(), needs=("iperf3", "mptcpize"))


def by_program(results, column):
    return results.runs.groupby("program")[column].mean().to_dict()


@pytest.mark.parametrize(("transport", "cc", "least"), [("tcp", "cubic", 8.0), ("mptcp", "lia", 12.0)])
def test_both_programs_see_the_same_links(transport, cc, least, tmp_path):
    made = run(study(transport=transport, cc=cc), engine="host", out=tmp_path)
    goodput = by_program(made, "goodput_receiver_mbps")
    assert min(goodput.values()) > least
    assert goodput["iperf3"] == pytest.approx(goodput["polypath"], rel=0.15)
    # The data's sockets, with the algorithm that was asked for, from both addresses to both.
    count = 1 if transport == "tcp" else 4
    assert by_program(made, "subflows") == {"polypath": count, "iperf3": count}
    acked = made.subflows.groupby("program")["bytes_acked"].sum()
    assert acked["iperf3"] == pytest.approx(acked["polypath"], rel=0.2)
    assert not made.series.query("program == 'iperf3'").empty
    release = programs.run("iperf3", "--version").stdout.split()[1]
    used = made.runs.groupby("program")["flow_program"].agg(lambda found: set(found.dropna()))
    assert used.to_dict() == {"polypath": set(), "iperf3": {f"iperf3 {release}"}}


@pytest.mark.parametrize("transport", ["tcp", "mptcp"])
def test_iperf3_is_told_to_send_from_the_server(transport, tmp_path):
    # Away from the client a path has a tenth of the rate.
    made = run(study({**LINK, "rate": "1mbit"}, transport=transport, cc="cubic", direction="download"), engine="host", out=tmp_path)
    goodput = by_program(made, "goodput_receiver_mbps")
    assert min(goodput.values()) > (7.0 if transport == "tcp" else 10.0)
    assert goodput["iperf3"] == pytest.approx(goodput["polypath"], rel=0.15)
    assert set(made.subflows["source"].str.rpartition(":")[0]) <= {"10.0.1.2", "10.0.2.2"}


def test_a_small_send_buffer_holds_the_program_that_asks_for_room(tmp_path):
    """iperf3 does; a blocking program such as ours is let past (specs/notes/small-send-buffer)."""
    host = {"sysctl": {"net.ipv4.tcp_wmem": [4096, 16384, 100_000]}}
    cable = {"ends": ["c", "s"], "both": {"rate": "100mbit", "delay": "40ms", "queue": "10000packets"}}
    topology = {"nodes": {"c": host, "s": host}, "links": {"cable": cable}}
    flow = {"client": "c", "server": "s", "transport": "tcp", "cc": "cubic", "program": "${program}"}
    flow["app"] = {"kind": "bulk", "duration": "5s"}
    given = {"name": "held", "topology": topology, "flows": {"f": flow}, "matrix": {"program": ["polypath", "iperf3"]}}
    made = run(Study.model_validate({**given, "duration": "5s", "baselines": None}), engine="host", out=tmp_path)
    goodput = by_program(made, "goodput_receiver_mbps")
    assert goodput["polypath"] > 1.5 * goodput["iperf3"]


def test_a_transfer_has_its_size(tmp_path):
    made = run(study(transport="tcp", app={"kind": "transfer", "size": "2MB"}), engine="host", out=tmp_path)
    assert by_program(made, "bytes_received")["polypath"] == 2_000_000
    # iperf3 sends whole blocks; some 200 kB lie in the sender's buffer at its end.
    assert by_program(made, "bytes_received")["iperf3"] == pytest.approx(2_000_000, rel=0.15)
    assert made.runs["completion_s"].notna().sum() >= 2


@pytest.mark.parametrize("app", [{"kind": "bulk", "duration": "1500ms"}, {"kind": "on_off", "on": "1s", "off": "1s"}])
def test_what_iperf3_cannot_do_is_refused(app, tmp_path):
    with pytest.raises(StudyError, match="iperf3 sends for whole seconds"):
        plan(study(app=app), engine=HostEngine(), out=tmp_path)


def test_without_iperf3_the_study_says_what_to_install(tmp_path, monkeypatch):
    from polypath.engines import _iperf3

    monkeypatch.setattr(_iperf3, "release", lambda: None)
    with pytest.raises(StudyError, match="iperf3 is missing: install the Debian package iperf3"):
        plan(study(), engine=HostEngine(), out=tmp_path)
