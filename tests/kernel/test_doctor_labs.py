"""The doctor on two hosts with three direct links, each time with one thing wrong: the cause stands
first, as wrong. Needs root and MPTCP.

    client 192.0.2.17, .33, .49 --- .18, .34, .50 server

What the kernel itself makes of each flag of an endpoint is asked of it first, since the doctor's
sentences rest on it.
"""

import itertools
import os
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from cc_network import ip, setting
from requirement import lacking

from polypath.doctor import Question, collect, findings
from polypath.doctor._collect import ability
from polypath.sockets import Sockets, inside

IPPROTO_MPTCP = 262
PATIENCE = 5.0
ATTEMPTS = 4
CLIENT, SERVER = ("192.0.2.17", "192.0.2.33", "192.0.2.49"), ("192.0.2.18", "192.0.2.34", "192.0.2.50")
# More than the doctor takes for a connection that had occasion to use all paths.
TELLING = 2_000_000


class Lab:
    """The two namespaces."""

    def __init__(self, name):
        self.client, self.server = f"{name}-c", f"{name}-s"
        for namespace in (self.client, self.server):
            ip("ip", "netns", "add", namespace)
            ip("ip", "-n", namespace, "link", "set", "lo", "up")
            setting(namespace, "net.ipv4.conf.all.rp_filter", "0")
            setting(namespace, "net.mptcp.blackhole_timeout", "0")
        for number, (here, there) in enumerate(zip(CLIENT, SERVER, strict=True), start=1):
            peer = ("type", "veth", "peer", "name", f"sv{number}", "netns", self.server)
            ip("ip", "-n", self.client, "link", "add", f"cl{number}", *peer)
            for namespace, device, address in ((self.client, f"cl{number}", here), (self.server, f"sv{number}", there)):
                ip("ip", "-n", namespace, "address", "add", f"{address}/28", "dev", device)
                ip("ip", "-n", namespace, "link", "set", device, "up")
        self.limits(2, 2)

    def limits(self, subflows, accepted, *namespaces):
        for namespace in namespaces or (self.client, self.server):
            ip("ip", "-n", namespace, "mptcp", "limits", "set", "subflows", subflows, "add_addr_accepted", accepted)

    def endpoint(self, namespace, address, *flags):
        ip("ip", "-n", namespace, "mptcp", "endpoint", "add", address, *flags)

    def routes(self):
        """The client's further addresses reach the server's first one by their own links."""
        for number, (here, there) in enumerate(zip(CLIENT[1:], SERVER[1:], strict=True), start=2):
            ip("ip", "-n", self.client, "rule", "add", "from", here, "table", number)
            ip("ip", "-n", self.client, "route", "add", "default", "via", there, "table", number)
            setting(self.server, f"net.ipv4.conf.sv{number}.rp_filter", "0")

    @contextmanager
    def connection(self, *, ask=(True, True), subflows=0):
        """One that has carried enough; `subflows`: how many further ones are waited for."""

        def made(asks):
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP if asks else 0)

        def listen():
            opened = made(ask[1])
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(("0.0.0.0", 5300))
            opened.listen()
            return opened

        def attempt(stack, until):
            listener = stack.enter_context(inside(self.server, listen))
            sender = stack.enter_context(inside(self.client, lambda: made(ask[0])))
            sender.connect((SERVER[0], 5300))
            receiver = stack.enter_context(listener.accept()[0])
            self._carry(sender, receiver)
            while len(self.joined()) < subflows:
                if time.monotonic() > until:
                    return False
                self._carry(sender, receiver)
            # Where nothing joins there is nothing to wait for.
            for _ in range(3 if subflows else 0):
                self._carry(sender, receiver)
            while not self.all_carry():
                if time.monotonic() > until:
                    return False
                self._carry(sender, receiver)
            return True

        # The same connection does not try again a join that fails (MP_JOIN may come too early).
        for _ in range(ATTEMPTS):
            with ExitStack() as stack:
                if attempt(stack, time.monotonic() + PATIENCE):
                    yield
                    return
        raise AssertionError(f"of {subflows} subflows {self.joined()} came up")

    def _carry(self, sender, receiver):
        thread = threading.Thread(target=sender.sendall, args=(bytes(TELLING),))
        thread.start()
        got = 0
        while got < TELLING:
            got += len(receiver.recv(1 << 20))
        thread.join()

    def joined(self):
        """The pairs of addresses of further subflows that are up, as the client has them."""
        return {(each.source, each.destination) for each in Sockets(self.client).look() if each.joined and each.state == "established"}

    def all_carry(self):
        """Each further subflow that is up has data of it; a backup waits."""
        up = (each for each in Sockets(self.client).look() if each.joined and each.state == "established")
        return all(each.backup or each.bytes_acked + each.bytes_received for each in up)

    def asks(self, namespace, role):
        return findings(collect(namespace, SERVER if namespace == self.client else CLIENT[:1]), Question(role=role))

    def client_asks(self, role="client"):
        return self.asks(self.client, role)

    def server_asks(self, role="server"):
        return self.asks(self.server, role)


