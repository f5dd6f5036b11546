"""packetdrill on the simulator's endpoint: `polypath script --packetdrill`.

packetdrill itself is in no Debian package: a program of some lines that loads the shared object and
calls what packetdrill calls stands in for it.
"""

import sys
from pathlib import Path

import pytest
from packetdrill_player import HANDSHAKE, player

from polypath import selftests
from polypath.engines import run_packetdrill

# The table as packetdrill has it, by its places; and packets of TCP over IPv4.
STAND_IN = """
import ctypes, errno, os, socket, struct, sys, threading, time

given = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
assert "--send_omit_free" in sys.argv and given["local_ip"] == "192.168.0.1"
so = ctypes.CDLL(given["so_filename"], use_errno=True)
table = (ctypes.c_void_p * 34)()
so.packetdrill_interface_init(given["so_flags"].encode(), table)
NAMES = '''own end socket bind listen accept connect read readv recv recvfrom recvmsg write writev send sendto sendmsg fcntl ioctl
close shutdown getsockopt setsockopt poll packet_in packet_out usleep gettimeofday epoll_create epoll_ctl epoll_wait pipe splice'''.split()

number, size = ctypes.c_int, ctypes.c_size_t

def call(name, *arguments):
    word = ctypes.c_long if name in ("read", "write", "send", "sendto", "recv") else ctypes.c_int
    kinds = [type(one) if isinstance(one, (number, size)) else ctypes.c_void_p for one in arguments]
    function = ctypes.CFUNCTYPE(word, ctypes.c_void_p, *kinds, use_errno=True)(table[NAMES.index(name)])
    return function(table[0], *arguments)

text = ctypes.create_string_buffer

def address(ip, port):
    return text(struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(ip) + bytes(8))

def clock():
    at = (ctypes.c_long * 2)()
    call("gettimeofday", at, ctypes.c_void_p())
    return at[0] * 1_000_000 + at[1]

def summed(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff

def give(flags, seq, ack=0, data=b"", options=b""):
    source, destination = socket.inet_aton("192.0.2.1"), socket.inet_aton("192.168.0.1")
    offset = (20 + len(options)) // 4 << 4
    tcp = struct.pack("!HHIIBBHHH", 4000, 8080, seq, ack, offset, flags, 65535, 0, 0) + options + data
    padded = tcp + bytes(len(tcp) % 2)
    tcp = tcp[:16] + struct.pack("!H", summed(source + destination + struct.pack("!HH", 6, len(tcp)) + padded)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + source + destination
    packet = ip[:10] + struct.pack("!H", summed(ip)) + ip[12:] + tcp
    assert call("packet_in", text(packet, len(packet)), size(len(packet))) == 0

def take():
    room, length, at = text(4096), size(4096), ctypes.c_longlong()
    call("packet_out", room, ctypes.byref(length), ctypes.byref(at))
    packet = room.raw[:length.value]
    _, _, seq, ack, offset, flags = struct.unpack("!HHIIBB", packet[20:34])
    return at.value, flags, seq, ack, packet[40:20 + (offset >> 4) * 4], len(packet) - 20 - (offset >> 4) * 4

SYN, ACK, PSH, FIN = 2, 16, 8, 1

def opened(kind=1):
    return call("socket", number(socket.AF_INET), number(kind), number(0))

MSS = bytes([2, 4, 5, 180])

def accepted():
    listener = opened()
    assert call("bind", number(listener), address("192.168.0.1", 8080), number(16)) == 0
    assert call("listen", number(listener), number(1)) == 0
    give(SYN, 0, options=MSS)
    _, flags, iss, ack, options, _ = take()
    assert (flags, ack) == (SYN | ACK, 1)
    give(ACK, 1, iss + 1)
    fd = call("accept", number(listener), text(128), ctypes.byref(ctypes.c_uint(128)))
    assert fd > listener
    return fd, iss + 1, options
"""
HEAD = "--local_ip=192.168.0.1\n"


