"""Emulated links on this machine's kernel."""

import json
import os
import re
import select
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from requirement import lacking
from waiting import PATIENCE_S, until

from polypath import Results, emu, programs
from polypath.sockets import inside
from polypath.study import load_setup

PORT = 5001
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_PMTUDISC_DONT, IP_MTU = 10, 2, 0, 14
SO_TIMESTAMPNS = 35
STATE = Path("/run/polypath/emu.json")
NAMES = Path("/run/netns")
# Seconds after which something that has not happened will not happen.


@pytest.fixture
def host():
    """A machine that can have emulated links, and has none now."""
    reason = ""
    try:
        emu.require_root()
    except emu.EmuError as error:
        reason = str(error)
    if not reason and STATE.exists():
        reason = "an emulated network is up here already: take it down (polypath emu down)"
    if reason:
        lacking("host", reason)


@pytest.fixture
def up(host, tmp_path):
    """Builds a network of two nodes with one link; takes down what is up at the end."""

    def build(link, *, seed=1):
        file = tmp_path / "topology.yaml"
        file.write_text(f"topology:\n  nodes: {{h1: , h2: }}\n  links:\n    only: {{ends: [h1, h2], {link}}}\n")
        return emu.up(str(file), load_setup(file), seed=seed)

    yield build
    emu.down()


def socket_at(node, kind):
    """A socket in a node's namespace."""
    found = inside(f"pp-{node}", lambda: socket.socket(socket.AF_INET, kind))
    found.settimeout(PATIENCE_S)
    return found


def udp(lab):
    """A sender at h1 and a receiver at h2 that it is connected to."""
    receiver, sender = socket_at("h2", socket.SOCK_DGRAM), socket_at("h1", socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    receiver.bind((lab.addresses["h2"][0][0], PORT))
    sender.connect(receiver.getsockname())
    return sender, receiver


def received(receiver, *, quiet=1.0):
    """Numbers of datagrams and when the kernel got them, until none comes for a while."""
    found = []
    while select.select([receiver], [], [], quiet)[0]:
        data, ancillary, _, _ = receiver.recvmsg(2048, 64)
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2][:16])
        found.append((int.from_bytes(data[:4], "big"), seconds + nanoseconds * 1e-9))
    return found


def numbered(number, length):
    return number.to_bytes(4, "big").ljust(length, b"\0")


def direction(*, a_to_b=True):
    return next(row for row in emu.status().status["directions"] if row["a_to_b"] is a_to_b)


def reported(condition):
    """The counters of the way from h1 to h2, once they say what they must."""
    return until(lambda: condition(row := direction()) and row, "the counters are these")


def test_a_delay_is_never_shorter_and_not_much_longer(up):
    lab = up("forward: {delay: 20ms}, backward: {delay: 10ms}")
    sender, receiver = udp(lab)
    spans = []
    for number in range(100):
        begin = time.monotonic()
        sender.send(numbered(number, 100))
        data, source = receiver.recvfrom(2048)
        receiver.sendto(data, source)
        assert sender.recv(2048) == data
        spans.append(time.monotonic() - begin)
    assert min(spans) >= 0.030
    # The tenth that waited least is the emulator's: each wake waits on a busy machine.
    assert statistics.quantiles(spans, n=10)[0] < 0.035
    row = reported(lambda row: row["packets"] == 100)
    assert row["bytes"] == 100 * 128
    assert (row["missed"], row["overflow"], row["refused"], row["cut"]) == (0, 0, 0, 0)


def arrivals(receiver, count):
    """Sending ports of `count` datagrams in the order in which they came, and the ECN bits of each."""
    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    found = []
    while len(found) < count and select.select([receiver], [], [], 2)[0]:
        _, ancillary, _, source = receiver.recvmsg(2048, 128)
        tos = next(data[0] for _, kind, data in ancillary if kind == socket.IP_TOS)
        found.append((source[1], tos & 3))
    return found


def test_codel_marks_datagrams_that_say_that_they_may_be_marked(up):
    sender, receiver = udp(up("both: {rate: 8mbit, queue: 1000packets, aqm: {kind: codel, ecn: true}}"))
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)
    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    for number in range(600):
        sender.send(numbered(number, 972))
    bits = [bits for _, bits in arrivals(receiver, 600)]
    # They stand in the queue for up to 0.6 s: CoDel marks from 100 ms on, and drops none.
    assert (len(bits), set(bits)) == (600, {2, 3})
    assert 3 not in bits[:90]
    row = reported(lambda row: row["packets"] == 600)
    assert (row["ecn_marks"], row["queue_drops"]) == (bits.count(3), 0)


