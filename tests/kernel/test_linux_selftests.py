"""The kernel's own tests in machines: equal runs print the same, watched or not, and the variant has what they ask for.

Building the kernel of the variant takes longer than the plain one, so CI has none: what needs it is skipped where it was not built.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from requirement import lacking

from polypath import linux, programs, selftests
from polypath.engines import run_script
from polypath.pcap import analyse

FINDINGS = Path(__file__).parents[2] / "docs" / "findings"


@pytest.fixture(scope="module")
def tests() -> dict[str, selftests.Test]:
    root = linux.selftests("6.12") / linux.TESTS
    return {test.name: test for test in selftests.find(root, ["mptcp"])}


@pytest.fixture(scope="module")
def variant() -> linux.Kernel:
    try:
        return linux.find("6.12-selftests")
    except linux.KernelError as error:
        lacking("linux selftests", str(error))


def test_a_test_of_the_kernel_runs_unchanged(linux_kernel: linux.Kernel, tests: dict[str, selftests.Test]) -> None:
    assert not tests["mptcp/pm_netlink"].suite.missing
    job = selftests.Job(tests["mptcp/pm_netlink"], 1)
    status, log = selftests.run_job(job, kernel=linux_kernel.file)
    subtests = selftests.parse(log, job.test.name, status)
    assert {each.verdict for each in subtests} == {"pass"}
    assert len(subtests) == 23


@pytest.mark.parametrize("patch", sorted(FINDINGS.glob("*.patch")), ids=lambda patch: patch.stem)
def test_a_patch_of_the_findings_fits_the_tests(patch: Path) -> None:
    done = programs.run("git", "apply", "--check", patch, cwd=linux.selftests("6.12"))
    assert (done.returncode, done.stderr) == (0, "")


WATCHED = """
for n in 1 2; do ip netns add end$n; done
ip link add one netns end1 type veth peer name two netns end2
for n in 1:one 2:two; do
    ip -n end${n%:*} addr add 10.0.0.${n%:*}/24 dev ${n#*:}
    ip -n end${n%:*} link set ${n#*:} up
done
sleep 0.05
# In the first second of a clock ping sends without a pause: all of it lies between two looks, and the end comes before the next one.
ip netns exec end1 ping -c 5 -i 0.2 10.0.0.2
"""


def test_a_watched_run_is_the_plain_one(linux_kernel: linux.Kernel, tmp_path: Path) -> None:
    script, out = tmp_path / "script", tmp_path / "out"
    script.write_text(WATCHED)
    plain = run_script(script, kernel=linux_kernel.file, seed=1, out=None, timeout_s=120, observe="idle")
    watched = run_script(script, kernel=linux_kernel.file, seed=1, out=out, timeout_s=120, observe="all")
    assert plain == watched
    assert (plain[0], " 5 received" in plain[1]) == (0, True)
    names = [file.name for file in selftests.readable(out)]
    assert names == [f"end{n}.{kind}" for n in (1, 2) for kind in ("counters", "pcapng", "sockets.csv")]
    assert "IcmpInEchos 5\n" in (out / "end2.counters").read_text()
    for end in (1, 2):
        (file,) = analyse([out / f"end{end}.pcapng"])["files"]
        assert file["packets"] >= 12, "five questions, their answers, and the search for the neighbour"


SCRIPT = """
grep -qw tcp_v4_rcv /proc/kallsyms && echo names
iptables-legacy -A OUTPUT -m mark --mark 1 -j DROP && echo legacy
iptables-nft -A OUTPUT -m mark --mark 2 -j DROP && echo nft
ip link add br0 type bridge && echo bridge
"""


def test_the_variant_has_what_the_tests_ask_for(variant: linux.Kernel, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(SCRIPT)
    code, said = run_script(script, kernel=variant.file, seed=1, out=None, timeout_s=120)
    assert (code, said.split()) == (0, ["names", "legacy", "nft", "bridge"])
