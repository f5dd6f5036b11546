"""The tunnel daemon where paths die and come back, ends start again and addresses change."""

import contextlib
import os
import re
import signal
import socket
import threading
from pathlib import Path

from tunnel_network import NAMES, ROUTER, carried, command, connected, ip, narrow, pings, sent_packets, until


def test_a_dead_path_is_left_and_a_flapping_one_used_again(tunnel):
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


def test_both_ends_may_start_again_one_after_the_other(tunnel):
    tunnel.both()
    client, server = connected()
    for end in (1, 0, 0, 1):
        carried(client, server, 500_000)
        before = tunnel.status(end)["pid"]
        os.kill(before, signal.SIGKILL)
        until(lambda end=end: "ppt0" not in ip(end, "link"), "the device goes")
        tunnel.start(end)
        carried(client, server, 500_000)
        carried(server, client, 500_000)
        assert tunnel.status(end)["pid"] != before
        for each in (0, 1):
            # Numbers begin anew at one end: the other takes nothing for a stranger's.
            status = tunnel.status(each)
            assert sum(status["refused"].values()) == status["numbers_disagree"] == 0


def test_without_encryption_an_address_changes_with_both_files(tunnel):
    tunnel.both()
    client, server = connected()
    carried(client, server, 1_000_000)
    pids = [tunnel.status(end)["pid"] for end in (0, 1)]
    ip(0, "addr", "add", "192.168.1.9/24", "dev", "v1")

    def reloaded(end, old, new):
        file = tunnel.folder / f"ppt-{end + 1}.toml"
        file.write_text(file.read_text().replace(f'{old} = "192.168.1.1"', f'{old} = "{new}"'))
        os.kill(pids[end], signal.SIGHUP)

    reloaded(0, "local", "192.168.1.9")
    until(lambda: tunnel.status(0)["paths"][0]["local"] == "192.168.1.9:23456", "it has its new address")
    # The other end does not follow whoever says so: what comes from there is a stranger's.
    until(lambda: tunnel.status(1)["refused"]["unknown_address"] >= 2, "it is counted")
    assert tunnel.status(1)["paths"][0]["remote"] == "192.168.1.1:23456"
    until(lambda: tunnel.paths_up(1) == [False, True], "the path is left")
    carried(client, server, 1_000_000)
    reloaded(1, "remote", "192.168.1.9")
    until(lambda: tunnel.status(1)["paths"][0]["remote"] == "192.168.1.9:23456", "it knows the new address")
    for end in (0, 1):
        until(lambda end=end: tunnel.paths_up(end) == [True, True], "the path is up")
    before = [tunnel.status(end)["paths"][0]["packets_received"] for end in (0, 1)]
    carried(client, server, 2_000_000)
    carried(server, client, 2_000_000)
    for end in (0, 1):
        assert tunnel.status(end)["paths"][0]["packets_received"] > before[end] + 500, "both paths carry"
        assert tunnel.status(end)["pid"] == pids[end]
    assert tunnel.status(1)["refused"]["unknown_address"] == 0, "counters began anew with the file"


def test_an_encrypted_peer_may_change_its_address_and_start_again(tunnel):
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


def test_a_reload_takes_what_is_new_and_a_mistake_changes_nothing(tunnel):
    tunnel.both()
    client, server = connected()
    carried(client, server, 1_000_000)
    file = tunnel.folder / "ppt-1.toml"
    written = file.read_text()

    def said():
        return Path("/run/polypath/tunnel-ppt-1.log").read_text().splitlines()

    def reloaded(text):
        """The file says so, the daemon has read it, and its connection goes on."""
        pid, lines = tunnel.status(0)["pid"], len(said())
        file.write_text(text)
        os.kill(pid, signal.SIGHUP)
        until(lambda: len(said()) > lines, "it says what it made of it")
        assert tunnel.status(0)["pid"] == pid
        carried(client, server, 2_000_000)
        carried(server, client, 2_000_000)

    reloaded(written.replace("[[path]]", "[[path]]\nweight = 9", 1))
    first, second = sent_packets(tunnel, 0)
    assert first > 5 * second > 0
    for mistake, told in (
        (written.replace("[tunnel]", "[tunnel]\nmtu = 1"), "tunnel.mtu"),
        (written.replace("[tunnel]", "[tunel]"), "tunel"),
        (written.replace('name = "ppt-1"', 'name = "other"'), "the tunnel's name has changed: take it down, then up"),
    ):
        reloaded(mistake)
        first, second = sent_packets(tunnel, 0)
        assert first > 5 * second > 0, "the weights are the old ones"
        assert said()[-1].startswith("polypath-tunnel: the old settings stay: ") and told in said()[-1]
    reloaded(written)
    assert min(sent_packets(tunnel, 0)) > 0.4 * sum(sent_packets(tunnel, 0))