def stand_in(folder, text):
    """The program, which does this."""
    file = folder / "stand-in"
    file.write_text(f"#!{sys.executable}\n{STAND_IN}{text}")
    file.chmod(0o755)
    return file


def played(folder, text, script=HEAD):
    file = folder / "a.pkt"
    file.write_text(script)
    return run_packetdrill(stand_in(folder, text), file, ["--send_omit_free", "--local_ip=192.168.0.1"])


def test_a_program_is_served_at_its_times_without_waiting(tmp_path):
    status, said, refused = played(
        tmp_path,
        """
fd, iss, _ = accepted()
start, real = clock(), time.monotonic()
assert call("write", number(fd), text(1000), size(1000)) == 1000
at, flags, seq, ack, _, length = take()
assert (at, flags, seq, length) == (start, ACK | PSH, iss, 1000)
assert call("usleep", number(100_000)) == 0
assert clock() - start == 100_000, "as long as it slept"
# Nothing is acknowledged: the timeout is the next to send.
again, _, seq, _, _, _ = take()
assert seq == iss and 150_000 < again - start < 1_100_000
give(ACK, 1, iss + 1000)
# Who asks again and again for the time waits for it.
until = clock() + 1000
while (seen := clock()) < until:
    pass
assert seen == until
assert time.monotonic() - real < 30
""",
    )
    assert (status, refused) == (0, []), said


def test_a_call_that_waits_ends_with_what_it_waits_for(tmp_path):
    status, said, refused = played(
        tmp_path,
        """
fd, iss, _ = accepted()
ended = []
def reader():
    read = call("read", number(fd), text(100), size(100))
    ended.append((read, clock()))
thread = threading.Thread(target=reader)
start = clock()
thread.start()
while "S" not in open(f"/proc/self/task/{thread.native_id}/stat").read().rsplit(")")[1].split()[0]:
    pass
call("usleep", number(5000))
assert not ended
give(ACK | PSH, 1, iss, data=b"x" * 40)
call("usleep", number(7000))
thread.join()
assert ended == [(40, start + 5000)], (ended, start)
assert call("fcntl", number(fd), number(4), number(os.O_NONBLOCK)) == 0
assert call("read", number(fd), text(100), size(100)) == -1 and ctypes.get_errno() == errno.EAGAIN
""",
    )
    assert (status, refused) == (0, []), said


@pytest.mark.parametrize(("how", "value"), [("sysctl", ""), ("sysctl", "0"), ("file", "0")])
def test_what_commands_set_is_the_endpoints(tmp_path, how, value):
    """SACK is offered, unless a command forbids it: through sysctl, or through /proc/sys."""
    mine = Path("/proc/sys/net/ipv4/tcp_sack")
    before = mine.read_text() if mine.exists() else None
    commands = {"sysctl": f"sysctl -q net.ipv4.tcp_sack={value}", "file": f"cat {mine} && echo {value} > {mine} && test $(cat {mine}) = 0"}
    status, said, refused = played(
        tmp_path,
        f"""
assert os.system({commands[how]!r}) == 0
MSS += bytes([4, 2, 1, 1])
_, _, options = accepted()
assert (bytes([4, 2]) in options) == {value != "0"}, options
""",
    )
    assert (status, refused) == (0, []), said
    assert before is None or mine.read_text() == before


def test_a_server_announces_the_address_that_a_command_signals(tmp_path):
    """RFC 8684 section 3.4.1; as Linux 6.12, with no other option."""
    status, said, refused = played(
        tmp_path,
        """
for command in "mptcp endpoint flush", "addr add 192.168.0.2/16 dev tun0", "mptcp endpoint add 192.168.0.2 signal":
    assert os.system("ip " + command) == 0
listener = call("socket", number(socket.AF_INET), number(1), number(262))
assert call("bind", number(listener), address("192.168.0.1", 8080), number(16)) == 0
assert call("listen", number(listener), number(1)) == 0
give(SYN, 0, options=MSS + bytes([30, 4, 1, 1]))
_, flags, iss, ack, options, _ = take()
key = options[options.index(bytes([30, 12])) + 4:][:8]
give(ACK, 1, iss + 1, options=bytes([30, 20, 1, 1]) + bytes(7) + b"\\2" + key)
_, flags, seq, ack, options, length = take()
assert (flags, seq, length) == (ACK, iss + 1, 0)
assert options[:8] == bytes([30, 16, 48, 1, 192, 168, 0, 2]) and len(options) == 16, options
""",
    )
    assert (status, refused) == (0, []), said


