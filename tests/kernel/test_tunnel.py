"""The tunnel daemon between two namespaces of this machine's kernel."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tunnel_network import PORT, PROGRAM, at, carried, command, connected, inside, ip, pings, sent_packets, until

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "bond-two-uplinks.md"


@pytest.mark.parametrize(
    "settings",
    [{}, {"tunnel": "offload = false"}, {"more": '[reorder]\nrule = "mpt"\npackets = 1600'}, {"more": "[fec]\ndata = 10\nparity = 2"}],
)
def test_traffic_uses_both_paths_and_stays_whole(tunnel, settings):
    tunnel.both(**settings)
    assert pings(0, "10.99.0.2") >= 19
    assert pings(0, "fd99::2") >= 19
    client, server = connected()
    carried(client, server, 20_000_000)
    sent = sent_packets(tunnel, 0)
    assert min(sent) > 0.4 * sum(sent)
    assert (tunnel.status(0)["tun_offload"] == "None") == ("offload" in settings.get("tunnel", ""))


@pytest.mark.parametrize("inner", ["10.99.0.2", "fd99::2"])
@pytest.mark.parametrize("outer", ["192.168.{path}.{end}", "fd0{path}::{end}"])
@pytest.mark.parametrize("offload", ["true", "false"])
def test_tcp_of_either_ip_version_over_either(tunnel, outer, inner, offload):
    tunnel.both(outer=outer, tunnel=f"offload = {offload}")
    assert pings(0, inner) >= 19
    client, server = connected(inner)
    # Full packets, and what is long for TCP: IPv6's header outside leaves less room inside.
    assert tunnel.status(0)["mtu"] == (1464 if "." in outer else 1444)
    carried(client, server, 5_000_000)
    carried(server, client, 5_000_000)
    for end in (0, 1):
        status, other = tunnel.status(end), tunnel.status(1 - end)
        sent, came = ([path[f"packets_{what}"] for path in each["paths"]] for what, each in (("sent", status), ("received", other)))
        assert min(sent) > 0.4 * sum(sent) and sum(sent) > 3400, "5 MB need more than 3400 packets"
        assert sum(came) >= sum(sent) - 10, "a ping that found no path yet, at most"
        assert sum(status["refused"].values()) == status["daemon"]["too_big"] == status["daemon"]["unreadable"] == 0


def numbered(streams, packets):
    """Numbers that arrive of streams of datagrams, sent by turns in bursts of 1 to 16."""
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
    found = []
    for receiver in receivers:
        got = []
        with contextlib.suppress(TimeoutError):
            while True:
                got.append(int.from_bytes(receiver.recv(2048)[:4], "big"))
        found.append(got)
    for end in [*senders, *receivers]:
        end.close()
    return found


def datagrams(rate, packets):
    """So many datagrams of 1200 bytes from end 0 to end 1, so many a second."""
    with inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender:
        begin = time.monotonic()
        for number in range(packets):
            time.sleep(max(0.0, begin + number / rate - time.monotonic()))
            sender.sendto(bytes(1200), ("10.99.0.2", PORT))


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_earliest_path_is_learnt_and_what_fits_it_stays_there(unequal, encrypted):
    tunnel = unequal
    earliest = 'distribution = "earliest"'
    if encrypted:
        tunnel.both_encrypted(tunnel=earliest)
    else:
        tunnel.both(tunnel=earliest)
    assert pings(0, "10.99.0.2") >= 19
    # 5 Mbit/s fit the fast path with room to spare, however busy the machine is.
    before = sent_packets(tunnel, 0)

    def sent_since():
        return [now - then for now, then in zip(sent_packets(tunnel, 0), before, strict=True)]

    datagrams(500, 1000)
    # The last ones may still wait in the device.
    until(lambda: sum(sent_since()) >= 1000, "all are sent")
    sent = sent_since()
    assert sent[0] < 0.2 * sent[1], sent
    # 80 Mbit/s are more than both carry: what is too much waits in the device.
    learnt = threading.Event()

    def send():
        while not learnt.is_set():
            datagrams(8000, 4000)

    def is_learnt():
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


def test_an_end_that_sends_no_reports_is_served_by_turns(tunnel):
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
def test_packets_of_one_flow_stay_in_order_and_flows_share_the_paths(tunnel, more):
    tunnel.both(tunnel='distribution = "flows"', more=more)
    for got in numbered(16, 800):
        assert got == sorted(got)
        assert len(got) > 100
    # Sixteen flows on one of two paths, by chance: once in 32768.
    assert min(path["packets_sent"] for path in tunnel.status(0)["paths"]) > 100


def test_the_bench_measures_each_row_and_leaves_nothing_behind(tunnel):
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
        assert ("version" in row) == (name == "wireguard-go, one path")


def test_the_guides_ten_commands_bond_two_uplinks(tunnel, monkeypatch):
    # Each address of the guide is the only one of a device, and the other machine is behind it.
    uplinks = {1: ("192.0.2.1", "198.51.100.1"), 2: ("203.0.113.1", "198.51.100.2")}
    for path, ends in uplinks.items():
        for end, (own, other) in enumerate((ends, ends[::-1])):
            ip(end, "addr", "add", f"{own}/32", "dev", f"v{path}")
            ip(end, "route", "add", other, "dev", f"v{path}", "src", own)
    first, encrypted = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (commands,) = (block for block in re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "keygen" in block)
    assert len(commands.splitlines()) == 5, "five on each machine"

    def of(end, text):
        """What the guide says of the first machine, for one of them."""
        pairs = [*uplinks.values(), ("10.0.0.1", "10.0.0.2"), ("site-a", "site-b"), ("192.168.20.", "192.168.10.")]
        swaps = dict(pair for one, other in pairs for pair in ((one, other), (other, one))) if end else {}
        return re.sub("|".join(map(re.escape, swaps)), lambda found: swaps[found[0]], text) if swaps else text

    monkeypatch.chdir(tunnel.folder)
    main = [sys.executable, "-c", "from polypath.cli import main; main()"]
    public = {}
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


# In the form of the files that MPT's authors publish.
MPT_INTERFACE = """
[general]
tunnel_num    = 1
accept_remote = 1
cmdport_local = 60456