def test_a_path_that_dies_under_load_is_left_long_before_its_dead_time(routed):
    tunnel = routed
    narrow(1500)
    for end in (0, 1):
        # Nobody here waits for an hour: whatever happens is not the dead time's doing.
        file = tunnel.write(end)
        file.write_text(re.sub(r"interval = .*\ndead_time = .*", 'interval = "1s"\ndead_time = "60min"', file.read_text()))
        tunnel.start(end)
    with flowing(pause_s=0.005):
        until(lambda: min(sent_packets(tunnel, 0)) > 1000, "both paths are used")
        assert [tunnel.paths_up(end) for end in (0, 1)] == [[True, True]] * 2
        killed_and_revived(tunnel, packets=5000)


@contextlib.contextmanager
def flowing(pause_s=0.0):
    """A connection from end 0 to end 1 that is always written to and read from."""
    client, server = connected()
    stop = threading.Event()

    def read():
        with contextlib.suppress(OSError):
            while server.recv(1 << 16):
                pass

    def write():
        with contextlib.suppress(OSError):
            while not stop.is_set():
                client.sendall(bytes(50_000))
                stop.wait(pause_s)

    threads = [threading.Thread(target=each) for each in (read, write)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        client.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def killed_and_revived(tunnel, *, packets, dead=lambda: None):
    """Nobody says that path 2 is dead: the router drops what comes; `dead` is asked meanwhile."""
    for end in (0, 1):
        ip(ROUTER, "route", "replace", "blackhole", f"192.168.2.{end + 1}")
    for end in (0, 1):
        until(lambda end=end: tunnel.paths_up(end) == [True, False], "the path is left")
    left = sent_packets(tunnel, 0)
    until(lambda: sent_packets(tunnel, 0)[0] > left[0] + packets, "the other one carries all")
    assert sent_packets(tunnel, 0)[1] == left[1], "nothing more is lost"
    dead()
    for end in (0, 1):
        ip(ROUTER, "route", "replace", f"192.168.2.{end + 1}", "dev", f"r{end}")
    for end in (0, 1):
        until(lambda end=end: tunnel.paths_up(end) == [True, True], "the path is found again")
    until(lambda: sent_packets(tunnel, 0)[1] > left[1] + 100, "it is used again")


def shaped(end, device):
    """The device sends 20 Mbit/s, and what is too much waits for long."""
    place = end if isinstance(end, str) else NAMES[end]
    bucket = "rate 20mbit burst 6000 limit 2000000"
    command("ip", "netns", "exec", place, *f"tc qdisc add dev {device} root tbf {bucket}".split())


def test_the_earliest_path_loses_no_more_than_was_in_flight_when_it_dies(routed):
    tunnel = routed
    narrow(1500)
    shaped(0, "v1")
    shaped(ROUTER, "r1")
    for end in (0, 1):
        file = tunnel.write(end, tunnel='distribution = "earliest"')
        file.write_text(re.sub(r"interval = .*\ndead_time = .*", 'interval = "1s"\ndead_time = "60min"', file.read_text()))
        tunnel.start(end)

    def missing():
        """Bytes that were sent on the path that dies and have not come, with the tunnel's headers."""
        sent, came = (tunnel.status(end)["paths"][1] for end in (0, 1))
        return int(sent["bytes_sent"] - came["bytes_received"] + 36 * (sent["packets_sent"] - came["packets_received"]))

    def dead():
        # It loses what it says at most, with the packet that was the last to fit.
        assert 0 < missing() - before < found() + 1500

    before = missing()
    found = lambda: tunnel.status(0)["paths"][1]["estimate"]["most_in_flight_bytes"]  # noqa: E731
    with flowing():
        until(lambda: found() and min(sent_packets(tunnel, 0)) > 5000, "both paths are full")
        killed_and_revived(tunnel, packets=2000, dead=dead)
