"""The algorithms as BPF struct_ops."""

import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from requirement import lacking

from polypath import kernelcc, programs
from polypath.kernelcc import KernelCcError

ROOT = Path(__file__).resolve().parents[2]
ALGORITHMS = sorted(path.stem for path in (ROOT / "cc" / "algs").glob("*.c"))
SCHEDULERS = sorted((ROOT / "cc" / "sched").glob("*.c"))
TCP_CONGESTION = 13
IPPROTO_MPTCP = 262
BYTES = 20_000_000


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def objects(tmp_path_factory):
    """The folder of the compiled objects."""
    if packages := programs.packages(programs.missing("cc")):
        lacking("host", f"compiling as BPF needs the Debian packages {' '.join(packages)}")
    out = tmp_path_factory.mktemp("bpf")
    run(ROOT / "cc" / "bpf" / "build.sh", out)
    return out


@pytest.mark.parametrize("name", ALGORITHMS)
def test_object_compiles(objects, name):
    assert (objects / f"pp_{name}.bpf.o").stat().st_size > 0


@pytest.mark.parametrize("file", SCHEDULERS, ids=[file.stem for file in SCHEDULERS])
def test_schedulers_compile_for_trees_that_take_them_as_bpf(file, tmp_path):
    if packages := programs.packages(programs.missing("cc")):
        lacking("host", f"compiling as BPF needs the Debian packages {' '.join(packages)}")
    run(ROOT / "cc" / "bpf" / "build.sh", tmp_path, file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)
    (compiled,) = tmp_path.iterdir()
    assert compiled.name == f"pp_{file.stem}.bpf.o"
    hooks = set(re.findall(rb"(?<!rel)struct_ops/\w+", compiled.read_bytes()))
    assert hooks == {b"struct_ops/" + hook for hook in (b"init", b"release", b"get_send", b"get_retrans")}


def test_hooks_count_wherever_their_lines_break(objects, tmp_path):
    text = (ROOT / "cc" / "algs" / "lia.c").read_text()
    begin = text.index("PP_CC_REGISTER")
    end = text.index("};", begin)
    (tmp_path / "lia.c").write_text(text[:begin] + text[begin:end].replace("\n", " ") + text[end:])
    run(ROOT / "cc" / "bpf" / "build.sh", tmp_path, tmp_path / "lia.c")
    hooks = [set(re.findall(rb"struct_ops/\w+", (folder / "pp_lia.bpf.o").read_bytes())) for folder in (objects, tmp_path)]
    assert hooks[0] == hooks[1] > {b"struct_ops/cong_avoid"}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("protocol", ["tcp", "mptcp"])
def test_verifier_accepts_it_and_a_transfer_uses_it(name, protocol):
    if protocol == "mptcp" and not mptcp_works():
        lacking("host", "this kernel has no MPTCP (net.mptcp.enabled)")
    try:
        kernelcc.status()
    except KernelCcError as error:
        lacking("host", str(error))
    with kernelcc.ensure([name]):
        assert transfer(f"pp_{name}", protocol) == f"pp_{name}"


def mptcp_works():
    try:
        tcp_socket(IPPROTO_MPTCP).close()
    except OSError:
        return False
    return True


def tcp_socket(protocol):
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)


def transfer(algorithm, protocol):
    """Send BYTES over the loopback device; the algorithm that the socket names afterwards."""
    number = IPPROTO_MPTCP if protocol == "mptcp" else 0
    received = 0

    def drain(listener):
        nonlocal received
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(1 << 20):
                received += len(data)

    with tcp_socket(number) as listener, tcp_socket(number) as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        listener.settimeout(20)
        client.settimeout(20)
        reader = threading.Thread(target=drain, args=(listener,), daemon=True)
        reader.start()
        # At both ends: DCTCP's SYN is agreed to by its like alone, and without ECN it is Reno.
        for end in (listener, client):
            end.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, algorithm.encode())
        client.connect(listener.getsockname())
        client.sendall(bytes(BYTES))
        used = client.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).split(b"\0")[0].decode()
        client.shutdown(socket.SHUT_WR)
        reader.join(20)
    assert received == BYTES
    return used