[tun_0]
name      = ppt0
mtu       = 1440
ipv4_addr = 10.99.0.{own}/24
"""
MPT_CONNECTION = """;##### Multipath Connection Information: #####
[connection]
name               = MPT_connection_10.99.0.{own}
permission         = 3
ip_ver             = 4
ip_local           = 10.99.0.{own}
local_port         = 23456
ip_remote          = 10.99.0.{other}
remote_port        = 23456
remote_cmd_port    = 60456
path_count         = 2
network_count      = 1
status             = 0
reorder_window     = 1600
max_buffdelay_msec = 300
auth_type          = 0
;auth_key           = 0
"""
MPT_PATH = """
[path_{number}]
interface_name = v{path}
ip_ver         = 4
public_ipaddr  = 192.168.{path}.{own}
gw_ipaddr      = 192.168.{path}.{own}
remote_ipaddr  = 192.168.{path}.{other}
keepalive_time = 5
dead_time      = 11
weight_out     = {weight}
cmd_default    = 1
status         = 0
"""
MPT_NETWORK = """
[net_0]
ip_ver   = 4
src_addr = 198.18.1{own}.0/26
dst_addr = 198.18.1{other}.0/26
"""


def test_mpts_own_files_make_a_tunnel(tunnel):
    main = [sys.executable, "-c", "from polypath.cli import main; main()"]
    for end in (0, 1):
        ends = {"own": end + 1, "other": 2 - end}
        folder = tunnel.folder / f"mpt-{end}"
        (folder / "connections").mkdir(parents=True)
        (folder / "interface.conf").write_text(MPT_INTERFACE.format(**ends))
        paths = [MPT_PATH.format(number=path - 1, path=path, weight=weight, **ends) for path, weight in ((1, 100), (2, 50))]
        (folder / "connections" / "ipv4.conf").write_text("".join([MPT_CONNECTION, *paths, MPT_NETWORK]).format(**ends))
        said = command(*main, "tunnel", "import", str(folder)).stdout
        (tunnel.folder / f"ppt-{end + 1}.toml").write_text(said)
        tunnel.start(end)
        assert f"198.18.1{2 - end}.0/26" in ip(end, "route", "show", "dev", "ppt0")
    assert tunnel.status(0)["mtu"] == 1440
    assert pings(0, "10.99.0.2") >= 19
    client, server = connected()
    carried(client, server, 5_000_000)
    first, second = sent_packets(tunnel, 0)
    assert first == pytest.approx(2 * second, abs=3)


def test_a_mistake_in_the_file_is_a_sentence_and_exit_code_2(tunnel):
    file = tunnel.write(0, tunnel="mtu = 1")
    done = at(0, str(PROGRAM), "up", str(file), check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"polypath-tunnel: \S+, line 6: tunnel.mtu: .*\n", done.stderr), done.stderr


def test_the_program_is_one_file_that_runs_where_nothing_else_is(tunnel):
    place = tunnel.folder / "router"
    place.mkdir()
    (place / "polypath-tunnel").write_bytes(PROGRAM.read_bytes())
    (place / "polypath-tunnel").chmod(0o755)
    tunnel.write(0)
    (place / "site.toml").write_text((tunnel.folder / "ppt-1.toml").read_text())

    def there(*words):
        """In a root of its own, without libraries, /proc and /dev."""
        return subprocess.run(
            ["/polypath-tunnel", *words], capture_output=True, text=True, preexec_fn=lambda: os.chroot(place), check=False
        )

    done = there("check", "/site.toml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # A tunnel needs the kernel's TUN devices, and says so.
    done = there("run", "/site.toml")
    assert done.returncode == 1
    assert re.fullmatch(r"polypath-tunnel: .*/dev/net/tun.*\n", done.stderr), done.stderr
