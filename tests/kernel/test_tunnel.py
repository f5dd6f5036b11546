"""The tunnel daemon between two namespaces of this machine's kernel: traffic, failure, restart, what the network may send.

They need root and TUN devices; what the machine lacks is skipped with the reason, and fails with host in POLYPATH_REQUIRE.
Times are those of a machine that may be busy: what must happen is waited for, long.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from requirement import lacking

from polypath import emu
from polypath.study import load_setup

PROGRAM = Path(emu.__file__).parents[1] / "tunnel" / "bin" / "polypath-tunnel"
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "bond-two-uplinks.md"
NAMES = ("ppt-a", "ppt-b")
# Seconds after which something that has not happened will not happen.
PATIENCE = 30
PORT = 5001


def command(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=check, timeout=2 * PATIENCE)


def at(end: int, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return command("ip", "netns", "exec", NAMES[end], *words, check=check)


def until(condition: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.05)


@dataclass
class Tunnel:
    """Two ends joined by two veth paths, and the files of their tunnels."""

    folder: Path
    up: list[int] = field(default_factory=list)

    def write(self, end: int, *, outer: str = "192.168.{path}.{end}", tunnel: str = "", more: str = "") -> Path:
        own, other = end + 1, 2 - end
        text = f'name = "ppt-{own}"\n[tunnel]\ndevice = "ppt0"\n'
        text += f'addresses = ["10.99.0.{own}/24", "fd99::{own}/64"]\npeer = "10.99.0.{other}"\n{tunnel}\n'
        text += f'[keepalive]\ninterval = "200ms"\ndead_time = "2s"\n{more}\n'
        for path in (1, 2):
            text += f'[[path]]\nlocal = "{outer.format(path=path, end=own)}"\nremote = "{outer.format(path=path, end=other)}"\n'
        file = self.folder / f"ppt-{own}.toml"
        file.write_text(text)
        return file

    def encrypt(self, *, keys: tuple[str, str] = ("a", "b"), strange: bool = False, tunnel: str = "") -> None:
        """Files of both ends, with keys; strange: end 0 does not know the key of end 1."""
        public = [command(str(PROGRAM), "keygen", str(self.folder / f"{key}.key")).stdout.strip() for key in keys]
        other = command(str(PROGRAM), "keygen", str(self.folder / "c.key")).stdout.strip()
        for end in (0, 1):
            peer = other if strange and end == 0 else public[1 - end]
            self.write(end, tunnel=tunnel, more=f'[encryption]\nprivate_key = "{keys[end]}.key"\npeer_public_key = "{peer}"')

    def start(self, end: int) -> None:
        done = at(end, str(PROGRAM), "up", str(self.folder / f"ppt-{end + 1}.toml"), check=False)
        assert done.returncode == 0, done.stderr
        self.up.append(end)

    def both(self, **settings: Any) -> None:
        for end in (0, 1):
            self.write(end, **settings)
            self.start(end)

    def both_encrypted(self, **settings: Any) -> None:
        """Both ends, once they have agreed on a session: what comes earlier is dropped."""
        self.encrypt(**settings)
        for end in (0, 1):
            self.start(end)
        for end in (0, 1):
            until(lambda end=end: self.status(end)["encryption"]["session_age_s"] is not None, "both ends agree on a session")

    def status(self, end: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(command(str(PROGRAM), "status", f"ppt-{end + 1}", "--json").stdout)
        return found

    def paths_up(self, end: int) -> list[bool]:
        return [path["up"] for path in self.status(end)["paths"]]


@pytest.fixture
def tunnel(tmp_path: Path) -> Iterator[Tunnel]:
    reason = ""
    try:
        emu.require_root()
    except emu.EmuError as error:
        reason = str(error)
    if not reason and not Path("/dev/net/tun").exists():
        reason = "this kernel has no TUN devices"
    if not reason and not PROGRAM.is_file():
        reason = "the program polypath-tunnel was not built: make setup-all"
    if reason:
        lacking("host", reason)
    for name in NAMES:
        command("ip", "netns", "del", name, check=False)
        command("ip", "netns", "add", name)
        command("ip", "-n", name, "link", "set", "lo", "up")
    for path in (1, 2):
        command("ip", "link", "add", f"v{path}", "netns", NAMES[0], "type", "veth", "peer", "name", f"v{path}", "netns", NAMES[1])
        for end in (0, 1):
            command("ip", "-n", NAMES[end], "addr", "add", f"192.168.{path}.{end + 1}/24", "dev", f"v{path}")
            command("ip", "-n", NAMES[end], "addr", "add", f"fd0{path}::{end + 1}/64", "dev", f"v{path}", "nodad")
            command("ip", "-n", NAMES[end], "link", "set", f"v{path}", "up")
    made = Tunnel(tmp_path)
    try:
        yield made
    finally:
        for end in (0, 1):
            command(str(PROGRAM), "down", f"ppt-{end + 1}", check=False)
        for name in NAMES:
            command("ip", "netns", "del", name, check=False)


def pings(end: int, address: str, *more: str, count: int = 20) -> int:
    """How many of so many were answered."""
    said = at(end, "ping", "-q", "-c", str(count), "-i", "0.05", "-W", "5", *more, address, check=False).stdout
    found = re.search(r"(\d+) received", said)
    assert found, said
    return int(found[1])


def inside(end: int, work: Callable[[], socket.socket]) -> socket.socket:
    from polypath import sockets

    return sockets.inside(NAMES[end], work)


def connected(address: str = "10.99.0.2") -> tuple[socket.socket, socket.socket]:
    """A TCP connection through the tunnel: its ends at 0 and at 1."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = inside(1, lambda: socket.create_server((address, PORT), family=family))
    client = inside(0, lambda: socket.create_connection((address, PORT), PATIENCE))
    server, _ = listener.accept()
    listener.close()
    for end in (client, server):
        end.settimeout(PATIENCE)
    return client, server