def test_what_a_syn_carries_is_told_of_as_what_a_write_does(tmp_path):
    """RFC 7413 section 3: the first connection asks for a cookie, later ones use it."""
    status, said, refused = played(
        tmp_path,
        """
assert os.system("sysctl -q net.ipv4.tcp_fastopen=1") == 0
FASTOPEN, ZEROCOPY, RST = 0x20000000, 0x4000000, 4
peer = address("192.0.2.1", 4000)
def client():
    fd = opened(1 | os.O_NONBLOCK)
    assert call("bind", number(fd), address("192.168.0.1", 8080), number(16)) == 0
    return fd
def send(fd, length, flags):
    return call("sendto", number(fd), text(length + 1), size(length), number(flags), peer, number(16))
first = client()
assert send(first, 0, FASTOPEN) == -1 and ctypes.get_errno() == errno.EINPROGRESS
iss = take()[2]
give(SYN | ACK, 0, iss + 1, options=MSS + bytes([34, 10]) + b"abcdefgh" + bytes([1, 1]))
assert take()[1] == ACK
call("usleep", number(100_000))
info = text(300)
assert call("getsockopt", number(first), number(6), number(11), info, ctypes.byref(ctypes.c_uint(300))) == 0
assert struct.unpack_from("=I", info, 52)[0] == 100, "tcpi_last_data_recv"
give(RST, 1)

on = text(struct.pack("=i", 1))
second = client()
assert call("setsockopt", number(second), number(6), number(30), on, number(4)) == 0
assert call("connect", number(second), peer, number(16)) == 0
assert call("read", number(second), text(9), size(9)) == -1 and ctypes.get_errno() == errno.EAGAIN, "it has not connected"
assert call("close", number(second)) == 0

third = client()
assert call("setsockopt", number(third), number(1), number(60), on, number(4)) == 0
assert send(third, 500, FASTOPEN | ZEROCOPY) == 500
_, flags, iss, _, _, length = take()
assert (flags, length) == (SYN, 500)
give(SYN | ACK, 0, iss + 501, options=MSS)
assert take()[1] == ACK
asked = text(struct.pack("=ihh", third, 0, 0))
assert call("poll", asked, ctypes.c_size_t(1), number(0)) == 1
assert struct.unpack_from("=ihh", asked)[2] == 8, "what it was given is free: POLLERR"
""",
    )
    assert (status, refused) == (0, []), said


