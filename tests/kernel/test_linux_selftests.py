"""The kernel's own tests in machines."""

import csv

import pytest
from requirement import lacking

from polypath import linux, selftests
from polypath.engines import run_script
from polypath.pcap import analyse
from polypath.selftests._suite import packed


@pytest.fixture(scope="module")
def tests():
    root = linux.selftests("6.12") / linux.TESTS
    return {test.name: test for test in selftests.find(root, ["mptcp"])}


@pytest.fixture(scope="module")
def variant():
    try:
        return linux.find("6.12-selftests")
    except linux.KernelError as error:
        lacking("linux selftests", str(error))


def test_a_test_of_the_kernel_runs_unchanged(linux_kernel, tests):
    assert not tests["mptcp/pm_netlink"].suite.missing
    job = selftests.Job(tests["mptcp/pm_netlink"], 1)
    status, log = selftests.run_job(job, kernel=linux_kernel.file)
    subtests = selftests.parse(log, job.test.name, status)
    assert {each.verdict for each in subtests} == {"pass"}
    assert len(subtests) == 23


def test_a_test_reads_what_commands_say_as_files(linux_kernel, tmp_path):
    # mptcp_join compares so what it sent and what came.
    test = tmp_path / "net/x/compared.sh"
    test.parent.mkdir(parents=True)
    test.write_text("#!/bin/bash\ncmp -l <(echo ab) <(echo ac)\n")
    archive = tmp_path / "tests.tar"
    archive.write_bytes(packed({"net/x/compared.sh": test}))
    suite = selftests.Suite("net/x", ("compared.sh",), {}, archive, "compared")
    job = selftests.Job(selftests.Test(suite, "compared.sh"), 1)
    status, said = selftests.run_job(job, kernel=linux_kernel.file)
    assert (status, said.split()) == (1, ["2", "142", "143"])


WATCHED = """
for n in 1 2; do ip netns add end$n; done
ip link add one netns end1 type veth peer name two netns end2
for n in 1:one 2:two; do
    ip -n end${n%:*} addr add 10.0.0.${n%:*}/24 dev ${n#*:}
    ip -n end${n%:*} link set ${n#*:} up
done
sleep 0.05
# In the first second of a clock ping sends without a pause.
ip netns exec end1 ping -c 5 -i 0.2 10.0.0.2
ip netns exec end2 python3 -c "
import socket, time
s = socket.create_server(('10.0.0.2', 80)); c = s.accept(); time.sleep(0.3)" &
sleep 0.1
ip netns exec end1 python3 -c "
import socket, time
c = socket.create_connection(('10.0.0.2', 80)); c.send(bytes(50000)); time.sleep(0.2)"
wait
ip netns del end2
date +%N
"""


def watched(script, kernel, out, watch):
    script.write_text(WATCHED)
    said = run_script(script, kernel=kernel.file, seed=1, out=out, timeout_s=120, observe=watch.text())
    return said, selftests.observation_of(out)


def test_a_watched_run_is_the_plain_one(linux_kernel, tmp_path):
    script, out = tmp_path / "script", tmp_path / "out"
    plain, told_plainly = watched(script, linux_kernel, tmp_path / "idle", selftests.IDLE)
    said, told = watched(script, linux_kernel, out, selftests.Watch())
    assert plain == said
    assert (said[0], " 5 received" in said[1]) == (0, True)
    assert told_plainly.packets == told.packets
    assert told_plainly.marks == told.marks
    # This kernel has no tracing.
    assert set(told.refused) == {"tcp:*", "mptcp:*", "sock:*", "skb:kfree_skb", "printk:console", "dynamic debug"}
    names = [file.name for file in selftests.readable(out)]
    assert names == [f"end{n}.{kind}" for n in (1, 2) for kind in ("counters", "pcapng", "sockets.csv")]
    # Also of a namespace that ends before the run does.
    assert "IcmpInEchos 5\n" in (out / "end2.counters").read_text()
    packets = 0
    for end in (1, 2):
        (file,) = analyse([out / f"end{end}.pcapng"])["files"]
        assert file["packets"] >= 12, "five questions, their answers, and the search for the neighbour"
        packets += file["packets"]
    assert packets <= told.packets[0]
    rows = list(csv.DictReader((out / "end1.sockets.csv").open()))
    assert {row["destination"] for row in rows} == {"10.0.0.2:80"}
    assert int(rows[-1]["bytes_acked"]) == 50_001


def test_the_kernels_own_events_change_nothing(variant, tmp_path):
    script, out = tmp_path / "script", tmp_path / "out"
    plain, told_plainly = watched(script, variant, tmp_path / "idle", selftests.IDLE)
    said, told = watched(script, variant, out, selftests.Watch(dyndbg="file net/ipv4/* +p"))
    assert plain == said
    assert told_plainly.packets == told.packets
    assert told.refused == ()
    found = selftests.events(out)
    assert found is not None
    assert {"tcp_probe", "kfree_skb", "inet_sock_set_state"} <= found.counts.keys()
    # Events have the times of the packets, where the kernel's own clock would have ticks of 4 ms.
    times = [float(line.split(": ", 1)[0].split()[-1]) for line in (out / "events.txt").read_text().splitlines() if " tcp_probe: " in line]
    assert any(round(time * 1e6) % 4000 for time in times)


def test_the_clock_stands_while_a_person_types(linux_kernel, tmp_path):
    script, out, typed, shown = (tmp_path / name for name in ("script", "out", "typed", "shown"))
    script.write_text("sleep 2\n")
    typed.write_text("date +%s.%N\nif then\nx=5\nsleep 1; date +%s.%N\necho $x\n")
    with typed.open() as source, shown.open("w") as target:
        watch = selftests.Watch(shell_at=500_000_000)
        person = (source.fileno(), target.fileno())
        said = run_script(script, kernel=linux_kernel.file, seed=1, out=out, timeout_s=120, observe=watch.text(), shell=person)
    assert said == (0, "")
    assert selftests.observation_of(out).shell
    lines = shown.read_text().splitlines()
    assert lines[0].startswith("0.5000")
    first, second = (float(line.rpartition(" ")[2]) for line in lines if " # 17356896" in line)
    assert 1.0 <= second - first < 1.001
    assert any("yntax error" in line for line in lines)
    assert lines[-2].endswith(" # 5") or lines[-1].startswith("5")


SCRIPT = """
grep -qw tcp_v4_rcv /proc/kallsyms && echo names
iptables-legacy -A OUTPUT -m mark --mark 1 -j DROP && echo legacy
iptables-nft -A OUTPUT -m mark --mark 2 -j DROP && echo nft
ip link add br0 type bridge && echo bridge
"""


def test_the_variant_has_what_the_tests_ask_for(variant, tmp_path):
    script = tmp_path / "script"
    script.write_text(SCRIPT)
    code, said = run_script(script, kernel=variant.file, seed=1, out=None, timeout_s=120)
    assert (code, said.split()) == (0, ["names", "legacy", "nft", "bridge"])
