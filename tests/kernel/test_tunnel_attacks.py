"""Attacks on the tunnel daemon that whoever is on one path, or on none, can try."""

import contextlib
import re
import socket
import struct
import time

import pytest
from tunnel_network import PATIENCE, PROGRAM, ROUTER, carried, command, connected, goodput, inside, ip, narrow, pings, until

from polypath.sockets import inside as inside_namespace

OUTER_IPV6 = "fd0{path}::{end}"


def test_who_is_on_one_path_does_not_get_another_one(routed):
    """The router of path 2 sends what it should carry to the other path's port."""
    tunnel = routed
    narrow(1500)
    tunnel.both_encrypted()
    client, server = connected()
    carried(server, client, 1_000_000)
    ip(0, "addr", "add", "192.168.1.77/24", "dev", "v1")
    relay = inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    relay.bind(("192.168.1.77", 5555))
    kept = inside_namespace(ROUTER, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)))
    kept.bind(("r0", 0x0800))
    kept.settimeout(0.2)
    for end in (0, 1):
        ip(ROUTER, "route", "replace", "blackhole", f"192.168.2.{end + 1}")
    relayed, end = 0, time.monotonic() + 5
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            packet = kept.recv(1 << 16)
            if packet[9] == socket.IPPROTO_UDP and packet[16:20] == socket.inet_aton("192.168.2.2") and relayed < 200:
                relay.sendto(packet[28:], ("192.168.1.2", 23456))
                relayed += 1
    assert relayed >= 5, "there was something to relay"
    assert tunnel.status(1)["paths"][0]["remote"] == "192.168.1.1:23456"
    # What is relayed shows no life of a path: one that is dead is left.
    for end in (0, 1):
        until(lambda end=end: tunnel.paths_up(end) == [True, False], "only the attacked path is lost")
    assert tunnel.status(1)["refused"]["wrong_path"] >= 5
    assert "do both files list the paths in the same order?" in command(str(PROGRAM), "status", "ppt-2").stdout
    carried(server, client, 2_000_000)
    assert pings(0, "10.99.0.2") >= 19


@pytest.mark.parametrize("allowed", [True, False])
def test_the_other_end_speaks_for_its_own_addresses_alone(tunnel, allowed):
    words = 'allowed_ips = ["10.99.0.2/32", "fd99::/64"]' if allowed else ""
    tunnel.encrypt()
    for end in (0, 1):
        file = tunnel.folder / f"ppt-{end + 1}.toml"
        if not end:
            file.write_text(file.read_text().replace("[tunnel]", f"[tunnel]\n{words}"))
        tunnel.start(end)
    until(lambda: pings(0, "10.99.0.2", count=3) == 3, "they agree on a session")
    assert pings(0, "fd99::2", count=3) == 3
    # End 1 sends from addresses that are not its own; no filter of Linux (rp_filter) is in the way.
    receiver = inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    receiver.bind(("10.99.0.1", 4000))
    receiver.settimeout(PATIENCE)
    for address in ("10.99.0.77", "fd98::77"):
        ip(1, "addr", "add", f"{address}/{128 if ':' in address else 32}", "dev", "lo", *(["nodad"] if ":" in address else []))
    sender = inside(1, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sender.bind(("10.99.0.77", 0))
    for _ in range(10):
        sender.sendto(b"foreign", ("10.99.0.1", 4000))
    sender6 = inside(1, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    sender6.bind(("fd98::77", 0))
    sender6.sendto(b"foreign", ("fd99::1", 4000))
    if allowed:
        until(lambda: tunnel.status(0)["refused"]["foreign_source"] >= 11, "they are counted")
        own = inside(1, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        own.sendto(b"own", ("10.99.0.1", 4000))
        assert receiver.recvfrom(100)[0] == b"own", "nothing else has come"
    else:
        assert receiver.recvfrom(100)[1][0] == "10.99.0.77"
        assert tunnel.status(0)["refused"]["foreign_source"] == 0


def forge_too_big(path, mtu, *, ipv6=False):
    """Somebody on no path tells end 0 that a router could not pass on a datagram."""
    ports = struct.pack("!HHHH", 23456, 23456, 1400, 0)
    if ipv6:
        source, to = (socket.inet_pton(socket.AF_INET6, OUTER_IPV6.format(path=path, end=end)) for end in (1, 2))
        quoted = struct.pack("!IHBB", 6 << 28, 1400, socket.IPPROTO_UDP, 64) + source + to + ports
        ip(1, "addr", "replace", f"fd0{path}::77/64", "dev", f"v{path}", "nodad")
        with inside(1, lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)) as out:
            out.bind((f"fd0{path}::77", 0))
            # RFC 4443 section 3.2; Linux fills in the checksum.
            out.sendto(struct.pack("!BBHI", 2, 0, 0, mtu) + quoted, (OUTER_IPV6.format(path=path, end=1), 0))
        return
    source, to = (socket.inet_aton(f"192.168.{path}.{end}") for end in (1, 2))
    quoted = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 1420, 1, 0x4000, 64, socket.IPPROTO_UDP, 0, source, to) + ports
    # RFC 792 and 1191: destination unreachable, fragmentation needed.
    message = struct.pack("!BBHHH", 3, 4, 0, 0, mtu) + quoted
    total = sum(struct.unpack(f"!{len(message) // 2}H", message))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    ip(1, "addr", "replace", f"192.168.{path}.77/24", "dev", f"v{path}")
    with inside(1, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)) as out:
        out.bind((f"192.168.{path}.77", 0))
        out.sendto(message[:2] + struct.pack("!H", ~total & 0xFFFF) + message[4:], (f"192.168.{path}.1", 0))


@pytest.mark.parametrize("outer", ["192.168.{path}.{end}", OUTER_IPV6])
def test_a_forged_icmp_message_does_not_stop_the_tunnel(tunnel, outer):
    tunnel.both_encrypted(outer=outer)
    before = goodput()
    for path in (1, 2):
        forge_too_big(path, 1280 if outer == OUTER_IPV6 else 576, ipv6=outer == OUTER_IPV6)
    after = goodput()
    status = tunnel.status(0)
    # A daemon that believes such messages carries a four thousandth.
    assert after > before / 10, f"{before / 1e6:.2f} and then {after / 1e6:.2f} Mbit/s"
    assert status["daemon"]["too_big"] == 0
    # No router fragments IPv6, so a true message would mean loss: it is not believed.
    said = [path["said_mtu"] for path in status["paths"]]
    assert said == ([1280, 1280] if outer == OUTER_IPV6 else [None, None])
    words = re.findall(r"a router says that path(\d) carries packets of 1280 bytes", command(str(PROGRAM), "status", "ppt-1").stdout)
    assert words == (["0", "1"] if outer == OUTER_IPV6 else [])


def test_a_path_that_is_narrower_than_the_tunnel_needs_fragments(routed):
    """Without ICMP and a search for MTUs, the router cuts what is too long of IPv4."""
    tunnel = routed
    narrow(1500)
    tunnel.both_encrypted()
    for mtu in (1450, 1400):
        for end in (0, 1):
            ip(ROUTER, "route", "replace", f"192.168.2.{end + 1}", "dev", f"r{end}", "mtu", "lock", str(mtu))
        # Both paths take turns.
        assert pings(0, "10.99.0.2", "-M", "do", "-s", str(tunnel.status(0)["mtu"] - 28)) == 20
    client, server = connected()
    carried(client, server, 1_000_000)
    carried(server, client, 1_000_000)