def test_fq_codel_lets_a_thin_flow_pass_a_thick_one(up):
    lab = up("both: {rate: 8mbit, queue: 1000packets, aqm: fq_codel}")
    thick, receiver = udp(lab)
    thin = socket_at("h1", socket.SOCK_DGRAM)
    thin.connect(receiver.getsockname())
    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    for number in range(80):
        thick.send(numbered(number, 972))
    thin.send(numbered(0, 100))
    ports = [port for port, _ in arrivals(receiver, 81)]
    # In one queue it would be the last of 81; what has left before is the thick flow's.
    assert len(ports) == 81
    assert ports.index(thin.getsockname()[1]) < 40


def test_a_rate_is_met(up):
    """A busy machine delays packets: the quickest of many bursts is undisturbed."""
    sender, receiver = udp(up("both: {rate: 20mbit, queue: 50packets}"))
    # 1000 bytes of payload, 28 of UDP and IP, 14 of Ethernet: 0.4168 ms a packet.
    each = 1042 * 8 / 20e6
    bursts, sent, came = 20, 0, 0
    spans = []
    for _ in range(bursts):
        begin = time.time()
        for number in range(120):
            sender.send(numbered(number, 1000))
        sent += 120
        found = received(receiver, quiet=0.3)
        came += len(found)
        assert found[0][0] == 0
        assert len(found) >= 50
        # Packet n has waited for the n before it; half a packet is for the clocks.
        early = [n for n, (_, at) in enumerate(found) if at - begin < (n + 0.5) * each]
        assert not early, f"{len(early)} of {len(found)} packets come before their time, the first as number {early[0]}"
        spans.append((found[-1][1] - begin) / len(found))
    assert min(spans) < 1.05 * each
    row = reported(lambda row: row["packets"] == came)
    assert (row["queue_drops"], row["max_queue_packets"]) == (sent - came, 50)


def test_the_same_seed_loses_the_same_packets(up):
    kept = []
    for seed in (7, 7, 8):
        sender, receiver = udp(up("both: {loss: 10%}", seed=seed))
        for number in range(3000):
            sender.send(numbered(number, 50))
            if number % 50 == 0:
                time.sleep(0.001)
        kept.append([number for number, _ in received(receiver)])
        row = reported(lambda row: row["packets"] + row["loss_drops"] == 3000)
        assert row["packets"] == len(kept[-1])
        emu.down()
    assert kept[0] == kept[1] != kept[2]
    # Four standard deviations of 3000 draws.
    assert all(abs(1 - len(numbers) / 3000 - 0.1) < 0.022 for numbers in kept)


@pytest.mark.parametrize("link", ["both: {mtu: 1000B}", "both: [{kind: delay, delay: 1ms}, {kind: mtu, size: 1000B}]"])
def test_a_sender_hears_of_an_mtu(up, link):
    sender, receiver = udp(up(link))
    sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    sender.send(numbered(1, 1400))
    until(lambda: sender.getsockopt(socket.IPPROTO_IP, IP_MTU) == 1000, "an ICMP came")
    sender.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    with pytest.raises(OSError, match="too long"):
        sender.send(numbered(2, 1400))
    sender.send(numbered(3, 972))
    assert [number for number, _ in received(receiver, quiet=0.5)] == [3]
    assert reported(lambda row: row["packets"] == 1)["mtu_drops"] == 1


def test_a_packet_is_split_and_put_together_again(up):
    sender, receiver = udp(up("both: [{kind: mtu, size: 600B, oversize: fragment}, {kind: delay, delay: 1ms}]"))
    sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT)
    payload = os.urandom(1472)
    sender.send(payload)
    assert receiver.recv(2048) == payload
    assert reported(lambda row: row["packets"] == 3)["mtu_drops"] == 0


def test_a_link_is_down_when_it_shall_be(up):
    sender, receiver = udp(up("both: {delay: 1ms, changes: [{at: 1s, up: false}, {at: 2s, up: true}]}"))
    origin = emu.status().status["origin_ns"]
    sent = []
    while not sent or sent[-1] < 3.0:
        sender.send(numbered(len(sent), 50))
        sent.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC) - origin) / 1e9)
        time.sleep(0.005)
    kept = {number for number, _ in received(receiver, quiet=0.5)}
    # The kernel may have stamped a packet up to this much earlier than we looked at the clock.
    near = 0.05
    assert all(number in kept for number, at in enumerate(sent) if at < 1.0 or at > 2.0 + near)
    assert not any(number in kept for number, at in enumerate(sent) if 1.0 + near < at < 2.0)


