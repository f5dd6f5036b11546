"""A plain tunnel while somebody off the path sends it numbers of his own."""

import contextlib
import itertools
import socket
import struct
import threading
import time

import pytest
from tunnel_network import PORT, goodput, inside, pings


@contextlib.contextmanager
def forged_jumps(rate):
    """Datagrams that say they are end 0's, each numbered far ahead of the one before."""
    stop = threading.Event()

    def send():
        outer = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 0, 0, 64, 17, 0, socket.inet_aton("192.168.1.1"), socket.inet_aton("192.168.1.2"))
        inner = b"\x45" + bytes(19)
        udp = struct.pack("!HHHH", 23456, 23456, 8 + 8 + len(inner), 0)
        with inside(0, lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)) as out:
            for number in itertools.count(1):
                gre = struct.pack("!HHI", 0x1000, 0x0800, number * ((1 << 22) + 5) % (1 << 32))
                out.sendto(outer + udp + gre + inner, ("192.168.1.2", 0))
                if stop.wait(1 / rate):
                    return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("rate", [5, 100])
def test_forged_numbers_do_not_stop_a_plain_tunnel(tunnel, rate):
    tunnel.both()
    before = goodput()
    with forged_jumps(rate):
        # The first packet of a new connection has no others around it.
        listener = inside(1, lambda: socket.create_server(("10.99.0.2", PORT + 1), backlog=100))
        with listener:
            for _ in range(10):
                time.sleep(1.5 / rate)
                inside(0, lambda: socket.create_connection(("10.99.0.2", PORT + 1), 5)).close()
        during = goodput()
        assert pings(0, "10.99.0.2") >= 19
    assert during > before / 2, f"{during / 1e6:.0f} of {before / 1e6:.0f} Mbit/s"
    assert tunnel.status(1)["reorder"]["restarts"] == 0
