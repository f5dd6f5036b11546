"""MPTCP schedulers of cc/sched in a kernel."""

import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from requirement import lacking

from polypath import Study, customcc, linux, run, selftests
from polypath.cli._linux_selftests import scheduler_of
from polypath.linux import _source

# A fast path and a slow one, with losses, jitter and a small receive buffer.
NETWORK: dict[str, Any] = {
    "name": "two",
    "topology": {
        "nodes": {"a": None, "b": {"sysctl": {"net.ipv4.tcp_rmem": "4096 131072 400000"}}},
        "links": {
            "fast": {"ends": ["a", "b"], "both": {"rate": "20mbit", "queue": "70packets", "delay": "10ms", "loss": "0.1%"}},
            "slow": {"ends": ["a", "b"], "both": {"rate": "5mbit", "queue": "70packets", "delay": "100ms", "jitter": "2ms"}},
        },
    },
    "duration": "5s",
    "baselines": None,
    "seeds": 2,
}


def rows(out, scheduler, kernel="6.12"):
    study = Study.model_validate({**NETWORK, "kernel": kernel, "flows": {"f": {"client": "a", "server": "b", "scheduler": scheduler}}})
    table = run(study, engine="linux", out=out).runs.drop(columns=["scheduler", "key"], errors="ignore")
    return [dict(row) for row in table.to_dict("records")]


@pytest.mark.parametrize("version", ["6.12", "7.3"])
def test_ours_is_the_kernels_own_default(version, tmp_path):
    if not linux.is_there(version):
        lacking("linux" if version == "6.12" else f"linux {version}", f"no kernel {version}: polypath linux build {version}")
    near = 1e-5 if version == "6.12" else 1e-4
    theirs, ours = (rows(tmp_path / name, name, kernel=version) for name in ("default@linux", "default"))
    for mine, own in zip(ours, theirs, strict=True):
        assert own["goodput_receiver_mbps"] > 1 and own["retransmissions"] > 0
        for name, value in own.items():
            # A host whose scheduler is set begins a system call later, some hundred nanoseconds:
            # of 7.3's srtt a sample falls on another ACK.
            same = (
                mine[name] == pytest.approx(value, rel=near, nan_ok=True) if isinstance(value, float) else repr(mine[name]) == repr(value)
            )
            assert same, (name, mine[name], value)


@pytest.mark.parametrize("name", ["minrtt", "roundrobin", "backup", "redundant", "blest", "ecf", "sttf", "daps", "payload", "arrival"])
def test_each_runs_and_delivers(linux_kernel, tmp_path, name):
    assert f"pp_{name}" in linux_kernel.schedulers
    found = rows(tmp_path, name)
    assert all(row["goodput_receiver_mbps"] > 1 for row in found), found


def test_one_that_looks_ahead_fills_a_small_receive_buffer_better(linux_kernel, tmp_path):
    rate = {name: sum(row["goodput_receiver_mbps"] for row in rows(tmp_path / name, name)) for name in ("default", "blest")}
    # The slow path's bytes hold up the window: 5.9 and 18.8 Mbit/s without losses.
    assert rate["blest"] > 1.5 * rate["default"], rate


def test_one_of_ones_own_is_in_a_kernel_what_it_was_copied_from(linux_kernel, tmp_path):
    customcc.new("tss_k", tmp_path / "mine", kind="sched", begin_from="blest")
    customcc.use(tmp_path / "mine")
    own, theirs = rows(tmp_path / "own", "tss_k"), rows(tmp_path / "theirs", "blest")
    for column in ("goodput_receiver_mbps", "data_segments_sent", "retransmissions"):
        assert [row[column] for row in own] == pytest.approx([row[column] for row in theirs], rel=1e-5), column