def carried(client: socket.socket, server: socket.socket, length: int) -> None:
    """Random bytes come out as they went in."""
    data = os.urandom(length)
    sender = threading.Thread(target=client.sendall, args=(data,))
    sender.start()
    got = bytearray()
    while len(got) < length:
        part = server.recv(1 << 16)
        assert part
        got += part
    sender.join()
    assert bytes(got) == data


@pytest.mark.parametrize("settings", [{}, {"tunnel": "offload = false"}, {"more": '[reorder]\nrule = "mpt"\npackets = 1600'}])
def test_traffic_uses_both_paths_and_stays_whole(tunnel: Tunnel, settings: dict[str, str]) -> None:
    tunnel.both(**settings)
    assert pings(0, "10.99.0.2") >= 19
    assert pings(0, "fd99::2") >= 19
    client, server = connected()
    carried(client, server, 20_000_000)
    sent = sent_packets(tunnel, 0)
    assert min(sent) > 0.4 * sum(sent)
    assert (tunnel.status(0)["tun_offload"] == "None") == ("offload" in settings.get("tunnel", ""))


def test_ipv6_outside(tunnel: Tunnel) -> None:
    tunnel.both(outer="fd0{path}::{end}")
    assert pings(0, "10.99.0.2") >= 19
    assert pings(1, "fd99::1") >= 19
    client, server = connected()
    carried(client, server, 5_000_000)


