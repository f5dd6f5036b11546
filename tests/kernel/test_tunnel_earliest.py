"""The tunnel daemon's distribution `earliest` over paths of unlike rates: nobody tells it what they carry."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
from tunnel_network import Tunnel, connected, unequal_paths

SECONDS, SETTLES = 6, 4


def goodput() -> float:
    """Mbit/s of a new connection, after its slow start."""
    client, server = connected()
    stop = threading.Event()

    def send() -> None:
        with contextlib.suppress(OSError):
            while not stop.is_set():
                client.send(bytes(1 << 16))

    thread = threading.Thread(target=send)
    with client, server:
        thread.start()
        begun, got = time.monotonic(), 0
        while (now := time.monotonic()) < begun + SETTLES + SECONDS:
            got += len(server.recv(1 << 20)) * (now > begun + SETTLES)
        stop.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
    return got * 8e-6 / SECONDS


@pytest.mark.parametrize("mbps, ms", [((15, 1), (20, 15)), ((1, 15), (20, 15)), ((3, 1), (15, 20)), ((15, 5), (60, 15))])
def test_paths_are_full_though_their_weights_are_equal(tunnel: Tunnel, mbps: tuple[int, int], ms: tuple[int, int]) -> None:
    with unequal_paths(tunnel, mbps, ms):
        tunnel.both(tunnel='distribution = "earliest"')
        speed = goodput()
        found = [path["estimate"]["capacity_bits_per_s"] for path in tunnel.status(0)["paths"]]
    # A busy machine takes some of it. Where one path's capacity was taken for the other's, the first case had 0.13 and the last 0.46.
    assert speed > 0.65 * sum(mbps) * 1400 / 1500
    assert all(0.75 * rate < (bps or 0) / 1e6 < 1.25 * rate for bps, rate in zip(found, mbps, strict=True)), found