_numbers = itertools.count(1)


@pytest.fixture
def lab():
    if os.geteuid():
        lacking("host", "namespaces need root")
    if ability() != "works":
        lacking("host", "this kernel has no MPTCP, or it is switched off")
    name = f"pp-doctor-{os.getpid()}-{next(_numbers)}"
    try:
        yield Lab(name)
    finally:
        for end in "cs":
            ip("ip", "netns", "delete", f"{name}-{end}")


def wrong(found):
    return [each.id for each in found if each.severity == "wrong"]


def doubts(found):
    return {each.id: each.sentence for each in found if each.severity == "doubt"}


def cure(namespace, finding):
    for number, command in enumerate(finding.run):
        ip("ip", "netns", "exec", namespace, *command.replace("PORT", str(5400 + number)).split())


# Without "subflow" the kernel makes no subflow of its own accord; what is announced is taken up
# from where "fullmesh" says, too.
@pytest.mark.parametrize(
    ("flags", "opens", "answers"),
    [
        ("", False, False),
        ("backup", False, False),
        ("fullmesh", False, True),
        ("fullmesh backup", False, True),
        ("signal", False, False),
        ("subflow", True, False),
        ("subflow backup", True, False),
        ("subflow fullmesh", True, True),
        ("subflow signal", True, False),
    ],
)
def test_what_the_kernel_makes_of_an_endpoints_flags(lab, flags, opens, answers):
    lab.routes()
    lab.limits(4, 4)
    lab.endpoint(lab.client, CLIENT[1], "dev", "cl2", *flags.split())
    # The kernel's own choice for the address that is announced is another device.
    lab.endpoint(lab.server, SERVER[2], "signal")
    with lab.connection(subflows=2 if opens else 1):
        joined = lab.joined()
        found = lab.client_asks()
    assert ((CLIENT[1], SERVER[0]) in joined, (CLIENT[1], SERVER[2]) in joined) == (opens, answers)
    ids = {each.id for each in found}
    assert ("idle-endpoint" in ids) == (not opens and not answers and flags != "signal")
    assert ("wrong-flag" in ids) == (flags == "signal")


@pytest.mark.parametrize("accepted", [0, 2])
@pytest.mark.parametrize("flags", ["", "backup", "fullmesh", "fullmesh backup"])
def test_an_endpoint_that_makes_no_subflow_is_wrong(lab, flags, accepted):
    lab.routes()
    lab.limits(2, accepted)
    lab.endpoint(lab.client, CLIENT[1], "dev", "cl2", *flags.split())
    with lab.connection():
        assert lab.joined() == set()
        found = lab.client_asks()
    assert wrong(found) == ["idle-endpoint"]
    assert found[0].sentence.startswith(f"the endpoint {CLIENT[1]} has neither subflow nor signal: ")
    cure(lab.client, found[0])
    with lab.connection(subflows=1):
        assert lab.joined() == {(CLIENT[1], SERVER[0])}
        assert wrong(lab.client_asks()) == []


def test_what_the_server_announces_and_nobody_takes_up_is_the_cause(lab):
    lab.limits(2, 0)
    lab.endpoint(lab.server, SERVER[1], "dev", "sv2", "signal")
    with lab.connection():
        found = lab.client_asks()
        assert wrong(lab.server_asks()) == []
    assert wrong(found) == ["announcements-ignored"]
    assert found[0].sentence.startswith("the other host announced an address once, and none is taken up (add_addr_accepted 0)")
    cure(lab.client, found[0])
    with lab.connection(subflows=1):
        assert lab.joined() == {(CLIENT[1], SERVER[1])}
        again = lab.client_asks()
    assert wrong(again) == []
    # The third link is there still, and nothing uses it.
    assert doubts(again)["path-unused"].endswith("and not cl3")
    # What a live subflow does is not called impossible.
    assert "routing" not in {each.id for each in again}


def test_a_third_path_that_is_not_used_is_doubtful_and_the_server_says_why(lab):
    lab.limits(3, 3)
    for number in (1, 2):
        lab.endpoint(lab.server, SERVER[number], "dev", f"sv{number + 1}", "subflow", "signal")
    with lab.connection(subflows=1):
        assert lab.joined() == {(CLIENT[1], SERVER[1])}
        client, server = lab.client_asks(), lab.server_asks()
    assert wrong(client) == []
    assert "uses cl1 (" in doubts(client)["path-unused"] and doubts(client)["path-unused"].endswith("and not cl3")
    assert wrong(server) == ["both-flags"]
    assert server[0].sentence.startswith(
        f"the endpoints {SERVER[1]} and {SERVER[2]} have both signal and subflow: the kernel announces one"
    )
    # The address whose subflow is up needs no route to where none comes from.
    assert SERVER[1] not in doubts(server).get("routing", "")
    cure(lab.server, server[0])
    with lab.connection(subflows=2):
        assert lab.joined() == {(CLIENT[1], SERVER[1]), (CLIENT[2], SERVER[2])}
        assert {each.id for each in lab.client_asks()} >= {"paths-used"}
        assert "path-unused" not in doubts(lab.client_asks())


