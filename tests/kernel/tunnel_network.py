"""Two namespaces joined by two veth paths, and the ends of a tunnel in them."""

import contextlib
import json
import os
import re
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from requirement import lacking
from waiting import until

from polypath import emu
from polypath.sockets import inside as inside_namespace
from polypath.study import load_setup

PROGRAM = Path(emu.__file__).parents[1] / "tunnel" / "bin" / "polypath-tunnel"
NAMES = ("ppt-a", "ppt-b")
ROUTER = "ppt-r"
# Seconds after which something that has not happened will not happen.
PATIENCE = 30
PORT = 5001


def command(*words, check=True):
    return subprocess.run(words, capture_output=True, text=True, check=check, timeout=2 * PATIENCE)


def at(end, *words, check=True):
    return command("ip", "netns", "exec", NAMES[end], *words, check=check)


def ip(place, *words, check=True):
    """What iproute2 says in the namespace of an end, or in one that is named."""
    return command("ip", "-n", NAMES[place] if isinstance(place, int) else place, *words, check=check).stdout


@dataclass
class Tunnel:
    """Two ends joined by two veth paths, and the files of their tunnels."""

    folder: Path
    up: list[int] = field(default_factory=list)

    def write(self, end, *, outer="192.168.{path}.{end}", tunnel="", more=""):
        own, other = end + 1, 2 - end
        text = f'name = "ppt-{own}"\n[tunnel]\ndevice = "ppt0"\n'
        text += f'addresses = ["10.99.0.{own}/24", "fd99::{own}/64"]\npeer = "10.99.0.{other}"\n{tunnel}\n'
        text += f'[keepalive]\ninterval = "200ms"\ndead_time = "2s"\n{more}\n'
        for path in (1, 2):
            text += f'[[path]]\nlocal = "{outer.format(path=path, end=own)}"\nremote = "{outer.format(path=path, end=other)}"\n'
        file = self.folder / f"ppt-{own}.toml"
        file.write_text(text)
        return file

    def encrypt(self, *, keys=("a", "b"), strange=False, **settings):
        """Files of both ends, with keys; strange: end 0 does not know the key of end 1."""
        public = [command(str(PROGRAM), "keygen", str(self.folder / f"{key}.key")).stdout.strip() for key in keys]
        other = command(str(PROGRAM), "keygen", str(self.folder / "c.key")).stdout.strip()
        for end in (0, 1):
            peer = other if strange and end == 0 else public[1 - end]
            self.write(end, **settings, more=f'[encryption]\nprivate_key = "{keys[end]}.key"\npeer_public_key = "{peer}"')

    def start(self, end):
        done = at(end, str(PROGRAM), "up", str(self.folder / f"ppt-{end + 1}.toml"), check=False)
        assert done.returncode == 0, done.stderr
        self.up.append(end)

    def both(self, **settings):
        for end in (0, 1):
            self.write(end, **settings)
            self.start(end)

    def both_encrypted(self, **settings):
        """Both ends, once they have agreed on a session: what comes earlier is dropped."""
        self.encrypt(**settings)
        for end in (0, 1):
            self.start(end)
        for end in (0, 1):
            until(lambda end=end: self.status(end)["encryption"]["session_age_s"] is not None, "both ends agree on a session")

    def status(self, end):
        return json.loads(command(str(PROGRAM), "status", f"ppt-{end + 1}", "--json").stdout)

    def paths_up(self, end):
        return [path["up"] for path in self.status(end)["paths"]]


@contextlib.contextmanager
def two_ends(folder):
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
        ip(name, "link", "set", "lo", "up")
    for path in (1, 2):
        command("ip", "link", "add", f"v{path}", "netns", NAMES[0], "type", "veth", "peer", "name", f"v{path}", "netns", NAMES[1])
        for end in (0, 1):
            ip(end, "addr", "add", f"192.168.{path}.{end + 1}/24", "dev", f"v{path}")
            ip(end, "addr", "add", f"fd0{path}::{end + 1}/64", "dev", f"v{path}", "nodad")
            ip(end, "link", "set", f"v{path}", "up")
    made = Tunnel(folder)
    try:
        yield made
    finally:
        for end in (0, 1):
            command(str(PROGRAM), "down", f"ppt-{end + 1}", check=False)
        for name in NAMES:
            command("ip", "netns", "del", name, check=False)