def test_a_kernels_build_chooses_as_the_simulators_does(linux_kernel, tmp_path):
    found = list(linux.check_schedulers(linux_kernel.name, customcc.ours("sched")))
    assert len(found) == 12 and all(calls == 40_000 and difference is None for _, calls, difference in found), found
    file = customcc.new("tss_c", tmp_path / "mine", kind="sched")
    # Not what any build should say, but what the comparison must see.
    worse = "#if defined(PP_BUILD_KERNEL)\n\tchoice->bytes = 1;\n\treturn c->queue->end != c->queue->next && 0;\n#endif\n"
    file.write_text(file.read_text().replace("\treturn pp_pick_fastest", worse + "\treturn pp_pick_fastest"))
    ((_, calls, difference),) = linux.check_schedulers(linux_kernel.name, customcc.use(tmp_path / "mine"))
    assert calls < 100 and difference is not None and "in turn" in difference


def test_a_selftest_has_the_scheduler_in_each_of_its_namespaces(linux_kernel, tmp_path):
    test = tmp_path / "named.sh"
    test.write_text(
        "#!/bin/sh\nip netns add one && ip -n one link set lo up && ! ip netns add one 2>/dev/null || exit 1\n"
        "sysctl -n net.mptcp.scheduler && ip netns exec one sysctl -n net.mptcp.scheduler\n"
    )
    test.chmod(0o755)
    os.utime(test, (0, 0))
    with tarfile.open(tmp_path / "tests.tar", "w") as tar:
        tar.add(test, "net/x/named.sh")
    suite = selftests.Suite("net/x", ("named.sh",), {}, tmp_path / "tests.tar", "named")

    def said(scheduler):
        return selftests.run_job(selftests.Job(selftests.Test(suite, "named.sh"), 1, scheduler=scheduler), kernel=linux_kernel.file)

    assert said("") == (0, "default\ndefault\n")
    assert said(scheduler_of("blest", linux_kernel)) == (0, "pp_blest\npp_blest\n")
    with pytest.raises(
        selftests.SelftestError, match=r"^--scheduler blist: Linux 6\.12\S* has no scheduler of this name; there are arrival, backup, b"
    ):
        scheduler_of("blist", linux_kernel)


def test_patches_build_in_a_stock_tree_for_processors_of_32_bits_too(tmp_path):
    """Such a processor has no division of 64 bits, so that a missed one shows."""
    tarballs = list(Path("/usr/src").glob("linux-source-6.12.tar.*"))
    if not tarballs:
        lacking("linux", "the Debian package linux-source-6.12 is not there")
    tree, out = tmp_path / "tree", tmp_path / "patches"
    _source.unpack(_source.Source("6.12", tarballs[0], "test"), tree)
    _, patches = linux.export_schedulers(str(tree), customcc.ours("sched"), out)
    assert len(patches) == 13

    def tool(*words):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        return subprocess.run(
            words, cwd=tree, env=environment | {"GIT_CEILING_DIRECTORIES": str(tmp_path), "LC_ALL": "C"}, check=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ).stdout  # fmt: skip

    for patch in patches:
        tool("git", "apply", "--whitespace=nowarn", patch)
    make = ("make", "-s", "ARCH=i386", f"-j{os.cpu_count()}")
    tool(*make, "tinyconfig")
    with (tree / ".config").open("a") as config:
        config.writelines(f"CONFIG_{name}=y\n" for name in ("NET", "INET", "IPV6", "MPTCP", "SYSCTL", "PROC_FS", "MPTCP_POLYPATH"))
    tool(*make, "olddefconfig")
    assert tool(*make, "net/mptcp/") == ""
    place = tree / "net/mptcp/polypath"
    objects = sorted(place.glob("pp_*.o"))
    assert [file.stem for file in objects] == [f"pp_{each.name}" for each in customcc.ours("sched")]
    undefined = tool("nm", "-u", *objects)
    assert "mptcp_register_scheduler" in undefined and "div" not in undefined.replace("div64", "") and "mod" not in undefined