def test_tcp_fills_the_link_with_what_was_sent(up):
    lab = up("both: {rate: 40mbit, queue: 200packets, delay: 5ms}")
    listener, client = socket_at("h2", socket.SOCK_STREAM), socket_at("h1", socket.SOCK_STREAM)
    listener.bind((lab.addresses["h2"][0][0], PORT))
    listener.listen(1)
    client.connect(listener.getsockname())
    server, _ = listener.accept()
    sent, got = os.urandom(10_000_000), bytearray()

    def send():
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    begin = time.monotonic()
    sender.start()
    while data := server.recv(1 << 20):
        got += data
    goodput = len(got) * 8 / (time.monotonic() - begin)
    sender.join()
    assert bytes(got) == sent
    # 1448 of the 1514 bytes of a frame are payload; slow start and a busy machine take their share.
    assert 0.6 * 40e6 < goodput < 40e6 * 1448 / 1514 * 1.01
    # Nothing longer than the MTU was on the wire: segmentation is off.
    assert direction()["cut"] == 0


def test_kill_9_leaves_nothing_after_the_next_call(up):
    before = host_network()
    lab = up("both: {delay: 1ms}")
    assert lab.pid is not None
    stray = subprocess.Popen(emu.entrance("h1", ["sh", "-c", "echo inside; exec sleep 1000"]), stdout=subprocess.PIPE)
    assert stray.stdout is not None and stray.stdout.readline() == b"inside\n"
    os.kill(lab.pid, signal.SIGKILL)
    with pytest.raises(emu.EmuError, match="was killed, and what it left is removed"):
        until(lambda: not emu.status(), "it is noticed")
    assert stray.wait(PATIENCE_S) == -signal.SIGTERM
    assert not STATE.exists() and not list(NAMES.glob("pp-*"))
    assert host_network() == before


def test_down_leaves_the_host_as_it_was(up):
    before = host_network()
    up("both: {delay: 1ms}")
    assert host_network() == before
    with pytest.raises(emu.EmuError, match="up already: take it down first"):
        up("both: {delay: 2ms}")
    assert emu.down() is not None
    assert emu.down() is None
    assert host_network() == before
    assert not STATE.exists() and not list(NAMES.glob("pp-*"))


def test_ctrl_c_while_it_is_built_leaves_nothing(host, tmp_path):
    file = tmp_path / "topology.yaml"
    # Large enough to take a while.
    nodes = ", ".join(f"h{number}: " for number in range(40))
    links = "".join(f"    l{number}: {{ends: [h{number}, h{number + 1}], both: {{delay: 1ms}}}}\n" for number in range(0, 40, 2))
    file.write_text(f"topology:\n  nodes: {{{nodes}}}\n  links:\n{links}")
    command = [sys.executable, "-c", "from polypath.cli import main; main()", "emu", "up", str(file)]
    for _ in range(5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda process=process: process.poll() is not None or STATE.exists(), "it is begun", every_s=0.001)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        if process.wait(PATIENCE_S) != 0:
            assert not STATE.exists() and not list(NAMES.glob("pp-*"))
            return
        # It was ready before it saw the signal.
        emu.down()
    pytest.fail("an interrupted command ended as if nothing had happened, five times")


def test_commands(up, polypath):
    up("both: {delay: 1ms}")
    code, out, _ = polypath("emu", "status", "--json")
    assert (code, [row["a_to_b"] for row in json.loads(out)["directions"]]) == (0, [True, False])
    code, _, err = polypath("emu", "exec", "h3", "true")
    assert code == 2 and 'there is no node "h3";' in err
    command = [sys.executable, "-c", "from polypath.cli import main; main()", "emu", "exec", "h2", "--", "cat", "/proc/net/fib_trie"]
    assert "10.0.1.2" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_bench_says_what_the_machine_can_do(host):
    figures = emu.bench(0.2)
    for way in ("plain", "through"):
        assert figures[way]["received_per_s"] > 1000 and figures[way]["tcp_bits_per_s"] > 1e7
    delay = figures["delay"]
    assert delay["packets"] == 200
    # The kernel's stamp may lie a little before the sender's own clock reading can tell.
    assert delay["early_max"] < 20
    assert not list(NAMES.glob("pp-*"))


def test_without_root_each_command_says_so_and_a_user_namespace_needs_a_run_of_its_own(monkeypatch, polypath):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    need = r"polypath: emulated links need root, .*: run this with sudo\n"
    for words in (["up", "x.yaml"], ["down"], ["status"], ["exec", "h1", "true"]):
        code, _, said = polypath("emu", *words)
        assert code == 2 and re.fullmatch(need, said), said
    code, _, said = polypath("emu", "bench")
    assert code == 2 and re.fullmatch(f"polypath: `polypath emu bench` is now `polypath bench --engine emu`\n{need}", said), said
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "access", lambda place, how: False)
    with pytest.raises(emu.EmuError, match="root of a user namespace that has no /run of its own: mount one"):
        emu.require_root()


# A user namespace with network and mounts of its own: emulated links need no more.
NEW_ROOT = ["unshare", "--map-root-user", "--net", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]


