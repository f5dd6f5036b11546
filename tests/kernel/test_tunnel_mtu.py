"""The tunnel's MTU: kept, searched without ICMP, and an MSS that is clamped to it."""

import json
import re
import socket

import pytest
from tunnel_network import PROGRAM, at, carried, command, connected, ip, narrow, pings, sent_packets, until


def test_the_mtu_is_kept_and_what_a_path_cannot_take_is_counted(tunnel):
    tunnel.both()
    assert pings(0, "10.99.0.2", "-M", "do", "-s", str(1464 - 28), count=5) >= 4
    assert pings(0, "10.99.0.2", "-M", "do", "-s", str(1465 - 28), count=2) == 0
    for end in (0, 1):
        ip(end, "link", "set", "v1", "mtu", "1400")
    pings(0, "10.99.0.2", "-M", "do", "-s", str(1464 - 28), count=4)
    until(lambda: tunnel.status(0)["daemon"]["too_big"] >= 1, "what does not fit is counted")


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_mtu_follows_the_narrowest_path_without_icmp(routed, encrypted):
    tunnel, headers = routed, 68 if encrypted else 36
    search = 'mtu = "search"'
    if encrypted:
        tunnel.both_encrypted(tunnel=search)
    else:
        tunnel.both(tunnel=search)

    def found(end):
        paths = tunnel.status(end)["paths"]
        return [path["mtu"] for path in paths if path["mtu_answered"]]

    def is_found(least, most):
        """Both ends know the router's MTU, and their devices follow."""
        for end in (0, 1):
            mtus = found(end)
            if len(mtus) < 2 or mtus[0] != 1500 or not least <= mtus[1] <= most:
                return False
            link = json.loads(ip(end, "-j", "link", "show", "ppt0"))
            if not link[0]["mtu"] == tunnel.status(end)["mtu"] == mtus[1] - headers:
                return False
        return True

    until(lambda: is_found(1430, 1450), "the router's MTU is found")
    mtu = tunnel.status(0)["mtu"]
    assert pings(0, "10.99.0.2", "-M", "do", "-s", str(mtu - 28)) == 20
    assert pings(0, "fd99::2") == 20
    client, server = connected()
    carried(client, server, 5_000_000)
    assert min(sent_packets(tunnel, 0)) > 100
    # The path becomes narrower, and nobody says so.
    narrow(1400)
    carried(client, server, 1_000_000)
    until(lambda: is_found(1400, 1400), "it is noticed")
    carried(client, server, 5_000_000)
    carried(server, client, 5_000_000)
    assert re.search(r"MTU\n(.*1500\n).*1400\n", command(str(PROGRAM), "status", "ppt-1").stdout)


def test_an_end_that_does_not_answer_probes_leaves_the_mtu_as_it_is(tunnel):
    tunnel.write(0, tunnel='mtu = "search"')
    tunnel.start(0)
    until(lambda: tunnel.status(0)["uptime_s"] > 2, "some probes are sent")
    status = tunnel.status(0)
    assert (status["mtu"], [path["mtu_answered"] for path in status["paths"]]) == (1464, [False, False])
    assert "1500?" in command(str(PROGRAM), "status", "ppt-1").stdout


@pytest.mark.parametrize("clamps", [False, True])
def test_a_clamped_mss_carries_what_stands_still_without(tunnel, clamps):
    """Both hosts take the tunnel for wider than it is, and nobody tells them."""
    tunnel.both(tunnel=f"clamp_mss = {str(clamps).lower()}")
    for end in (0, 1):
        at(end, "sysctl", "-q", "net.ipv4.tcp_mtu_probing=0")
        ip(end, "link", "set", "ppt0", "mtu", "1500")
    assert pings(0, "10.99.0.2", count=3) == 3
    for address, headers in (("10.99.0.2", 40), ("fd99::2", 60)):
        client, server = connected(address)
        if clamps:
            assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= 1464 - headers
            carried(client, server, 1_000_000)
            carried(server, client, 1_000_000)
        else:
            client.setblocking(False)
            client.send(bytes(50_000))
            server.settimeout(2)
            # The last segment may be short enough, but is not the first.
            with pytest.raises(TimeoutError):
                server.recv(1 << 16)
            until(lambda: tunnel.status(0)["daemon"]["too_big"] > 0, "what does not fit is dropped")
        client.close()
        server.close()
    # A SYN and its answer, of both IP versions, and perhaps again on a busy machine.
    for end in (0, 1):
        clamped = tunnel.status(end)["daemon"]["clamped"]
        assert clamped >= 2 if clamps else clamped == 0
