"""Live subflows of this kernel, and the doctor on namespaces that lack one thing each."""

import json
import os
import subprocess
import sys
import time

import pytest
from cc_network import Flow, ip, network, setting
from requirement import lacking
from waiting import until

from polypath.doctor import Question, collect, findings
from polypath.doctor._collect import ability
from polypath.sockets import History, Sockets


@pytest.fixture(scope="module")
def net():
    """The bottleneck with a client of two addresses; namespaces need root."""
    if os.geteuid():
        lacking("host", "namespaces need root")
    if ability() != "works":
        lacking("host", "this kernel has no MPTCP, or it is switched off")
    with network(rate=20, queue=40) as made:
        yield made


@pytest.fixture
def flow(net):
    made = Flow(net, net.client, 5301, mptcp=True)
    try:
        until(lambda: made.subflows() >= 1, "the second subflow comes up")
        yield made
    finally:
        made.close()


def polypath(*words):
    command = [sys.executable, "-c", "from polypath.cli import main; main()", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def two_subflows(namespace):
    """The subflows of this namespace, once there are two."""
    seen = [each for each in Sockets(namespace).look() if each.token is not None]
    return seen if len(seen) == 2 else None


def found(namespace, role, *to):
    question = Question(role="server" if role == "server" else "client")
    return {each.id: each.run for each in findings(collect(namespace, to), question)}


def test_both_subflows_are_seen_from_both_ends(net, flow):
    for namespace, peer_port in ((net.client, False), (net.server, True)):
        # The server has the second one a round trip later than the client.
        seen = until(lambda name=namespace: two_subflows(name), "both are seen")
        assert len({each.token for each in seen}) == 1
        assert {(each.source if not peer_port else each.destination) for each in seen} == {"10.77.1.1", "10.77.2.1"}
        assert [each.joined for each in sorted(seen, key=lambda each: each.joined)] == [False, True]
    # The server's addresses are its own namespace's; here there are none of them.
    assert not any(each.destination == "10.77.9.2" for each in Sockets().look())


def test_rates_are_those_of_the_transfer(net, flow):
    sockets, history = Sockets(net.client), History()
    time.sleep(1)
    begun, received = time.monotonic(), flow.received
    history.see(begun, sockets.look())
    time.sleep(2)
    looked = sockets.look()
    # Counters and what was read are of one moment, however busy the machine.
    ended, read = time.monotonic(), flow.received
    entries = history.see(ended, looked)
    measured = sum(entry.sent_mbps or 0 for entry in entries)
    # What the application read meanwhile; data on its way and reordered makes the difference.
    assert measured == pytest.approx((read - received) * 8e-6 / (ended - begun), rel=0.25)
    assert all(entry.last.cwnd > 0 and entry.last.srtt_ms and entry.last.mss > 500 and entry.last.pmtu == 1500 for entry in entries)


def test_a_subflow_that_closes_is_said_with_its_last_counters(net, flow):
    command = [sys.executable, "-c", "from polypath.cli import main; main()"]
    words = ["watch", "--netns", net.client, "--json", "--interval", "50ms", "--for", "5s"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        rows = [json.loads(process.stdout.readline()) for _ in range(8)]
        ip("ip", "-n", net.client, "mptcp", "endpoint", "flush")
        try:
            rows += [json.loads(line) for line in process.stdout]
        finally:
            ip("ip", "-n", net.client, "mptcp", "endpoint", "add", "10.77.2.1", "dev", "to2", "subflow")
    closed = [row for row in rows if row["event"] == "closed" and row["source"] == "10.77.2.1"]
    assert closed
    before = [
        row for row in rows if row["event"] == "sample" and (row["subflow"], row["token"]) == (closed[0]["subflow"], closed[0]["token"])
    ]
    assert before
    for counter in ("bytes_acked", "retransmissions", "cwnd"):
        assert closed[0][counter] == before[-1][counter]
    assert any(row["event"] == "sample" and row["subflow"] == 0 and row["time"] > closed[0]["time"] for row in rows)


def test_watch_once_prints_a_table(net, flow):
    done = polypath("watch", "--netns", net.client, "--once")
    assert (done.returncode, done.stderr) == (0, "")
    assert "MPTCP" in done.stdout
    assert done.stdout.count("10.77.9.2:5301") == 2
    assert "to1" in done.stdout
    assert "to2" in done.stdout


def test_the_doctor_finds_nothing_wrong_here(net, flow):
    wrong = [each for each in findings(collect(net.client), Question(role="client")) if each.severity == "wrong"]
    assert wrong == []
    done = polypath("doctor", "--netns", net.client, "--role", "client", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["namespace"] == net.client


def test_the_doctor_finds_a_missing_policy_route_and_its_cure_is_one(net):
    ip("ip", "-n", net.client, "rule", "delete", "from", "10.77.2.1")
    # The table that is there still is asked by nobody, and names the router all the same.
    assert found(net.client, "client", "10.77.9.2")["routing"][1] == "ip route add default via 10.77.2.254 dev to2 table 101"
    ip("ip", "-n", net.client, "route", "flush", "table", "2")
    try:
        ip("ip", "-n", net.client, "neighbour", "flush", "dev", "to2")
        cure = found(net.client, "client", "10.77.9.2")["routing"]
        # Nothing in the namespace says by which router that device leads on.
        assert "GATEWAY" in cure[1]
        ip("ip", "netns", "exec", net.client, "ping", "-c", "1", "-W", "2", "10.77.2.254")
        assert found(net.client, "client", "10.77.9.2")["routing"][1] == "ip route add default via 10.77.2.254 dev to2 table 101"
        for command in cure:
            ip("ip", "netns", "exec", net.client, *command.replace("GATEWAY", "10.77.2.254").split())
        assert "routing" not in found(net.client, "client", "10.77.9.2")
    finally:
        ip("ip", "-n", net.client, "rule", "delete", "from", "10.77.2.1")
        ip("ip", "-n", net.client, "route", "add", "default", "via", "10.77.2.254", "table", "2")
        ip("ip", "-n", net.client, "rule", "add", "from", "10.77.2.1", "table", "2")


def test_the_doctor_finds_missing_endpoints_and_limits_and_its_cures_work(net):
    ip("ip", "-n", net.client, "mptcp", "endpoint", "flush")
    ip("ip", "-n", net.client, "mptcp", "limits", "set", "subflow", "0")
    try:
        cures = found(net.client, "client", "10.77.9.2")
        assert cures["no-endpoints"] == ("ip mptcp endpoint add 10.77.2.1 dev to2 subflow",)
        for command in (*cures["no-endpoints"], *cures["no-subflows-allowed"]):
            ip("ip", "netns", "exec", net.client, *command.split())
        assert not {"no-endpoints", "no-subflows-allowed"} & set(found(net.client, "client", "10.77.9.2"))
    finally:
        ip("ip", "-n", net.client, "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")


def test_the_doctor_of_a_server_wants_signal_and_mptcp_switched_on(net):
    assert "wrong-flag" in found(net.client, "server", "10.77.9.2")
    cure = found(net.client, "server", "10.77.9.2")["wrong-flag"]
    assert cure[1] == "ip mptcp endpoint add 10.77.2.1 dev to2 signal"
    setting(net.rival, "net.mptcp.enabled", "0")
    try:
        done = polypath("doctor", "--netns", net.rival)
        assert done.returncode == 1
        assert "sysctl -w net.mptcp.enabled=1" in done.stdout
    finally:
        setting(net.rival, "net.mptcp.enabled", "1")