def numbered(streams: int, packets: int) -> list[list[int]]:
    """Numbers that arrive at end 1 of as many streams of datagrams, sent by turns from end 0 in bursts of one to sixteen."""
    receivers = [inside(1, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(streams)]
    senders = [inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(streams)]
    for number, receiver in enumerate(receivers):
        receiver.bind(("10.99.0.2", PORT + number))
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
        receiver.settimeout(1)
    for first in range(0, packets, 16):
        for number, sender in enumerate(senders):
            for each in range(first, min(first + 1 + (first // 16 + number) % 16, packets)):
                sender.sendto(each.to_bytes(4, "big") + bytes(each % 1200), ("10.99.0.2", PORT + number))
        time.sleep(0.001)
    found: list[list[int]] = []
    for receiver in receivers:
        got: list[int] = []
        with contextlib.suppress(TimeoutError):
            while True:
                got.append(int.from_bytes(receiver.recv(2048)[:4], "big"))
        found.append(got)
    for end in [*senders, *receivers]:
        end.close()
    return found


@pytest.fixture
def unequal(tunnel: Tunnel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tunnel]:
    """The same ends with paths of 10 Mbit/s and 40 ms, and of 30 Mbit/s and 1 ms."""
    if Path("/run/polypath/emu.json").exists():
        lacking("host", "an emulated network is up here already: take it down (polypath emu down)")
    links = ""
    for path, (rate, delay) in enumerate((("10mbit", "40ms"), ("30mbit", "1ms")), 1):
        ends = ", ".join(f"{{node: {node}, address: 192.168.{path}.{end}}}" for end, node in enumerate("ab", 1))
        links += f"    p{path}: {{ends: [{ends}], both: {{rate: {rate}, queue: 1000packets, delay: {delay}}}}}\n"
    file = tmp_path / "topology.yaml"
    file.write_text(f"topology:\n  nodes: {{a: , b: }}\n  links:\n{links}")
    # Late packets are late for the tunnel, too: nothing here is exact.
    emu.up(str(file), load_setup(file))
    monkeypatch.setitem(globals(), "NAMES", ("pp-a", "pp-b"))
    for end in (0, 1):
        # The network has no IPv6, and the tunnel has addresses of it.
        at(end, "sysctl", "-q", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
    try:
        yield tunnel
    finally:
        for end in (0, 1):
            command(str(PROGRAM), "down", f"ppt-{end + 1}", check=False)
        emu.down()


def sent_packets(tunnel: Tunnel, end: int) -> list[int]:
    return [path["packets_sent"] for path in tunnel.status(end)["paths"]]


def datagrams(rate: int, packets: int) -> None:
    """So many datagrams of 1200 bytes from end 0 to end 1, so many a second."""
    with inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender:
        begin = time.monotonic()
        for number in range(packets):
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            sender.sendto(bytes(1200), ("10.99.0.2", PORT))


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_earliest_path_is_learnt_and_what_fits_it_stays_there(unequal: Tunnel, encrypted: bool) -> None:
    tunnel = unequal
    earliest = 'distribution = "earliest"'
    if encrypted:
        tunnel.both_encrypted(tunnel=earliest)
    else:
        tunnel.both(tunnel=earliest)
    assert pings(0, "10.99.0.2") >= 19
    # 5 Mbit/s fit the fast path with room to spare, however busy the machine is.
    before = sent_packets(tunnel, 0)

    def sent_since() -> list[int]:
        return [now - then for now, then in zip(sent_packets(tunnel, 0), before, strict=True)]

    datagrams(500, 1000)
    # The last ones may still wait in the device.
    until(lambda: sum(sent_since()) >= 1000, "all are sent")
    sent = sent_since()
    assert sent[0] < 0.2 * sent[1], sent
    # 80 Mbit/s are more than both carry: how much each does is found out, and what is too much waits in the device.
    learnt = threading.Event()

    def send() -> None:
        while not learnt.is_set():
            datagrams(8000, 4000)

    def is_learnt() -> bool:
        slow, fast = (path["estimate"] for path in tunnel.status(0)["paths"])
        if not (slow["capacity_bits_per_s"] and fast["capacity_bits_per_s"]) or min(sent_since()) < 500:
            return False
        capacities = 6e6 < slow["capacity_bits_per_s"] < 15e6 and 20e6 < fast["capacity_bits_per_s"] < 45e6
        return bool(capacities and 0.02 < slow["behind_s"] < 0.08 and fast["behind_s"] == 0)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        until(is_learnt, "capacities and delays are found out")
    finally:
        learnt.set()
        sender.join()
    assert tunnel.status(0)["reported"] is True
    client, server = connected()
    carried(client, server, 2_000_000)
    table = command(str(PROGRAM), "status", "ppt-1").stdout
    assert "capacity" in table and "Mbit/s" in table


def test_an_end_that_sends_no_reports_is_served_by_turns(tunnel: Tunnel) -> None:
    tunnel.write(0, tunnel='distribution = "earliest"')
    tunnel.write(1)
    tunnel.start(0)
    tunnel.start(1)
    client, server = connected()
    carried(client, server, 5_000_000)
    carried(server, client, 1_000_000)
    until(lambda: tunnel.status(0)["reported"] is False, "it is noticed")
    assert "packets take turns by weight" in command(str(PROGRAM), "status", "ppt-1").stdout
    before = sent_packets(tunnel, 0)
    carried(client, server, 20_000_000)
    sent = [now - then for now, then in zip(sent_packets(tunnel, 0), before, strict=True)]
    assert min(sent) > 0.4 * sum(sent)
    # It learns to.
    tunnel.write(1, tunnel='distribution = "earliest"')
    os.kill(tunnel.status(1)["pid"], signal.SIGHUP)
    until(lambda: tunnel.status(0)["reported"] is True, "reports come")
    carried(client, server, 1_000_000)


@pytest.mark.parametrize("more", ['[reorder]\nrule = "off"', '[reorder]\nrule = "progress"'])
def test_packets_of_one_flow_stay_in_order_and_flows_share_the_paths(tunnel: Tunnel, more: str) -> None:
    tunnel.both(tunnel='distribution = "flows"', more=more)
    for got in numbered(16, 800):
        assert got == sorted(got)
        assert len(got) > 100
    # Sixteen flows on one of two paths, by chance: once in 32768.
    assert min(path["packets_sent"] for path in tunnel.status(0)["paths"]) > 100


def test_a_dead_path_is_left_and_a_flapping_one_used_again(tunnel: Tunnel) -> None:
    tunnel.both()
    client, server = connected()
    for _ in range(2):
        command("ip", "-n", NAMES[1], "link", "set", "v2", "down")
        for end in (0, 1):
            until(lambda end=end: tunnel.paths_up(end) == [True, False], "the path goes down")
        assert pings(0, "10.99.0.2") == 20
        carried(client, server, 1_000_000)
        command("ip", "-n", NAMES[1], "link", "set", "v2", "up")
        command("ip", "-n", NAMES[1], "addr", "replace", "192.168.2.2/24", "dev", "v2")
        for end in (0, 1):
            until(lambda end=end: tunnel.paths_up(end) == [True, True], "the path comes up")
    assert tunnel.status(0)["paths"][1]["went_down"] >= 2


def test_a_killed_daemon_that_comes_back_keeps_connections(tunnel: Tunnel) -> None:
    tunnel.both()
    client, server = connected()
    carried(client, server, 1_000_000)
    os.kill(tunnel.status(1)["pid"], 9)
    until(lambda: "ppt0" not in command("ip", "-n", NAMES[1], "link").stdout, "the device goes")
    # Its socket may live on for a moment; the new daemon waits for it.
    tunnel.start(1)
    carried(client, server, 1_000_000)
    carried(server, client, 1_000_000)


def test_what_is_not_the_peers_is_counted_and_harms_nothing(tunnel: Tunnel) -> None:
    keyed = 'encapsulation = "rfc8086"\nkey = 7'
    tunnel.both(tunnel=keyed)
    stranger = inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    command("ip", "-n", NAMES[0], "addr", "add", "192.168.1.77/24", "dev", "v1")
    peer = inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    peer.bind(("192.168.1.1", 0))
    stranger.bind(("192.168.1.77", 0))
    to = ("192.168.1.2", 4754)
    stranger.sendto(b"\x20\0\x08\0\0\0\0\x07" + b"\x45" * 20, to)
    peer.sendto(b"\x20\0\x08\0\0\0\0\x08" + b"\x45" * 20, to)
    for length in range(1, 200):
        peer.sendto(os.urandom(length), to)
    until(lambda: sum(tunnel.status(1)["refused"].values()) >= 200, "all are counted")
    refused = tunnel.status(1)["refused"]
    assert refused["unknown_address"] == 1
    assert refused["wrong_key"] >= 1
    assert refused["malformed"] > 50
    assert pings(0, "10.99.0.2") >= 19


def overheard(device: str, want: Callable[[bytes], bool], count: int, listens: threading.Event) -> list[bytes]:
    """UDP datagrams that pass a device at end 1, whole packets from the IP header on."""
    limit = time.monotonic() + PATIENCE
    listener = inside(1, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)))
    listener.bind((device, 0x0800))
    listener.settimeout(PATIENCE)
    listens.set()
    found: list[bytes] = []
    with listener:
        # Keepalives come for ever.
        while len(found) < count and time.monotonic() < limit:
            packet = listener.recv(1 << 16)
            if packet[9] == socket.IPPROTO_UDP and packet[12:16] == socket.inet_aton("192.168.1.1") and want(packet[28:]):
                found.append(packet[28:])
    return found


def test_an_encrypted_tunnel_carries_traffic_that_nobody_reads(tunnel: Tunnel) -> None:
    tunnel.both_encrypted()
    assert tunnel.status(0)["mtu"] == 1464 - 32
    secret = b"nobody but the other end reads this"
    client, server = connected()
    heard: list[bytes] = []
    listens = threading.Event()
    listening = threading.Thread(target=lambda: heard.extend(overheard("v1", lambda data: len(data) > 500, 20, listens)))
    listening.start()
    assert listens.wait(PATIENCE), "it listens"
    sender = threading.Thread(target=client.sendall, args=(secret * 200_000,))
    sender.start()
    length = 0
    while length < len(secret) * 200_000:
        length += len(server.recv(1 << 16))
    sender.join()
    listening.join()
    assert len(heard) == 20 and all(data[0] == 0x44 and secret not in data for data in heard)
    carried(server, client, 5_000_000)
    sent = sent_packets(tunnel, 0)
    assert min(sent) > 0.4 * sum(sent)
    assert tunnel.status(0)["refused"]["not_authentic"] == 0


def test_replays_and_strangers_are_refused(tunnel: Tunnel) -> None:
    tunnel.both_encrypted()
    assert pings(0, "10.99.0.2") >= 19
    before = tunnel.status(1)["refused"]
    heard: list[bytes] = []
    listens = threading.Event()
    listening = threading.Thread(target=lambda: heard.extend(overheard("v1", lambda data: data[0] == 0x44, 5, listens)))
    listening.start()
    assert listens.wait(PATIENCE), "it listens"
    pings(0, "10.99.0.2")
    listening.join()
    # From the peer's own address, and from another one, to which the tunnel must not turn.
    command("ip", "-n", NAMES[0], "addr", "add", "192.168.1.77/24", "dev", "v1")
    for address in ("192.168.1.1", "192.168.1.77"):
        sender = inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sender.bind((address, 0))
        for data in heard:
            sender.sendto(data, ("192.168.1.2", 23456))
            sender.sendto(data[:-1] + bytes([data[-1] ^ 1]), ("192.168.1.2", 23456))
            sender.sendto(b"\x10\0\x08\0\0\0\0\x01" + b"\x45" * 20, ("192.168.1.2", 23456))
        sender.close()
    until(lambda: tunnel.status(1)["refused"]["replayed"] >= before["replayed"] + 10, "replays are counted")
    until(lambda: tunnel.status(1)["refused"]["malformed"] >= before["malformed"] + 10, "what is not encrypted is refused")
    assert tunnel.status(1)["paths"][0]["remote"] == "192.168.1.1:23456"
    assert pings(0, "10.99.0.2") >= 19


def test_a_wrong_key_carries_nothing(tunnel: Tunnel) -> None:
    tunnel.encrypt(strange=True)
    tunnel.start(0)
    tunnel.start(1)
    assert pings(0, "10.99.0.2", count=3) == 0
    until(lambda: tunnel.status(0)["refused"]["not_authentic"] >= 1, "the other end's handshakes are refused")
    assert tunnel.status(0)["encryption"]["session_age_s"] is None
    assert tunnel.status(0)["encryption"]["initiations_sent"] >= 1
    assert tunnel.status(0)["daemon"]["no_session"] >= 1


def forged(public: str, number: int) -> bytes:
    """What somebody can send who knows a machine's public key and nothing else: an initiation that costs as much as a real one."""
    body = b"\x41\0\0\0" + struct.pack("!IQ", number, number) + b"\x5a" * 96
    return body + hmac.new(base64.b64decode(public), body, hashlib.blake2s).digest()[:16] + bytes(16)


@contextlib.contextmanager
def flood(public: str, senders: list[str]) -> Iterator[None]:
    """Some thousand forged initiations a second from these addresses of path 1 to end 0."""
    udp = struct.Struct("!HHHH")
    messages = [forged(public, number) for number in range(100)]
    # Linux fills in the rest of the IP header; a checksum of 0 is none.
    packets = [
        struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, 17, 0, socket.inet_aton(sender), socket.inet_aton("192.168.1.1"))
        + udp.pack(23456, 23456, udp.size + len(message), 0)
        + message
        for message in messages
        for sender in senders
    ]
    stop = threading.Event()

    def send() -> None:
        with inside(1, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)) as out:
            while not stop.wait(0.002):
                for packet in packets[:10]:
                    with contextlib.suppress(OSError):
                        out.sendto(packet, ("192.168.1.1", 0))
                packets.extend(packets[:10])
                del packets[:10]

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_flood_of_handshakes_does_not_keep_the_other_end_out(tunnel: Tunnel) -> None:
    tunnel.encrypt()
    # End 0 looks for the other one where nobody is, so end 1 has to begin, from an address that end 0 does not know.
    file = tunnel.folder / "ppt-1.toml"
    file.write_text(re.sub(r'remote = "192.168.(.).2"', r'remote = "192.168.\1.200"', file.read_text()))
    public = command(str(PROGRAM), "pubkey", str(tunnel.folder / "a.key")).stdout.strip()
    tunnel.start(0)

    def seen(name: str) -> int:
        return int(tunnel.status(0)["encryption"][name])

    with flood(public, [f"192.168.1.{number}" for number in range(10, 110)]):
        until(lambda: tunnel.status(0)["refused"]["busy"] >= 100, "there are more than are looked at")
        until(lambda: seen("cookies_sent") >= 100, "the others are answered with cookies")
        tunnel.start(1)
        until(lambda: seen("initiations_received") >= 1, "the other end's is looked at")
        assert tunnel.status(1)["encryption"]["cookies_received"] >= 1
        until(lambda: all(path["remote"].endswith(".2:23456") for path in tunnel.status(0)["paths"]), "it is found on both paths")
        assert pings(0, "10.99.0.2") >= 19
    # Now it says that it is the other end itself, which starts again.
    client, server = connected()
    with flood(public, ["192.168.1.2"]):
        busy = tunnel.status(0)["refused"]["busy"]
        until(lambda: tunnel.status(0)["refused"]["busy"] >= busy + 100, "its place is taken")
        os.kill(tunnel.status(1)["pid"], signal.SIGKILL)
        until(lambda: "ppt0" not in command("ip", "-n", NAMES[1], "link").stdout, "the device goes")
        before = seen("initiations_received")
        tunnel.start(1)
        until(lambda: seen("initiations_received") > before, "it is let in")
        carried(client, server, 1_000_000)
        carried(server, client, 1_000_000)


def test_an_encrypted_peer_may_change_its_address_and_start_again(tunnel: Tunnel) -> None:
    tunnel.both_encrypted()
    client, server = connected()
    carried(client, server, 1_000_000)
    # End 0 moves on path 1: its file has another address and port, that of end 1 the old ones.
    command("ip", "-n", NAMES[0], "addr", "add", "192.168.1.9/24", "dev", "v1")
    file = tunnel.folder / "ppt-1.toml"
    file.write_text(file.read_text().replace('local = "192.168.1.1"', 'local = "192.168.1.9"\nport = 4000\nremote_port = 23456'))
    os.kill(tunnel.status(0)["pid"], signal.SIGHUP)
    until(lambda: tunnel.status(1)["paths"][0]["remote"] == "192.168.1.9:4000", "the other end follows")
    carried(client, server, 1_000_000)
    carried(server, client, 1_000_000)
    os.kill(tunnel.status(1)["pid"], signal.SIGKILL)
    until(lambda: "ppt0" not in command("ip", "-n", NAMES[1], "link").stdout, "the device goes")
    tunnel.start(1)
    carried(client, server, 1_000_000)
    carried(server, client, 1_000_000)


def test_the_mtu_is_kept_and_what_a_path_cannot_take_is_counted(tunnel: Tunnel) -> None:
    tunnel.both()
    assert pings(0, "10.99.0.2", "-M", "do", "-s", str(1464 - 28), count=5) >= 4
    assert pings(0, "10.99.0.2", "-M", "do", "-s", str(1465 - 28), count=2) == 0
    for end in (0, 1):
        command("ip", "-n", NAMES[end], "link", "set", "v1", "mtu", "1400")
    pings(0, "10.99.0.2", "-M", "do", "-s", str(1464 - 28), count=4)
    until(lambda: tunnel.status(0)["daemon"]["too_big"] >= 1, "what does not fit is counted")


ROUTER = "ppt-r"


@pytest.fixture
def routed(tunnel: Tunnel) -> Iterator[Tunnel]:
    """The same ends with a router on path 2 whose links are narrower than those of the ends, and which does not say so."""
    command("ip", "netns", "del", ROUTER, check=False)
    command("ip", "netns", "add", ROUTER)
    for end in (0, 1):
        command("ip", "-n", NAMES[end], "link", "del", "v2", check=False)
    for end in (0, 1):
        command("ip", "link", "add", "v2", "netns", NAMES[end], "type", "veth", "peer", "name", f"r{end}", "netns", ROUTER)
        command("ip", "-n", NAMES[end], "addr", "add", f"192.168.2.{end + 1}/32", "dev", "v2")
        command("ip", "-n", NAMES[end], "link", "set", "v2", "up")
        command("ip", "-n", NAMES[end], "route", "add", f"192.168.2.{2 - end}", "dev", "v2")
        command("ip", "-n", ROUTER, "link", "set", f"r{end}", "up")
        command("ip", "-n", ROUTER, "route", "add", f"192.168.2.{end + 1}", "dev", f"r{end}")
        command("ip", "netns", "exec", ROUTER, "sysctl", "-q", f"net.ipv4.conf.r{end}.proxy_arp=1")
    command("ip", "netns", "exec", ROUTER, "sysctl", "-q", "net.ipv4.ip_forward=1")
    # What the router itself sends goes nowhere: no ICMP.
    command("ip", "-n", ROUTER, "rule", "add", "pref", "10", "iif", "lo", "blackhole")
    narrow(1450)
    try:
        yield tunnel
    finally:
        command("ip", "netns", "del", ROUTER, check=False)


def narrow(mtu: int) -> None:
    """The router's links carry no longer packets."""
    for end in (0, 1):
        command("ip", "-n", ROUTER, "link", "set", f"r{end}", "mtu", str(mtu))


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_mtu_follows_the_narrowest_path_without_icmp(routed: Tunnel, encrypted: bool) -> None:
    tunnel, headers = routed, 68 if encrypted else 36
    search = 'mtu = "search"'
    if encrypted:
        tunnel.both_encrypted(tunnel=search)
    else:
        tunnel.both(tunnel=search)

    def found(end: int) -> list[int]:
        paths = tunnel.status(end)["paths"]
        return [path["mtu"] for path in paths if path["mtu_answered"]]

    def is_found(least: int, most: int) -> bool:
        """Both ends know the router's MTU, and their devices follow."""
        for end in (0, 1):
            mtus = found(end)
            if len(mtus) < 2 or mtus[0] != 1500 or not least <= mtus[1] <= most:
                return False
            link = json.loads(command("ip", "-n", NAMES[end], "-j", "link", "show", "ppt0").stdout)
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


def test_an_end_that_does_not_answer_probes_leaves_the_mtu_as_it_is(tunnel: Tunnel) -> None:
    tunnel.write(0, tunnel='mtu = "search"')
    tunnel.start(0)
    until(lambda: tunnel.status(0)["uptime_s"] > 2, "some probes are sent")
    status = tunnel.status(0)
    assert (status["mtu"], [path["mtu_answered"] for path in status["paths"]]) == (1464, [False, False])
    assert "1500?" in command(str(PROGRAM), "status", "ppt-1").stdout


@pytest.mark.parametrize("clamps", [False, True])
def test_a_clamped_mss_carries_what_stands_still_without(tunnel: Tunnel, clamps: bool) -> None:
    """Both hosts take the tunnel for wider than it is, and nobody tells them."""
    tunnel.both(tunnel=f"clamp_mss = {str(clamps).lower()}")
    for end in (0, 1):
        at(end, "sysctl", "-q", "net.ipv4.tcp_mtu_probing=0")
        command("ip", "-n", NAMES[end], "link", "set", "ppt0", "mtu", "1500")
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
    # A SYN and its answer, of both IP versions, and of a busy machine perhaps again: the end that sends it lowers what it announces.
    for end in (0, 1):
        clamped = tunnel.status(end)["daemon"]["clamped"]
        assert clamped >= 2 if clamps else clamped == 0


def test_the_bench_measures_each_row_and_leaves_nothing_behind(tunnel: Tunnel) -> None:
    from polypath.tunnel import _bench

    before = command("ip", "netns").stdout
    rows = _bench.bench(seconds=0.1, repeat=1)
    assert command("ip", "netns").stdout == before
    assert list(rows) == ["bare cable", "tunnel", "tunnel, encrypted", "wireguard-go, one path"]
    for name, row in rows.items():
        if "missing" in row:
            assert name == "wireguard-go, one path"
            continue
        assert row["tcp_bits_per_s"] > 1e6
        assert row["sent_per_s"] >= row["received_per_s"] > 10
        assert (row["cpu_s_per_gb"] > 0) == (name != "bare cable")


def test_the_guides_ten_commands_bond_two_uplinks(tunnel: Tunnel, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each address of the guide is the only one of a device, and the other machine is behind it.
    uplinks = {1: ("192.0.2.1", "198.51.100.1"), 2: ("203.0.113.1", "198.51.100.2")}
    for path, ends in uplinks.items():
        for end, (own, other) in enumerate((ends, ends[::-1])):
            command("ip", "-n", NAMES[end], "addr", "add", f"{own}/32", "dev", f"v{path}")
            command("ip", "-n", NAMES[end], "route", "add", other, "dev", f"v{path}", "src", own)
    first, encrypted = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (commands,) = (block for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "keygen" in block)
    assert len(commands.splitlines()) == 5, "five on each machine"

    def of(end: int, text: str) -> str:
        """What the guide says of the first machine, for one of them."""
        pairs = [*uplinks.values(), ("10.0.0.1", "10.0.0.2"), ("site-a", "site-b"), ("192.168.20.", "192.168.10.")]
        swaps = dict(pair for one, other in pairs for pair in ((one, other), (other, one))) if end else {}
        return re.sub("|".join(map(re.escape, swaps)), lambda found: swaps[found[0]], text) if swaps else text

    monkeypatch.chdir(tunnel.folder)
    main = [sys.executable, "-c", "from polypath.cli import main; main()"]
    public: dict[int, str] = {}
    said = {}
    for line in commands.splitlines():
        for end in (0, 1):
            words = of(end, line).split()
            if words[0] == "nano":
                text = of(end, first) + encrypted.replace("site-a", f"site-{'ab'[end]}")
                Path(words[1]).write_text(text.replace("the line that keygen printed on the second machine", public[1 - end]))
                continue
            words = [*main, *words[1:]] if words[0] == "polypath" else words
            # Both machines are one here, so a status has to name its tunnel.
            done = at(end, *words, *([f"site-{'ab'[end]}"] if words[-1] == "status" else []), check=False)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            said[end, line] = done.stdout
            if "keygen" in line:
                public[end] = done.stdout.splitlines()[0]
    try:
        for end in (0, 1):
            if end:
                assert "3 received" in said[end, "ping -c 3 10.0.0.2"]
            table = said[end, "polypath tunnel status"]
            assert f"site-{'ab'[end]} on tun0, MTU 1432" in table and "encrypted, with a session" in table
            assert re.search(r"fibre +up +", table) and re.search(r"lte +up +", table)
    finally:
        for end in (0, 1):
            at(end, *main, "tunnel", "down", f"site-{'ab'[end]}", check=False)


def test_a_mistake_in_the_file_is_a_sentence_and_exit_code_2(tunnel: Tunnel) -> None:
    file = tunnel.write(0, tunnel="mtu = 1")
    done = at(0, str(PROGRAM), "up", str(file), check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"polypath-tunnel: \S+, line 6: tunnel.mtu: .*\n", done.stderr), done.stderr
