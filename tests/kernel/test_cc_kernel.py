"""Our congestion controls in the running kernel."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cc_network import PREFIX, TCP_CONGESTION, ip, setting, sweep
from requirement import lacking
from waiting import until

from polypath import kernelcc, programs
from polypath.kernelcc import KernelCcError, _program
from polypath.sockets import inside

ROOT = Path(__file__).resolve().parents[2]
ALGORITHMS = sorted(path.stem for path in (ROOT / "cc" / "algs").glob("*.c"))
SYSCTLS = [Path("/proc/sys/net/ipv4") / f"tcp_{word}congestion_control" for word in ("", "allowed_", "available_")]


@pytest.fixture(autouse=True)
def clean():
    """The kernel and its sysctls are what they were, before and after."""
    sweep()
    try:
        there = [each.name for each in kernelcc.status().loaded]
    except KernelCcError as error:
        lacking("host", str(error))
    if there:
        lacking("host", f"{' '.join(there)}: in this kernel already; `polypath cc unload` takes them out if nobody needs them")
    before = [file.read_text() for file in SYSCTLS]
    yield
    until(lambda: not kernelcc.status().loaded, "nothing is loaded")
    assert [file.read_text() for file in SYSCTLS] == before


def state():
    return {each.name: each.how for each in kernelcc.status().loaded}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_kernel_and_the_simulator_compute_the_same_windows(name):
    same, lines = kernelcc.check([name])
    assert same, lines
    # All vectors and 200 random flows of 250 calls.
    assert int(lines[0].split(" calls")[0].split()[-1]) > 50_000


def test_loaded_ones_may_be_chosen_everywhere_and_leave_no_trace():
    assert kernelcc.load(["lia", "pp_cubic"]) == ["pp_lia", "pp_cubic"]
    namespace = f"{PREFIX}-{os.getpid()}-c"
    ip("ip", "netns", "add", namespace)
    try:
        assert state() == {"pp_lia": "loaded", "pp_cubic": "loaded"}
        assert all(each.allowed for each in kernelcc.status().loaded)
        # Elsewhere the kernel refuses names that are not allowed.
        setting(namespace, "net.ipv4.tcp_congestion_control", "pp_lia")
        with inside(namespace, socket.socket) as there:
            there.bind(("0.0.0.0", 0))
            there.listen()
            lia = next(each for each in kernelcc.status().loaded if each.name == "pp_lia")
            assert [(share.namespace, share.sockets, share.default) for share in lia.sockets] == [(f"namespace {namespace}", 1, True)]
            assert lia.users == 2
    finally:
        ip("ip", "netns", "delete", namespace)
    until(lambda: all(each.users == 0 for each in kernelcc.status().loaded), "nobody uses one")
    assert kernelcc.unload(["lia", "cubic"]) == ["pp_lia", "pp_cubic"]


def test_loading_is_all_or_nothing():
    kernelcc.load(["cubic"])
    try:
        with pytest.raises(KernelCcError, match="pp_cubic is loaded already"):
            kernelcc.load(["reno", "cubic"])
        assert state() == {"pp_cubic": "loaded"}
        with pytest.raises(KernelCcError, match="pp_reno is not loaded"):
            kernelcc.unload(["cubic", "reno"])
        assert state() == {"pp_cubic": "loaded"}
    finally:
        kernelcc.unload(["cubic"])


def test_what_is_in_use_stays_unless_forced_and_then_leaves_with_its_sockets():
    kernelcc.load(["reno"])
    with socket.socket() as user:
        user.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"pp_reno")
        user.bind(("127.0.0.1", 0))
        user.listen()
        with pytest.raises(KernelCcError, match=r"pp_reno is in use by 1 socket in this namespace: .*--force"):
            kernelcc.unload(["reno"])
        kernelcc.unload(["reno"], force=True)
        assert state() == {"pp_reno": "leaving"}
        assert user.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).startswith(b"pp_reno\0")
    until(lambda: not state(), "nothing is left")


def test_ensure_has_them_for_a_block_and_shares_them():
    with kernelcc.ensure(["lia", "pp_reno", "lia"]) as names:
        assert names == {"lia": "pp_lia", "reno": "pp_reno"}
        with kernelcc.ensure(["lia"]) as again:
            assert again == {"lia": "pp_lia"}
        assert state() == {"pp_lia": "held", "pp_reno": "held"}
        with pytest.raises(KernelCcError, match=r"pp_lia is in this kernel for as long as process [0-9]+ runs"):
            kernelcc.unload(["lia"])
        with pytest.raises(KernelCcError, match=r"pp_lia is in this kernel for as long as process [0-9]+ runs"):
            kernelcc.load(["lia"])
    until(lambda: not state(), "nothing is left")


def test_many_come_and_go_at_once():
    # Each of them may find another's registration on its way in or out.
    def come_and_go(number):
        kept = set()
        for _ in range(6):
            with kernelcc.ensure(["lia"]) as names:
                kept.add(names["lia"])
                time.sleep(0.01 * number)
        return kept

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(come_and_go, range(6))) == [{"pp_lia"}] * 6


def test_what_is_loaded_for_good_outlasts_ensure():
    kernelcc.load(["lia"])
    try:
        with kernelcc.ensure(["lia", "olia"]):
            assert state() == {"pp_lia": "loaded", "pp_olia": "held"}
        until(lambda: state() == {"pp_lia": "loaded"}, "it is loaded")
    finally:
        kernelcc.unload(["lia"])


def test_another_build_is_not_taken_for_ours(tmp_path):
    for tool in ("clang", "bpftool"):
        if programs.find(tool) is None:
            lacking("host", programs.lacks(tool))
    shutil.copytree(ROOT / "cc", tmp_path / "cc")
    source = tmp_path / "cc" / "algs" / "cubic.c"
    source.write_text(source.read_text().replace("#define CUBIC_BETA 717", "#define CUBIC_BETA 718"))
    subprocess.run([tmp_path / "cc" / "bpf" / "build.sh", tmp_path, "cubic", "reno"], check=True)
    for name in ("cubic", "reno"):
        command = ["bpftool", "struct_ops", "register", tmp_path / f"pp_{name}.bpf.o"]
        subprocess.run(command, check=True, capture_output=True)
    try:
        assert {each.name: each.this_build for each in kernelcc.status().loaded} == {"pp_cubic": False, "pp_reno": True}
        with kernelcc.ensure(["reno"]):
            pass
        with pytest.raises(KernelCcError, match=r"pp_cubic in this kernel is of another build .*polypath cc unload pp_cubic"):
            kernelcc.ensure(["cubic"]).__enter__()
    finally:
        kernelcc.unload(["cubic", "reno"])


def test_a_process_that_is_killed_leaves_nothing():
    script = "from polypath import kernelcc\nimport time\nwith kernelcc.ensure(['lia', 'olia']): print('there', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "there\n"
        assert state() == {"pp_lia": "held", "pp_olia": "held"}
        victim.send_signal(signal.SIGKILL)
    until(lambda: not state(), "nothing is left")


def test_the_command_line_says_what_is_there(polypath):
    def run(*words):
        code, out, err = polypath("cc", *words)
        assert code == 0, err
        return out

    assert "loaded pp_olia" in run("load", "olia")
    try:
        assert "pp_olia" in run("status")
        loaded = json.loads(run("status", "--json"))["loaded"]
        assert ("pp_olia", "loaded") in [(one["name"], one["how"]) for one in loaded]
    finally:
        assert "unloaded pp_olia" in run("unload", "olia")
    assert "reno: same windows" in run("check", "reno")


def test_each_refusal_is_one_sentence(polypath):
    for words, sentence in ((("load", "nothing"), "no congestion control 'nothing'"), (("unload", "lia"), "pp_lia is not loaded")):
        code, _, said = polypath("cc", *words)
        assert (code, said.count("\n"), sentence in said) == (2, 1, True), said


def test_without_root_it_says_so():
    with tempfile.TemporaryDirectory() as folder:
        # Where an ordinary user may look.
        Path(folder).chmod(0o755)
        program = Path(folder, "polypath-cc")
        program.write_bytes(_program.program().read_bytes())
        program.chmod(0o755)
        for words in (["load", "lia"], ["unload", "lia"], ["status"], ["hold", "lia"], ["check"]):
            done = subprocess.run([program, *words], user=65534, group=65534, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr == "polypath-cc: the congestion controls of the kernel are for root alone: run it again with sudo\n"
        done = subprocess.run([program, "list"], user=65534, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ALGORITHMS
