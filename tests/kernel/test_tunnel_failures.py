"""The tunnel daemon where paths die and come back, ends start again and addresses change."""

from __future__ import annotations

import os
import signal

from tunnel_network import Tunnel, carried, connected, ip, pings, until


def test_a_dead_path_is_left_and_a_flapping_one_used_again(tunnel: Tunnel) -> None:
    tunnel.both()
    client, server = connected()
    for _ in range(2):
        ip(1, "link", "set", "v2", "down")
        for end in (0, 1):
            until(lambda end=end: tunnel.paths_up(end) == [True, False], "the path goes down")
        assert pings(0, "10.99.0.2") == 20
        carried(client, server, 1_000_000)
        ip(1, "link", "set", "v2", "up")
        ip(1, "addr", "replace", "192.168.2.2/24", "dev", "v2")
        for end in (0, 1):
            until(lambda end=end: tunnel.paths_up(end) == [True, True], "the path comes up")
    assert tunnel.status(0)["paths"][1]["went_down"] >= 2


def test_a_killed_daemon_that_comes_back_keeps_connections(tunnel: Tunnel) -> None:
    tunnel.both()
    client, server = connected()
    carried(client, server, 1_000_000)
    os.kill(tunnel.status(1)["pid"], 9)
    until(lambda: "ppt0" not in ip(1, "link"), "the device goes")
    # Its socket may live on for a moment; the new daemon waits for it.
    tunnel.start(1)
    carried(client, server, 1_000_000)
    carried(server, client, 1_000_000)


def test_an_encrypted_peer_may_change_its_address_and_start_again(tunnel: Tunnel) -> None:
    tunnel.both_encrypted()
    client, server = connected()
    carried(client, server, 1_000_000)
    # End 0 moves on path 1: its file has another address and port, that of end 1 the old ones.
    ip(0, "addr", "add", "192.168.1.9/24", "dev", "v1")
    file = tunnel.folder / "ppt-1.toml"
    file.write_text(file.read_text().replace('local = "192.168.1.1"', 'local = "192.168.1.9"\nport = 4000\nremote_port = 23456'))
    os.kill(tunnel.status(0)["pid"], signal.SIGHUP)
    until(lambda: tunnel.status(1)["paths"][0]["remote"] == "192.168.1.9:4000", "the other end follows")
    carried(client, server, 1_000_000)
    carried(server, client, 1_000_000)
    os.kill(tunnel.status(1)["pid"], signal.SIGKILL)
    until(lambda: "ppt0" not in ip(1, "link"), "the device goes")
    tunnel.start(1)
    carried(client, server, 1_000_000)
    carried(server, client, 1_000_000)