@contextlib.contextmanager
def unequal_paths(tunnel, mbps=(10, 30), ms=(40, 1)):
    """The same ends with paths of so many Mbit/s and ms each way."""
    if Path("/run/polypath/emu.json").exists():
        lacking("host", "an emulated network is up here already: take it down (polypath emu down)")
    links = ""
    for path, (rate, delay) in enumerate(zip(mbps, ms, strict=True), 1):
        ends = ", ".join(f"{{node: {node}, address: 192.168.{path}.{end}}}" for end, node in enumerate("ab", 1))
        links += f"    p{path}: {{ends: [{ends}], both: {{rate: {rate}mbit, queue: 1000packets, delay: {delay}ms}}}}\n"
    file = tunnel.folder / "topology.yaml"
    file.write_text(f"topology:\n  nodes: {{a: , b: }}\n  links:\n{links}")
    # Late packets are late for the tunnel, too: nothing here is exact.
    emu.up(str(file), load_setup(file))
    with pytest.MonkeyPatch.context() as patch:
        # The network names its own.
        patch.setitem(globals(), "NAMES", ("pp-a", "pp-b"))
        try:
            for end in (0, 1):
                # It has no IPv6, and the tunnel has addresses of it.
                at(end, "sysctl", "-q", "net.ipv6.conf.all.disable_ipv6=0", "net.ipv6.conf.default.disable_ipv6=0")
            yield tunnel
        finally:
            for end in (0, 1):
                command(str(PROGRAM), "down", f"ppt-{end + 1}", check=False)
            emu.down()


@contextlib.contextmanager
def router_between(tunnel):
    """A router on path 2 whose links are narrower, and which does not say so."""
    command("ip", "netns", "del", ROUTER, check=False)
    command("ip", "netns", "add", ROUTER)
    for end in (0, 1):
        ip(end, "link", "del", "v2", check=False)
    for end in (0, 1):
        command("ip", "link", "add", "v2", "netns", NAMES[end], "type", "veth", "peer", "name", f"r{end}", "netns", ROUTER)
        ip(end, "addr", "add", f"192.168.2.{end + 1}/32", "dev", "v2")
        ip(end, "link", "set", "v2", "up")
        ip(end, "route", "add", f"192.168.2.{2 - end}", "dev", "v2")
        ip(ROUTER, "link", "set", f"r{end}", "up")
        ip(ROUTER, "route", "add", f"192.168.2.{end + 1}", "dev", f"r{end}")
        command("ip", "netns", "exec", ROUTER, "sysctl", "-q", f"net.ipv4.conf.r{end}.proxy_arp=1")
    command("ip", "netns", "exec", ROUTER, "sysctl", "-q", "net.ipv4.ip_forward=1")
    # What the router itself sends goes nowhere: no ICMP.
    ip(ROUTER, "rule", "add", "pref", "10", "iif", "lo", "blackhole")
    narrow(1450)
    try:
        yield tunnel
    finally:
        command("ip", "netns", "del", ROUTER, check=False)


def narrow(mtu):
    """The router's links carry no longer packets."""
    for end in (0, 1):
        ip(ROUTER, "link", "set", f"r{end}", "mtu", str(mtu))


def pings(end, address, *more, count=20):
    """How many of so many were answered."""
    said = at(end, "ping", "-q", "-c", str(count), "-i", "0.05", "-W", "5", *more, address, check=False).stdout
    found = re.search(r"(\d+) received", said)
    assert found, said
    return int(found[1])


def inside(end, work):
    return inside_namespace(NAMES[end], work)


def connected(address="10.99.0.2"):
    """A TCP connection through the tunnel: its ends at 0 and at 1."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = inside(1, lambda: socket.create_server((address, PORT), family=family))
    client = inside(0, lambda: socket.create_connection((address, PORT), PATIENCE))
    server, _ = listener.accept()
    listener.close()
    for end in (client, server):
        end.settimeout(PATIENCE)
    return client, server


def goodput(seconds=2.0, settles=0.0):
    """Bit/s of a new TCP connection from end 0 to end 1; 0 if it does not open."""
    try:
        client, server = connected()
    except OSError:
        return 0.0
    stop = threading.Event()

    def write():
        with contextlib.suppress(OSError):
            while not stop.is_set():
                client.sendall(bytes(50_000))

    writer = threading.Thread(target=write)
    writer.start()
    server.settimeout(0.1)
    came, begin = 0, time.monotonic() + settles
    while (now := time.monotonic()) < begin + seconds:
        with contextlib.suppress(TimeoutError):
            came += len(server.recv(1 << 16)) * (now > begin)
    stop.set()
    for each in (server, client):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
    writer.join()
    server.close()
    client.close()
    return came * 8 / seconds


def carried(client, server, length):
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


def sent_packets(tunnel, end):
    return [path["packets_sent"] for path in tunnel.status(end)["paths"]]


def overheard(device, want, count, listens):
    """UDP datagrams that pass a device at end 1, whole packets from the IP header on."""
    limit = time.monotonic() + PATIENCE
    listener = inside(1, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800)))
    listener.bind((device, 0x0800))
    listener.settimeout(PATIENCE)
    listens.set()
    found = []
    with listener:
        # Keepalives come for ever.
        while len(found) < count and time.monotonic() < limit:
            packet = listener.recv(1 << 16)
            if packet[9] == socket.IPPROTO_UDP and packet[12:16] == socket.inet_aton("192.168.1.1") and want(packet[28:]):
                found.append(packet[28:])
    return found