@pytest.fixture
def ping():
    if programs.find("ping") is None:
        lacking("host", programs.lacks("ping"))
    return programs.need("ping")


@pytest.fixture
def polypath_in_user_namespace():
    """Runs commands there one after the other, and fails with the first that does."""
    if subprocess.run([*NEW_ROOT, "true"], capture_output=True, check=False).returncode:
        lacking("host", "this machine lets nobody make user namespaces")

    def run(*commands):
        program = f"polypath() {{ {sys.executable} -c 'from polypath.cli import main; main()' \"$@\"; }}"
        script = "\n".join([program, "set -e", *commands])
        return subprocess.run([*NEW_ROOT, "sh", "-c", script], capture_output=True, text=True, check=False)

    return run


def test_root_of_a_user_namespace_has_links_too(polypath_in_user_namespace, ping, tmp_path):
    file = tmp_path / "topology.yaml"
    file.write_text("topology: {nodes: {h1: , h2: }, links: {only: {ends: [h1, h2], both: {delay: 5ms}}}}\n")
    asked = f"polypath emu exec h1 -- {ping} -c 3 -i 0.2 10.0.1.2"
    done = polypath_in_user_namespace(f"polypath emu up {file}", asked, "polypath emu status --json >/dev/null", "polypath emu down")
    assert done.returncode == 0, done.stderr
    delays = [float(found) for found in re.findall(r"time=([\d.]+) ms", done.stdout)]
    assert len(delays) == 3
    assert min(delays) >= 10


def test_root_of_a_user_namespace_runs_studies_on_the_engine_host(polypath_in_user_namespace, tmp_path):
    (tmp_path / "study.yaml").write_text(
        "name: unprivileged\ntopology: {nodes: {a: , b: }, links: {l: {ends: [a, b], both: {rate: 10mbit, delay: 5ms}}}}\n"
        "flows: {f: {client: a, server: b, transport: tcp, cc: reno}}\nduration: 2s\nbaselines: null\n"
    )
    done = polypath_in_user_namespace(f"polypath run {tmp_path} --engine host --no-report --out {tmp_path}/results")
    assert done.returncode == 0, done.stderr
    goodput = Results.open(tmp_path / "results" / "unprivileged").runs["goodput_receiver_mbps"].tolist()
    assert 8 < goodput[0] < 10


def host_network():
    """Interfaces, addresses and routes of this machine."""
    devices = sorted(path.name for path in Path("/sys/class/net").iterdir())
    return (*devices, *(Path(f"/proc/net/{name}").read_text() for name in ("route", "fib_trie")))


IPPROTO_MPTCP = 262
WAYS = {
    "over a router": "{phone: , router: {router: true}, server: }",
    "straight to the server": "{phone: , server: }",
}


@pytest.mark.parametrize("nodes", WAYS.values(), ids=WAYS.keys())
def test_a_connection_uses_all_paths_where_the_network_was_built_for_mptcp(host, tmp_path, nodes):
    far = "router" if "router" in nodes else "server"
    file = tmp_path / "topology.yaml"
    file.write_text(
        f"topology:\n  nodes: {nodes}\n  links:\n"
        f"    wifi: {{ends: [phone, {far}], both: {{rate: 20mbit, queue: 100packets, delay: 5ms}}}}\n"
        f"    lte: {{ends: [phone, {far}], both: {{rate: 10mbit, queue: 100packets, delay: 10ms}}}}\n"
        + ("    wan: {ends: [router, server], both: {delay: 2ms}}\n" if far == "router" else "")
    )
    lab = emu.up(str(file), load_setup(file), mptcp=True)
    try:
        assert set(lab.mptcp) == {"phone", "server"}
        address = lab.addresses["server"][0][0]
        try:
            listening, sending = (
                inside(f"pp-{node}", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP))
                for node in ("server", "phone")
            )
        except OSError as error:
            lacking("host", f"this kernel has no MPTCP: {error}")
        with listening, sending:
            listening.bind((address, PORT))
            listening.listen()
            sending.settimeout(PATIENCE_S)
            sending.connect((address, PORT))
            received, _ = listening.accept()
            with received:
                received.settimeout(PATIENCE_S)
                reader = threading.Thread(target=lambda: [None for _ in iter(lambda: received.recv(1 << 16), b"")])
                reader.start()
                for _ in range(80):
                    sending.sendall(bytes(100_000))
                sending.shutdown(socket.SHUT_WR)
                reader.join(PATIENCE_S)
        carried = {row["link"]: row["bytes"] for row in emu.status().status["directions"] if row["a_to_b"]}
        assert carried["wifi"] > 2_000_000
        assert carried["lte"] > 1_000_000
    finally:
        emu.down()
