"""A custom congestion control in real kernels."""

import socket
from pathlib import Path

import pytest
from cc_network import TCP_CONGESTION, sweep
from over_router import one_flow, over_router
from requirement import lacking

from polypath import customcc, kernelcc, run
from polypath.customcc import CustomCcError
from polypath.kernelcc import KernelCcError
from polypath.linux import KernelError

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def study(*algorithms):
    links = {"first": {"both": {"delay": "10ms"}}, "second": {"both": {"rate": "50mbit", "queue": "80packets", "loss": "0.1%"}}}
    more = {"matrix": {"cc": list(algorithms)}, "duration": "5s", "measure": {"series": "10ms"}, "baselines": None}
    return over_router("own", links, {"f": one_flow("mptcp", cc="${cc}")}, **more)


def changed(file, before, after):
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


@pytest.mark.usefixtures("linux_kernel")
def test_the_skeleton_in_a_kernel_is_that_kernels_reno(tmp_path):
    file = customcc.new("tst_k", tmp_path / "cc")
    customcc.use(tmp_path / "cc")
    out = tmp_path / "results"
    series = run(study("tst_k", "reno@linux"), engine="linux", out=out).series
    own, theirs = (series[series["cc"] == cc]["cwnd"].tolist() for cc in ("tst_k", "reno@linux"))
    assert own == theirs
    assert len(set(own)) > 10
    # Another source is another run, in a kernel of its own.
    changed(file, "BETA 512", "BETA 900")
    customcc.use(tmp_path / "cc")
    runs = run(study("tst_k", "reno@linux"), engine="linux", out=out).runs.set_index("cc")["goodput_receiver_mbps"]
    assert runs["tst_k"] > 1.2 * runs["reno@linux"]


@pytest.mark.usefixtures("linux_kernel")
def test_what_a_kernels_compiler_refuses_is_said_before_anything_runs(tmp_path):
    file = customcc.new("tst_l", tmp_path / "cc")
    # The kernel's build has a function of this name.
    changed(file, "static __u32 tst_l_undo_cwnd", "static int tcp_register_congestion_control;\n\nstatic __u32 tst_l_undo_cwnd")
    customcc.use(tmp_path / "cc")
    with pytest.raises(KernelError, match=r"compiling the congestion control tst_l for Linux 6\.12.*(?s:.*)tst_l\.c:\d+:\d+: error"):
        run(study("tst_l"), engine="linux", out=tmp_path / "results")
    assert not list((tmp_path / "results").glob("own/runs/*"))


@pytest.fixture
def host():
    sweep()
    try:
        kernelcc.status()
        with kernelcc.ensure(["reno"]):
            pass
    except KernelCcError as error:
        lacking("host", str(error))
    yield
    sweep()


@pytest.mark.usefixtures("host")
def test_this_machines_kernel_takes_it_and_lets_it_go(tmp_path):
    customcc.new("tst_m", tmp_path)
    customcc.use(tmp_path)
    with kernelcc.ensure(["tst_m", "reno"]) as names:
        assert names == {"tst_m": "pp_tst_m", "reno": "pp_reno"}
        assert "pp_tst_m" in AVAILABLE.read_text().split()
    with pytest.raises(KernelCcError, match="no congestion control 'nowhere' to load"), kernelcc.ensure(["nowhere"]):
        pass


@pytest.mark.usefixtures("host")
def test_it_is_loaded_for_good_and_computes_what_the_simulators_build_does(tmp_path, polypath):
    def command(*words):
        code, out, err = polypath("cc", *words)
        return code, out + err

    command("new", "tst_o", "--into", str(tmp_path))
    assert command("load", "--cc-path", str(tmp_path), "tst_o")[1].startswith("loaded pp_tst_o;")
    try:
        row = next(line for line in command("status")[1].splitlines() if "pp_tst_o" in line)
        assert "your own" in row
        # A socket has it, with the window that it begins with; then it is not let go.
        with socket.socket() as held:
            held.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"pp_tst_o")
            code, said = command("unload", "tst_o")
            assert (code, "in use by 1 socket" in said) == (2, True)
        assert command("check", "--cc-path", str(tmp_path)) == (0, "tst_o: same windows in 50200 calls\n")
    finally:
        command("unload", "--force", "tst_o")
    assert command("unload", "tst_o") == (2, "polypath: pp_tst_o is not loaded; polypath cc status shows what is\n")


@pytest.mark.usefixtures("host")
def test_a_whole_study_with_one_of_ones_own_on_this_machine(tmp_path):
    changed(customcc.new("tst_p", tmp_path / "cc"), "BETA 512", "BETA 900")
    customcc.use(tmp_path / "cc")
    links = {"first": {"both": {"delay": "5ms"}}, "second": {"both": {"rate": "20mbit", "queue": "20packets", "loss": "0.5%"}}}
    matrix = {"cc": ["tst_p", "reno@polypath"]}
    whole = over_router("own-here", links, {"f": one_flow(cc="${cc}")}, matrix=matrix, duration="4s", seeds=2)
    found = run(whole, engine="host", out=tmp_path / "results")
    assert sorted(set(found.runs["cc"])) == ["reno@polypath", "tst_p"]
    # Of one that keeps seven eighths of its window where reno keeps half, on this machine's kernel.
    means = found.runs.groupby("cc")["goodput_receiver_mbps"].mean()
    assert means["tst_p"] > 1.2 * means["reno@polypath"]
    assert "pp_tst_p" not in AVAILABLE.read_text().split()


@pytest.mark.usefixtures("host")
def test_what_cannot_become_bpf_is_said_with_its_line(tmp_path):
    file = customcc.new("tst_n", tmp_path)
    # The kernel's structures have this name there.
    changed(file, "struct tst_n_state {", "struct sock { int x; };\n\nstruct tst_n_state {")
    customcc.use(tmp_path)
    refused = r"tst_n\.c:\d+: it does not compile as BPF: redefinition of 'sock'"
    with pytest.raises(CustomCcError, match=refused), kernelcc.ensure(["tst_n"]):
        pass
