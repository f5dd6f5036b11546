"""The tunnel daemon between two namespaces of this machine's kernel: traffic, failure, restart, what the network may send.

They need root and TUN devices; what the machine lacks is skipped with the reason, and fails with host in POLYPATH_REQUIRE.
Times are those of a machine that may be busy: what must happen is waited for, long.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from requirement import lacking

from polypath import emu

PROGRAM = Path(emu.__file__).parents[1] / "tunnel" / "bin" / "polypath-tunnel"
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
        text += f'[keepalive]\ninterval = "200ms"\ndead_time = "1s"\n{more}\n'
        for path in (1, 2):
            text += f'[[path]]\nlocal = "{outer.format(path=path, end=own)}"\nremote = "{outer.format(path=path, end=other)}"\n'
        file = self.folder / f"ppt-{own}.toml"
        file.write_text(text)
        return file

    def start(self, end: int) -> None:
        at(end, str(PROGRAM), "up", str(self.folder / f"ppt-{end + 1}.toml"))
        self.up.append(end)

    def both(self, **settings: Any) -> None:
        for end in (0, 1):
            self.write(end, **settings)
            self.start(end)

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


def connected() -> tuple[socket.socket, socket.socket]:
    """A TCP connection through the tunnel: its ends at 0 and at 1."""
    listener = inside(1, lambda: socket.create_server(("10.99.0.2", PORT)))
    client = inside(0, lambda: socket.create_connection(("10.99.0.2", PORT), PATIENCE))
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
    sent = [path["packets_sent"] for path in tunnel.status(0)["paths"]]
    assert min(sent) > 0.4 * sum(sent)
    assert (tunnel.status(0)["tun_offload"] == "None") == ("offload" in settings.get("tunnel", ""))


def test_ipv6_outside(tunnel: Tunnel) -> None:
    tunnel.both(outer="fd0{path}::{end}")
    assert pings(0, "10.99.0.2") >= 19
    assert pings(1, "fd99::1") >= 19
    client, server = connected()
    carried(client, server, 5_000_000)


def test_a_dead_path_is_left_and_a_flapping_one_used_again(tunnel: Tunnel) -> None:
    tunnel.both()
    client, server = connected()
    for _ in range(2):
        command("ip", "-n", NAMES[1], "link", "set", "v2", "down")
        until(lambda: tunnel.paths_up(0) == [True, False], "the path goes down")
        assert pings(0, "10.99.0.2") == 20
        carried(client, server, 1_000_000)
        command("ip", "-n", NAMES[1], "link", "set", "v2", "up")
        command("ip", "-n", NAMES[1], "addr", "replace", "192.168.2.2/24", "dev", "v2")
        until(lambda: tunnel.paths_up(0) == [True, True], "the path comes up")
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


def test_the_mtu_is_kept_and_what_a_path_cannot_take_is_counted(tunnel: Tunnel) -> None:
    tunnel.both()
    assert pings(0, "10.99.0.2", "-M", "do", "-s", str(1464 - 28), count=5) >= 4
    assert pings(0, "10.99.0.2", "-M", "do", "-s", str(1465 - 28), count=2) == 0
    for end in (0, 1):
        command("ip", "-n", NAMES[end], "link", "set", "v1", "mtu", "1400")
    pings(0, "10.99.0.2", "-M", "do", "-s", str(1464 - 28), count=4)
    until(lambda: tunnel.status(0)["daemon"]["too_big"] >= 1, "what does not fit is counted")


def test_a_mistake_in_the_file_is_a_sentence_and_exit_code_2(tunnel: Tunnel) -> None:
    file = tunnel.write(0, tunnel="mtu = 1")
    done = at(0, str(PROGRAM), "up", str(file), check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"polypath-tunnel: \S+, line 6: tunnel.mtu: .*\n", done.stderr), done.stderr
