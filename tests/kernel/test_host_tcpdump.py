"""What `polypath pcap` makes of tcpdump's captures are the kernel's own counters (TCP_INFO)."""

import os
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cc_network import SERVER, TCP_INFO, ip, network
from requirement import planned_on_host

from polypath import Study
from polypath.engines import HostEngine
from polypath.pcap import analyse
from polypath.results import execute, plan
from polypath.sockets import inside, tcp_info

SIZE = 3_000_000
STUDY: dict[str, Any] = {
    "name": "watched",
    "topology": {
        "nodes": {"c": None, "r": {"router": True}, "s": None},
        "links": {
            "one": {"ends": ["c", "r"], "both": {"rate": "10mbit", "queue": "40packets", "delay": "5ms", "loss": "1%"}},
            "two": {"ends": ["c", "r"], "both": {"rate": "10mbit", "queue": "40packets", "delay": "10ms"}},
            "last": {"ends": ["r", "s"], "both": {"delay": "1ms"}},
        },
    },
    # tcpdump needs a moment to begin.
    "flows": {
        # It sends for two seconds; the last counters are taken seconds later.
        "f": {
            "client": "c",
            "server": "s",
            "transport": "mptcp",
            "cc": "cubic",
            "start": "2s",
            "app": {"kind": "on_off", "on": "2s", "off": "60s", "duration": "6s"},
        }
    },
    "duration": "8s",
    "seeds": 1,
    "baselines": None,
}


@pytest.fixture(scope="module", autouse=True)
def host():
    """A machine on which studies run, with tcpdump."""
    planned_on_host(Study.model_validate(STUDY), needs=("tcpdump", "nsenter"))


@contextmanager
def tcpdump(namespace, file, device="any"):
    """Captures in the namespace of this file, for the length of the block."""
    options = f"--immediate-mode -U -n -s 128 -i {device} -w {file}".split()
    command = ["nsenter", f"--net={namespace}", "tcpdump", *options, "tcp or icmp"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        while line and "listening on" not in line:
            line = process.stderr.readline()
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
    assert "\n0 packets dropped by kernel" in said, said


def namespace_with(address):
    """The namespace, without a name, of a child of this process that has this address."""
    seen = {str(Path("/proc/self/ns/net").readlink())}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"\nPPid:\t{os.getpid()}\n" not in (process / "status").read_text():
                continue
            for place in (process / "fd").iterdir():
                target = str(place.readlink())
                if target.startswith("net:[") and target not in seen:
                    seen.add(target)
                    command = ["nsenter", f"--net={place}", "ip", "-o", "address"]
                    if f" {address}/" in subprocess.run(command, capture_output=True, text=True, check=False).stdout:
                        return str(place)
    return ""


def test_tcpdump_beside_a_run_tells_the_kernels_own_counters(tmp_path):
    file = tmp_path / "client.pcap"
    # Whether this machine can carry it out is tried in a network of its own.
    planned = plan(Study.model_validate(STUDY), engine=HostEngine(), out=tmp_path / "out")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(execute, planned)
        namespace = ""
        while not namespace and not running.done():
            namespace = namespace_with("10.0.1.1")
        assert namespace, running.result()
        with tcpdump(namespace, file):
            made = running.result()
    report = analyse([file])
    assert not report["files"][0]["broken"] and not report["files"][0]["unread"]
    (connection,) = report["connections"]
    assert connection["kind"] == "mptcp v1"
    found = {}
    for subflow in connection["subflows"]:
        sent = subflow["directions"][0]
        address = subflow["client"].rpartition(":")[0]
        found[address] = [sent["segments"], sent["retransmissions"], sent["acked_bytes"]]
    kernel = {
        row["source"].rpartition(":")[0]: [row["data_segments_sent"], row["retransmissions"], row["bytes_acked"]]
        for row in made.subflows.to_dict("records")
    }
    assert found == kernel
    assert len(kernel) == 2 and sum(row[1] for row in kernel.values()) > 5, "there was loss"
    (flow,) = made.runs.to_dict("records")
    assert connection["data"][0]["reinjected_bytes"] == flow["reinjected_bytes"]


def serve(listener):
    with listener, listener.accept()[0] as taken:
        while taken.recv(1 << 20):
            pass


def transfer(size, host):
    """The kernel's counters of a socket that has sent so many bytes."""
    with socket.create_connection((host, 5001)) as sender:
        sender.sendall(bytes(size))
        deadline = time.monotonic() + 30
        while tcp_info(info := sender.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 512))["bytes_acked"] <= size:
            assert time.monotonic() < deadline, "the transfer takes too long"
            time.sleep(0.05)
        return info


def test_segments_that_offloads_join_are_counted_as_the_kernel_counts(tmp_path):
    """Tcpdump sees tens of segments as one packet, and the queue behind loses some."""
    file = tmp_path / "client.pcap"
    with network(rate=50, queue=30) as net:
        for namespace, device in ((net.client, "to1"), (net.router, "to1")):
            ip("ip", "netns", "exec", namespace, "ethtool", "-K", device, "tso", "on", "gso", "on")
        listener = inside(net.server, lambda: socket.create_server((SERVER, 5001)))
        server = threading.Thread(target=serve, args=(listener,), daemon=True)
        server.start()
        with tcpdump(f"/run/netns/{net.client}", file, "to1"):
            counters = tcp_info(inside(net.client, lambda: transfer(SIZE, SERVER)))
        server.join(10)
    (connection,) = analyse([file])["connections"]
    sent = connection["subflows"][0]["directions"][0]
    assert sent["super_frames"] > 20
    assert "the host joined segments" in connection["joined"]
    # The socket counts the SYN that was acknowledged as a byte.
    kernel = [counters["data_segs_out"], counters["total_retrans"], counters["bytes_acked"] - 1]
    assert [sent["segments"], sent["retransmissions"], sent["acked_bytes"]] == kernel
    assert counters["total_retrans"] > 0
    assert sent["mss_used"] < sent["mss_announced"]
