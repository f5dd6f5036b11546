"""A bottleneck between namespaces for tests of congestion control: a client with two addresses, a
rival and a server.

    client  10.77.1.1 ---+
            10.77.2.1 ---+--- router --- (rate, queue) --- server 10.77.9.2
    rival   10.77.3.1 ---+

Everything lives in four namespaces named after this process, which are removed whatever happens;
those of a process that died are removed by the next one. There may be several such networks at
once.
"""

import itertools
import os
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from requirement import lacking

from polypath import programs
from polypath.sockets import inside

PREFIX = "pp-cctest"
SERVER = "10.77.9.2"
TCP_INFO, TCP_CONGESTION, IPPROTO_MPTCP = 11, 13, 262
MSS = 1448


def ip(*words):
    command = [str(word) for word in words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.strip()}"


def setting(namespace, name, value):
    """Writes a sysctl of a namespace; a small machine has no program for it."""
    inside(namespace, lambda: Path("/proc/sys", *name.split(".")).write_text(value))


class Network:
    """The four namespaces; `rate` in Mbit/s, `queue` in packets of full size."""

    def __init__(self, name, rate, queue):
        self.client, self.rival, self.router, self.server = (f"{name}-{role}" for role in "cxrs")
        for namespace in (self.client, self.rival, self.router, self.server):
            ip("ip", "netns", "add", namespace)
            ip("ip", "-n", namespace, "link", "set", "lo", "up")
        for number, namespace in ((1, self.client), (2, self.client), (3, self.rival), (9, self.server)):
            self._cable(number, namespace)
        setting(self.router, "net.ipv4.ip_forward", "1")
        # A burst of one full-size packet: the queue is the discipline's own.
        packet = MSS + 66
        shape = ("rate", f"{rate}mbit", "burst", packet, "limit", queue * packet)
        ip("tc", "-n", self.router, "qdisc", "add", "dev", "to9", "root", "tbf", *shape)
        # The second address reaches the server by the second cable.
        ip("ip", "-n", self.client, "route", "add", "default", "via", "10.77.2.254", "table", "2")
        ip("ip", "-n", self.client, "rule", "add", "from", "10.77.2.1", "table", "2")
        for namespace in (self.client, self.server):
            ip("ip", "-n", namespace, "mptcp", "limits", "set", "subflow", "2", "add_addr_accepted", "2")
        ip("ip", "-n", self.client, "mptcp", "endpoint", "add", "10.77.2.1", "dev", "to2", "subflow")
        for namespace in (self.client, self.rival):
            # A SYN lost in the full queue is no sign of a path without MPTCP.
            setting(namespace, "net.mptcp.blackhole_timeout", "0")
            # A window that an earlier connection left would give later ones another start.
            setting(namespace, "net.ipv4.tcp_no_metrics_save", "1")

    def _cable(self, number, namespace):
        end = SERVER if namespace == self.server else f"10.77.{number}.1"
        ip("ip", "-n", self.router, "link", "add", f"to{number}", "type", "veth", "peer", "name", f"to{number}", "netns", namespace)
        for where, address in ((self.router, f"10.77.{number}.254"), (namespace, end)):
            ip("ip", "-n", where, "address", "add", f"{address}/24", "dev", f"to{number}")
            # The bottleneck must see single packets.
            ip("ip", "netns", "exec", where, "ethtool", "-K", f"to{number}", "tso", "off", "gso", "off", "gro", "off")
            ip("ip", "-n", where, "link", "set", f"to{number}", "up")
        if not (namespace == self.client and number == 2):
            ip("ip", "-n", namespace, "route", "add", "default", "via", f"10.77.{number}.254")

    def choose(self, namespace, algorithm):
        """What new sockets of a namespace use."""
        setting(namespace, "net.ipv4.tcp_congestion_control", algorithm)


@contextmanager
def network(rate, queue):
    """The namespaces, for the length of the block."""
    for program in ("ip", "tc", "ethtool"):
        if programs.find(program) is None:
            lacking("host", programs.lacks(program))
    sweep()
    own = f"{PREFIX}-{os.getpid()}-{next(_numbers)}"
    try:
        yield Network(own, rate, queue)
    finally:
        _remove(Path("/run/netns").glob(f"{own}-*"))


_numbers = itertools.count(1)


def sweep():
    """Removes what processes that died left."""
    _remove(place for place in Path("/run/netns").glob(f"{PREFIX}-*") if not Path(f"/proc/{place.name.split('-')[2]}").exists())


def _remove(places):
    for place in list(places):
        ip("ip", "netns", "delete", place.name)


class Flow:
    """A transfer without end from a namespace to the server."""

    def __init__(self, net, source, port, *, mptcp=False, algorithm=None):
        kind = (socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP if mptcp else 0)
        self.received = 0
        self._listener = inside(net.server, lambda: socket.socket(*kind))
        self._listener.bind((SERVER, port))
        self._listener.listen(1)
        self._listener.settimeout(20)
        self.sender = inside(source, lambda: socket.socket(*kind))
        self.sender.settimeout(20)
        if algorithm:
            # Unlike a namespace's default, root may choose any for a socket.
            self.sender.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, algorithm.encode())
        self._threads = [threading.Thread(target=self._drain, daemon=True), threading.Thread(target=self._fill, daemon=True)]
        self._threads[0].start()
        self.sender.connect((SERVER, port))
        self._threads[1].start()

    def _drain(self):
        connection, _ = self._listener.accept()
        # The sender ends by a reset, which MPTCP reports in several ways.
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                self.received += len(data)

    def _fill(self):
        try:
            while True:
                self.sender.send(bytes(1 << 16))
        except OSError:
            pass  # closed: the transfer is over

    def window(self):
        """The congestion window in segments (TCP only): tcpi_snd_cwnd of linux/tcp.h."""
        return int.from_bytes(self.sender.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 104)[80:84], "little")

    def subflows(self):
        """Subflows beside the first (MPTCP only): mptcpi_subflows of linux/mptcp.h."""
        return self.sender.getsockopt(284, 1, 8)[0]

    def close(self):
        """Ends the transfer at once, in both namespaces."""
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        self.sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.sender.shutdown(socket.SHUT_RDWR)
        self.sender.close()
        self._listener.close()
        for thread in self._threads:
            thread.join(20)


def rates(flows, seconds, on_tick=lambda: None):
    """Mbit/s of each over a span of time, in which `on_tick` is called ten times a second."""
    before, start = [flow.received for flow in flows], time.monotonic()
    while time.monotonic() < start + seconds:
        time.sleep(0.1)
        on_tick()
    span = time.monotonic() - start
    return [(flow.received - old) * 8e-6 / span for flow, old in zip(flows, before, strict=True)]
