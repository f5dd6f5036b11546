"""The tunnel daemon's encryption, and what strangers may send it."""

import base64
import contextlib
import hashlib
import hmac
import os
import re
import signal
import socket
import struct
import threading

from tunnel_network import PATIENCE, PROGRAM, carried, command, connected, inside, ip, overheard, pings, sent_packets, until


def test_what_is_not_the_peers_is_counted_and_harms_nothing(tunnel):
    keyed = 'encapsulation = "rfc8086"\nkey = 7'
    tunnel.both(tunnel=keyed)
    stranger = inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    ip(0, "addr", "add", "192.168.1.77/24", "dev", "v1")
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


def test_an_encrypted_tunnel_carries_traffic_that_nobody_reads(tunnel):
    tunnel.both_encrypted()
    assert tunnel.status(0)["mtu"] == 1464 - 32
    secret = b"nobody but the other end reads this"
    client, server = connected()
    heard = []
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


def test_replays_and_strangers_are_refused(tunnel):
    tunnel.both_encrypted()
    assert pings(0, "10.99.0.2") >= 19
    before = tunnel.status(1)["refused"]
    heard = []
    listens = threading.Event()
    listening = threading.Thread(target=lambda: heard.extend(overheard("v1", lambda data: data[0] == 0x44, 5, listens)))
    listening.start()
    assert listens.wait(PATIENCE), "it listens"
    pings(0, "10.99.0.2")
    listening.join()
    # From the peer's own address, and from another one, to which the tunnel must not turn.
    ip(0, "addr", "add", "192.168.1.77/24", "dev", "v1")
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


def test_a_wrong_key_carries_nothing(tunnel):
    tunnel.encrypt(strange=True)
    tunnel.start(0)
    tunnel.start(1)
    assert pings(0, "10.99.0.2", count=3) == 0
    until(lambda: tunnel.status(0)["refused"]["not_authentic"] >= 1, "the other end's handshakes are refused")
    assert tunnel.status(0)["encryption"]["session_age_s"] is None
    assert tunnel.status(0)["encryption"]["initiations_sent"] >= 1
    assert tunnel.status(0)["daemon"]["no_session"] >= 1


def forged(public, number):
    """An initiation by somebody who knows the public key, as dear as a real one."""
    body = b"\x41\0\0\0" + struct.pack("!IQ", number, number) + b"\x5a" * 96
    return body + hmac.new(base64.b64decode(public), body, hashlib.blake2s).digest()[:16] + bytes(16)


@contextlib.contextmanager
def flood(public, senders):
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

    def send():
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


def test_a_flood_of_handshakes_does_not_keep_the_other_end_out(tunnel):
    tunnel.encrypt()
    # End 1 has to begin, from an address that end 0 does not know.
    file = tunnel.folder / "ppt-1.toml"
    file.write_text(re.sub(r'remote = "192.168.(.).2"', r'remote = "192.168.\1.200"', file.read_text()))
    public = command(str(PROGRAM), "pubkey", str(tunnel.folder / "a.key")).stdout.strip()
    tunnel.start(0)

    def seen(name):
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
        until(lambda: "ppt0" not in ip(1, "link"), "the device goes")
        before = seen("initiations_received")
        tunnel.start(1)
        until(lambda: seen("initiations_received") > before, "it is let in")
        carried(client, server, 1_000_000)
        carried(server, client, 1_000_000)


def test_who_saw_one_start_does_not_recognise_the_next(tunnel):
    tunnel.encrypt()
    names = set()
    for _ in range(3):
        heard = []
        listens = threading.Event()

        def listen(heard=heard, listens=listens):
            heard.extend(overheard("v1", lambda data: data[0] == 0x41, 1, listens))

        listening = threading.Thread(target=listen)
        listening.start()
        assert listens.wait(PATIENCE), "it listens"
        tunnel.start(0)
        listening.join()
        # The name of the session, in clear.
        names.add(heard[0][4:8])
        command(str(PROGRAM), "down", "ppt-1")
    assert len(names) == 3