def test_fewer_subflows_than_announced_addresses(lab):
    lab.limits(1, 2, lab.server)
    for number in (1, 2):
        lab.endpoint(lab.server, SERVER[number], "signal")
    with lab.connection(subflows=1):
        client, server = lab.client_asks(), lab.server_asks()
    assert wrong(server) == ["few-subflows-allowed"]
    assert "path-unused" in doubts(client)
    assert "it has 1 further subflows, and no more are allowed" in doubts(server)["path-unused"]


def test_a_host_that_is_client_and_server(lab):
    lab.limits(4, 4)
    lab.routes()
    for number in (1, 2):
        lab.endpoint(lab.server, SERVER[number], "dev", f"sv{number + 1}", "subflow", "signal")
    (finding,) = (each for each in lab.server_asks("both") if each.id == "both-flags")
    assert (finding.severity, SERVER[2] in finding.sentence, "PORT stands for" in finding.sentence) == ("wrong", True, True)
    cure(lab.server, finding)
    assert "both-flags" not in wrong(lab.server_asks("both"))
    with lab.connection(subflows=2):
        assert {there for _, there in lab.joined()} == {SERVER[1], SERVER[2]}
    # The same endpoints at a client.
    (missing,) = (each for each in lab.client_asks("both") if each.id == "no-endpoints")
    cure(lab.client, missing)
    ip("ip", "-n", lab.server, "mptcp", "endpoint", "flush")
    assert wrong(lab.client_asks("both")) == []
    with lab.connection(subflows=2):
        # Its announcements have a port, so the server may open subflows, too.
        assert lab.joined() >= {(CLIENT[1], SERVER[0]), (CLIENT[2], SERVER[0])}
    for flag, lacks in (("subflow", "signal"), ("signal", "subflow")):
        ip("ip", "-n", lab.client, "mptcp", "endpoint", "flush")
        lab.endpoint(lab.client, CLIENT[1], flag)
        found = lab.client_asks("both")
        assert "wrong-flag" in wrong(found)
        assert any(f"is without {lacks}" in each.sentence for each in found)


def test_a_clients_announcement_with_a_port_is_taken_up_by_a_server_that_wants_to(lab):
    lab.endpoint(lab.client, CLIENT[1], "signal", "port", "5500")
    with lab.connection(subflows=1):
        assert lab.joined() == {(CLIENT[1], SERVER[1])}
        assert "wrong-flag" not in {each.id for each in lab.client_asks()}
    lab.limits(2, 0, lab.server)
    with lab.connection():
        assert lab.joined() == set()
        finding = next(each for each in lab.client_asks() if each.id == "wrong-flag")
    assert (finding.severity, "port 5500" in finding.sentence) == ("doubt", True)
    assert finding.run[1] == f"ip mptcp endpoint add {CLIENT[1]} subflow"


def test_devices_and_addresses_of_endpoints(lab):
    lab.routes()
    lab.endpoint(lab.client, CLIENT[1], "dev", "cl2", "subflow")
    ip("ip", "-n", lab.server, "link", "set", "sv2", "down")
    assert [(each.id, each.run) for each in lab.client_asks() if each.severity == "wrong"] == [("device-down", ())]
    ip("ip", "-n", lab.client, "link", "set", "cl2", "down")
    (down,) = (each for each in lab.client_asks() if each.severity == "wrong")
    assert (down.id, down.run) == ("device-down", ("ip link set cl2 up",))
    ip("ip", "-n", lab.client, "mptcp", "endpoint", "flush")
    lab.endpoint(lab.client, "192.0.2.40", "subflow")
    assert wrong(lab.client_asks()) == ["address-missing"]
    # A server may announce what a translator has, and this one is said to be near.
    lab.endpoint(lab.server, "192.0.2.55", "signal")
    lab.endpoint(lab.server, "198.51.100.7", "signal")
    assert [each.sentence for each in lab.server_asks() if each.id == "address-missing"] == [
        "the endpoint 192.0.2.55 is announced, and no device here has that address, though sv3 is in its net: "
        "all is well only behind an address translator"
    ]


@pytest.mark.parametrize(
    ("client", "server", "client_told", "server_told"),
    [
        (False, True, "its program here did not ask for it", "the program here that listens speaks it, so the one there did not ask"),
        (True, False, "its program here asked for it, and the answer had none", "the program here that listens does not speak it"),
        (False, False, "its program here did not ask for it", "the program here that listens does not speak it"),
    ],
)
def test_which_program_did_not_speak_mptcp(lab, client, server, client_told, server_told):
    """A listener of Go 1.24 or later speaks it unasked, as the second of `ask` does here."""
    with lab.connection(ask=(client, server)):
        for found, told in ((lab.client_asks(), client_told), (lab.server_asks(), server_told)):
            assert told in doubts(found)["plain-tcp"]