def test_a_signed_segment_without_a_key_is_dropped(tmp_path):
    """RFC 2385; Linux counts it as TCPMD5Unexpected. Commands see who listens."""
    status, said, refused = played(
        tmp_path,
        """
listener = opened()
assert call("bind", number(listener), address("192.168.0.1", 8080), number(16)) == 0
assert os.system("grep ':1F90' /proc/net/tcp") != 0
assert call("listen", number(listener), number(1)) == 0
assert os.system("grep ' 0A ' /proc/net/tcp /proc/net/tcp6 | grep ':1F90'") == 0
assert call("fcntl", number(listener), number(4), number(os.O_NONBLOCK)) == 0
give(SYN, 0, options=MSS)
_, _, iss, _, _, _ = take()
none = [number(listener), text(128), ctypes.byref(ctypes.c_uint(128))]
give(ACK, 1, iss + 1, options=bytes([19, 18]) + bytes(16) + bytes([1, 1]))
assert call("accept", *none) == -1 and ctypes.get_errno() == errno.EAGAIN
give(ACK, 1, iss + 1)
assert call("accept", *none) > listener
""",
    )
    assert (status, refused) == (0, []), said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("os.system('sysctl -q net.ipv4.tcp_nothing=1'); opened()", "the setting `net.ipv4.tcp_nothing`"),
        ("os.system('sysctl -q net.ipv4.tcp_recovery=0'); opened()", "`net.ipv4.tcp_recovery` is "),
        ("opened(2)", "sockets of the type 2"),
        ("os.system('tc qdisc replace dev tun0 root fq')", "the command tc qdisc replace dev tun0 root fq"),
        ("call('setsockopt', number(opened()), number(6), number(14), text(64), number(64))", "TCP_MD5SIG"),
        ("call('setsockopt', number(opened()), number(0), number(1), text(1), number(1))", "IP_TOS"),
        ("os.system('ip route change 192.0.2.1 via 192.168.0.2 dev tun0 mtu lock 640')", "the command ip route change"),
        ("os.system('ethtool -K tun0 gro off')", "the command ethtool"),
        ("os.system('ip mptcp limits set add_addr_accepted 0 subflows 8'); opened()", "the command ip mptcp limits set"),
    ],
)
def test_what_an_endpoint_cannot_do_is_refused_by_name(tmp_path, text, sentence):
    status, said, refused = played(tmp_path, text)
    assert status == 0 and len(refused) == 1 and sentence in refused[0], (said, refused)


def test_the_command_counts_what_passes_what_fails_and_what_is_refused(polypath, tmp_path):
    program = stand_in(
        tmp_path,
        """
script = open(sys.argv[-1]).read()
if "refused" in script:
    opened(3)
if "wrong" in script:
    sys.exit("deep.pkt:3: error handling packet: it came too late")
""",
    )
    for name, text in {"good": "", "wrong": "wrong", "not": "refused", "of-v6": ""}.items():
        (tmp_path / "scripts" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "scripts" / "deep" / f"{name}.pkt").write_text(f"// {text}\n")
    code, said, _ = polypath("script", "--packetdrill", str(program), str(tmp_path / "scripts"))
    assert code == 1
    lines = said.splitlines()
    assert lines[:3] == [
        "deep/not: refused: sockets of the type 3 and the protocol 0",
        "deep/of-v6: refused: IPv6",
        "deep/wrong: failed: deep.pkt:3: error handling packet: it came too late",
    ]
    assert [cell.strip() for cell in lines[-2].strip("│").split("│")] == ["all", "4", "1", "1", "2"]
    (tmp_path / "scripts" / "deep" / "wrong.pkt").unlink()
    assert polypath("script", "--packetdrill", str(program), str(tmp_path / "scripts"))[0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--packetdrill", "PROGRAM"], "no script is given: name packetdrill's scripts"),
        (["--packetdrill", "PROGRAM", "--engine", "linux", "scripts"], "leave --engine out"),
        (["--packetdrill", "nowhere", "scripts"], "nowhere is no program"),
        (["--packetdrill", "PROGRAM", "nowhere"], "there is no folder and no script nowhere"),
    ],
)
def test_a_call_that_means_nothing_is_refused(polypath, tmp_path, words, sentence):
    program = str(stand_in(tmp_path, ""))
    code, _, said = polypath("script", *(program if word == "PROGRAM" else word for word in words))
    assert code == 2 and sentence in said


def test_packetdrill_plays_scripts_on_the_endpoint(tmp_path):
    program = player()
    (tmp_path / "good.pkt").write_text(HANDSHAKE)
    (tmp_path / "wrong.pkt").write_text(HANDSHAKE.replace("> F.", "> P."))
    wrong, good = sorted(selftests.play_on_endpoint([tmp_path], program, 1), key=lambda one: one.outcome)
    assert (good.outcome, wrong.outcome) == ("passed", "failed")
    assert "wrong.pkt:10: error handling packet: live packet field" in wrong.reason
