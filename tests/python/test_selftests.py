"""The kernel's selftests without a kernel."""

import csv
import json
import os
import re
import shutil
import struct
import subprocess
import tarfile
import threading
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from polypath import EngineError, linux, report, selftests
from polypath.cli import _linux_replay
from polypath.cli._app import build
from polypath.linux import _config, _kallsyms, _selftests
from polypath.pcap import analyse
from polypath.selftests import _packetdrill, _run
from polypath.selftests._suite import short

FLOWS = """\
01 balanced bwidth                                              max 7906       [ OK ]
02 unbalanced bwidth                                            max 11921      [IGNO] (flaky)

TAP version 13
1..5
ok 1 - simult_flows: balanced bwidth # time=8152ms
not ok 2 - simult_flows: balanced bwidth - reverse direction # time=8208ms
ok 3 - simult_flows: unbalanced bwidth # IGNORE Flaky time=12120ms
ok 4 - simult_flows: a check # SKIP time=1ms
not ok 5 - simult_flows: a known gap # TODO
"""


def subtests(text, test="mptcp/simult_flows", status=0):
    return [(each.name, each.verdict, each.ms) for each in selftests.parse(text, test, status)]


def test_tap_is_read_with_its_directives_and_times():
    assert subtests(FLOWS, status=1) == [
        ("balanced bwidth", "pass", 8152),
        ("balanced bwidth - reverse direction", "fail", 8208),
        ("unbalanced bwidth", "ignored", 12120),
        ("a check", "skip", 1),
        ("a known gap", "ignored", None),
        (selftests.EXIT, "fail", None),
    ]
    text = "TAP version 13\n1..2\n# Starting\nok 1 global.one\n    ok 1 inner # SKIP none here\nnot ok 2 global.two\n# FAILED: 1 / 2\n"
    assert [(name, verdict) for name, verdict, _ in subtests(text)[:3]] == [
        ("global.one", "pass"),
        ("inner", "skip"),
        ("global.two", "fail"),
    ]
    text = "TEST: ping between      [ OK ]\n    02 other thing    [FAIL] why\nTEST: gone [SKIP]\nTEST: known  [XFAIL]\nnoise\n"
    found = subtests(text, "net/fib_tests", 1)
    assert [each[:2] for each in found] == [
        ("ping between", "pass"), ("other thing", "fail"), ("gone", "skip"), ("known", "ignored"), (selftests.EXIT, "fail"),
    ]  # fmt: skip
    assert [name for name, *_ in subtests("ok 1 - a\nok 2 - a\nnot ok 3 - a\n", "net/x")] == ["a", "a (2)", "a (3)", selftests.EXIT]


@pytest.mark.parametrize(("status", "verdict"), [(0, "pass"), (4, "skip"), (2, "ignored"), (1, "fail"), (139, "fail")])
def test_an_exit_status_means_what_the_kernels_runner_says(status, verdict):
    assert subtests("", status=status) == [(selftests.EXIT, verdict, None)]


KNOWN = [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (1, 100, 0.0018, 0.0545)]


@pytest.mark.parametrize(("failed", "runs", "low", "high"), KNOWN)
def test_wilsons_interval_is_the_published_one(failed, runs, low, high):
    row = selftests.Row("net/x", "a")
    row.seeds |= {"fail": [*range(failed)], "pass": [*range(failed, runs)]}
    assert row.rate == pytest.approx((failed / runs, low, high), abs=2e-4)


@pytest.mark.parametrize(("text", "seeds"), [("7", [7]), ("1..4", [1, 2, 3, 4]), ("3,5..6,3", [3, 5, 6])])
def test_seeds_are_read(text, seeds):
    assert selftests.seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "1..", "5..3", "-1", "1..2..3"])
def test_no_seeds_are_said_to_be_none(text):
    with pytest.raises(selftests.SelftestError, match="names no seeds"):
        selftests.seeds_of(text)


def record(seed, text=FLOWS, status=0, test="mptcp/simult_flows"):
    return selftests.Record(test, seed, status, tuple(selftests.parse(text, test, status)), text)


def test_rows_count_each_verdict_and_name_the_seeds():
    passes = FLOWS.replace("not ok 2", "ok 2").replace("# IGNORE Flaky time=12120ms", "# time=11900ms")
    found = selftests.rows([record(2), record(1, passes), record(3, passes)])
    rows = {row.subtest: row for row in found}
    reverse, flaky = rows["balanced bwidth - reverse direction"], rows["unbalanced bwidth"]
    assert reverse.seeds == {"pass": [1, 3], "fail": [2], "skip": [], "ignored": []}
    assert (flaky.failures, flaky.seeds["ignored"], flaky.ms) == ([2], [2], [11900, 12120, 11900])
    assert flaky.rate == pytest.approx((1 / 3, 0.0615, 0.7923), abs=1e-4)
    assert rows["a check"].rate is None
    assert rows["balanced bwidth"].always_passes
    assert selftests.EXIT not in rows
    assert selftests.as_csv(found).splitlines()[1] == "mptcp/simult_flows,balanced bwidth,3,3,0,0,0,0.0000,0.0000,0.5615,,8152 8152 8152"


def test_a_test_that_dies_without_a_failing_subtest_fails():
    died = record(1, "ok 1 - a\n", 137, "net/x")
    assert [(each.name, each.verdict) for each in selftests.outcomes(died)] == [("a", "pass"), (selftests.EXIT, "fail")]
    # The test's own summary of what a subtest says already.
    assert [each.name for each in selftests.outcomes(record(1, "not ok 1 - a\n", 1, "net/x"))] == ["a"]


def test_the_worst_run_has_most_failures_that_count():
    ignored = [("a", 1, True)] * 3
    assert selftests.worst([*ignored, ("a", 2, False), ("b", 3, False), ("b", 3, True)]) == ("b", 3)
    assert selftests.worst(ignored) == ("a", 1)
    assert selftests.worst([]) is None


EVEN = "0,2,4,6,8,10,12,14,16,18,20,22"
SHOWN = [
    ([], ""),
    ([3], "3"),
    ([1, 2], "1,2"),
    ([1, 2, 3, 7], "1..3,7"),
    (list(range(0, 24, 2)), EVEN),
    (list(range(0, 40, 2)), f"{EVEN} and 8 more"),
    # Those not shown are seeds, not ranges.
    ([*range(0, 24, 2), 30, 31, 32, 33], f"{EVEN} and 4 more"),
]


@pytest.mark.parametrize(("seeds", "text"), SHOWN)
def test_seeds_are_shown_shortly(seeds, text):
    assert selftests.seeds_text(seeds) == text


def test_tap_and_junit_say_what_the_records_say():
    records = [record(1, status=1), record(2, "ok 1 - simult_flows: a\n")]
    tap = selftests.as_tap(records).splitlines()
    assert tap[:2] == ["TAP version 13", "1..6"]
    assert tap[3] == "not ok 2 - mptcp/simult_flows seed 1: balanced bwidth - reverse direction # time=8208ms"
    assert tap[4] == "not ok 3 - mptcp/simult_flows seed 1: unbalanced bwidth # TODO the test ignores it time=12120ms"
    assert tap[5] == "ok 4 - mptcp/simult_flows seed 1: a check # SKIP time=1ms"
    # What we write, we read.
    verdicts = [each.verdict for each in selftests.parse("\n".join(tap), "all", 0)][:-1]
    assert verdicts == ["pass", "fail", "ignored", "skip", "ignored", "pass"]
    root = ElementTree.fromstring(selftests.as_junit(records))
    first, second = root.findall("testsuite")
    assert {key: first.get(key) for key in ("tests", "failures", "skipped")} == {"tests": "5", "failures": "1", "skipped": "3"}
    failing = [case.get("name") for case in first.findall("testcase") if case.find("failure") is not None]
    assert failing == ["balanced bwidth - reverse direction"]
    assert first.findtext("system-out") == FLOWS
    assert second.find("system-out") is None


# Which tests there are


@pytest.fixture
def tree(tmp_path):
    """A small tools/testing/selftests, as it lies in a kernel's sources."""
    root = tmp_path / "tools" / "testing" / "selftests"
    (root / "net" / "mptcp").mkdir(parents=True)
    (tmp_path / "include" / "uapi" / "linux").mkdir(parents=True)
    (root / "net" / "lib.sh").write_text("# shared\n")
    progs = "TEST_PROGS := fib_tests.sh \\\n\tpmtu.sh\nTEST_PROGS += gone.sh\n"
    (root / "net" / "Makefile").write_text(progs + "TEST_GEN_PROGS = $(wildcard *.c)\n")
    for name in ("fib_tests.sh", "pmtu.sh"):
        (root / "net" / name).write_text("#!/bin/sh\n")
    own = root / "net" / "mptcp"
    ends = "TEST_GEN_FILES = \\\n\thelper \\\n\tbroken \\\n\tabsent \\\n# end of TEST_GEN_FILES\n"
    (own / "Makefile").write_text(f"TEST_PROGS := a.sh b.sh\n{ends}TEST_FILES := settings\n")
    for name in ("a.sh", "b.sh", "settings"):
        (own / name).write_text("#!/bin/sh\n")
    # Of 7.x, whose programs include what is the kernel's own otherwise.
    (tmp_path / "tools" / "include" / "linux").mkdir(parents=True)
    (tmp_path / "tools" / "include" / "linux" / "compiler.h").write_text("#define zero 0\n")
    (own / "helper.c").write_text("#include <linux/compiler.h>\nint main(void) { return zero; }\n")
    (own / "broken.c").write_text("#include <linux/nowhere.h>\nint main(void) { return 0; }\n")
    return root


def test_tests_are_found_by_name_folder_and_pattern(tree):
    def names(*words):
        return [test.name for test in selftests.find(tree, words)]

    assert names("mptcp/a") == ["mptcp/a"]
    assert names("net/mptcp/a.sh", "mptcp/a") == ["mptcp/a"]
    assert names("mptcp") == ["mptcp/a", "mptcp/b"]
    assert names("net") == ["net/fib_tests", "net/pmtu"]
    assert names("net/fib_*") == ["net/fib_tests"]
    with pytest.raises(selftests.SelftestError, match=r'^there is no test "mptcp/aa"; did you mean "mptcp/a"\?'):
        names("mptcp/aa")
    with pytest.raises(selftests.SelftestError, match=r'^there is no folder of tests "mptpc/a"'):
        names("mptpc/a")


def test_a_list_of_tests_compiles_nothing_and_a_folders_kernel_is_announced(tree, tmp_path, monkeypatch):
    before = sorted(tree.rglob("*"))
    assert selftests.names(tree, ["mptcp", "net/fib_*"]) == ["mptcp/a", "mptcp/b", "net/fib_tests"]
    monkeypatch.setattr("polypath.linux.selftests", lambda *_, **__: tmp_path)
    words = ["linux", "selftests", "--kernel", str(tmp_path)]
    assert CliRunner().invoke(build(["linux"]), [*words, "--list"]).output.split() == ["mptcp/a", "mptcp/b"]
    assert sorted(tree.rglob("*")) == before
    done = CliRunner().invoke(build(["linux"]), [*words, "mptcp/none"])
    assert isinstance(done.exception, selftests.SelftestError)
    first = f"a kernel of {tmp_path} in the variant selftests is built once its tests are unpacked, some minutes, unless it is there"
    assert done.output.splitlines()[0] == first


JOIN = """#!/bin/bash
all_tests_sorted=(
\tf@subflows_tests
\t6@ipv6_tests
)
for subtests in "${all_tests_sorted[@]}"; do
"""


def test_a_test_with_parts_is_a_test_a_part(tree):
    own = tree / "net" / "mptcp"
    (own / "Makefile").write_text("TEST_PROGS := join.sh a.sh\n")
    (own / "join.sh").write_text(JOIN)
    found = selftests.find(tree, ["mptcp"])
    assert [(test.name, test.command) for test in found] == [
        ("mptcp/join:f", ("./join.sh", "-f")),
        ("mptcp/join:6", ("./join.sh", "-6")),
        ("mptcp/a", ("./a.sh",)),
    ]
    assert [test.name for test in selftests.find(tree, ["mptcp/join:6"])] == ["mptcp/join:6"]
    with pytest.raises(selftests.SelftestError, match=r'^there is no test "mptcp/join:x"'):
        selftests.find(tree, ["mptcp/join:x"])
    with pytest.raises(selftests.SelftestError, match=r"^mptcp/a has no parts: leave :f out$"):
        selftests.find(tree, ["mptcp/a:f"])
    # The test's own name before its subtests is not the part's.
    assert [name for name, *_ in subtests("ok 1 - join: one\n", "mptcp/join:f")] == ["one", selftests.EXIT]


def test_scripts_of_packets_are_run_by_their_folders_runner(tree, tmp_path, monkeypatch):
    own = tree / "net" / "packetdrill"
    own.mkdir()
    (own / "Makefile").write_text("TEST_INCLUDES := ksft_runner.sh\nTEST_PROGS := $(wildcard *.pkt)\n")
    for name in ("ksft_runner.sh", "tcp_b.pkt", "tcp_a.pkt"):
        (own / name).write_text("// a script\n")
    found = selftests.find(tree, ["net/packetdrill"])
    assert [(test.name, test.command) for test in found] == [
        ("packetdrill/tcp_a", ("./ksft_runner.sh", "./tcp_a.pkt")),
        ("packetdrill/tcp_b", ("./ksft_runner.sh", "./tcp_b.pkt")),
    ]
    assert [test.name for test in selftests.find(tree, ["packetdrill/tcp_b.pkt"])] == ["packetdrill/tcp_b"]
    monkeypatch.setattr(_run, "PATH", (tmp_path,))
    assert _run.missing_of(found) == [
        f"packets' scripts are skipped without the program packetdrill in {tmp_path}: Debian has no package, so build it, or play them "
        "with polypath linux packetdrill"
    ]
    (tmp_path / "packetdrill").write_text("")
    assert _run.missing_of(found) == []


# packetdrill


@pytest.fixture
def drill(tmp_path):
    """Google's scripts, a program in packetdrill's place, and a folder for archives."""
    for file in ("tcp/close/b.pkt", "tcp/close/a.pkt", "tcp/fast/deep/only-v4.pkt", "tcp/fast/deep/only-v6.pkt", "alone/c.pkt"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        up = "../" * file.count("/")
        (tmp_path / file).write_text("// none" if file.startswith("alone") else f"`{up}common/defaults.sh\n{up}common/gone.sh`\n")
    for file in ("common/defaults.sh", "common/beside.py", "tcp/close/helper.sh", "packetdrill"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("#!/bin/sh\n")
    (tmp_path / "packetdrill").chmod(0o755)
    (tmp_path / "archives").mkdir()
    return tmp_path


def of_drill(drill, path, *families):
    return selftests.scripts_of(drill / path, families, drill / "packetdrill", drill / "archives")


def test_scripts_are_found_with_what_they_name(drill):
    found = of_drill(drill, "tcp", "4", "6", "mapped")
    assert [script.name for script in found] == [
        *(f"close/{name}:{family}" for name in "ab" for family in ("4", "6", "mapped")),
        *("fast/deep/only-v4:4", "fast/deep/only-v4:mapped", "fast/deep/only-v6:6"),
    ]
    assert [script.name for script in of_drill(drill, "tcp/close/b.pkt", "4")] == ["close/b:4"]
    with tarfile.open(found[0].suite.archive) as tar:
        assert tar.getnames() == [
            *(".polypath/packetdrill", "common/beside.py", "common/defaults.sh"),
            *("tcp/close/a.pkt", "tcp/close/b.pkt", "tcp/close/helper.sh"),
        ]
    assert found[0].suite.name == "tcp/close"
    assert "../../.polypath/packetdrill" in " ".join(found[0].command)
    (script,) = of_drill(drill, "alone", "4")
    assert (script.name, script.suite.name) == ("alone/c:4", "alone")


def test_a_script_keeps_the_addresses_that_it_sets(drill):
    def commands(text):
        (drill / "alone" / "c.pkt").write_text(text)
        return {script.part: " ".join(script.command) for script in of_drill(drill, "alone", "4", "6", "mapped")}

    usual = commands("--mss=1000\n")
    assert list(usual) == ["4", "6", "mapped"]
    assert "--local_ip=192.168.0.1 --gateway_ip" in usual["4"]
    assert "--remote_ip=fd3d:fa7b:d17d::1" in usual["6"]
    own = commands("--remote_ip=10.248.0.2\n")
    assert list(own) == ["4", "mapped"]
    assert "--ip_version=ipv4-mapped-ipv6 -D TFO_COOKIE" in own["mapped"]
    assert list(commands("--mss=1000\n--local_ip=fd::1\n")) == ["6"]


def test_what_a_script_uses_is_part_of_its_runs_key(drill):
    def key():
        return of_drill(drill, "tcp/close", "4")[0].suite.key

    before = key()
    assert key() == before
    for file in ("packetdrill", "common/beside.py", "tcp/close/b.pkt"):
        (drill / file).write_text("#!/bin/sh\ntrue\n")
        assert key() != before
        before = key()


@pytest.mark.parametrize(
    ("path", "families", "sentence"),
    [
        ("nowhere", ["4"], r"^there is no folder and no script .*/nowhere$"),
        ("common", ["4"], r"^.*/common holds no scripts for packetdrill: their names end with \.pkt$"),
        ("common/beside.py", ["4"], r"^.*/beside\.py holds no scripts for packetdrill"),
        ("tcp/fast/deep/only-v6.pkt", ["4"], r"only-v6\.pkt holds no scripts for the families 4: add others with --family$"),
    ],
)
def test_a_folder_without_scripts_is_refused(drill, path, families, sentence):
    with pytest.raises(selftests.SelftestError, match=sentence):
        of_drill(drill, path, *families)


def test_families_and_program_are_checked(drill, monkeypatch):
    assert selftests.families_of("6, 4,6") == ["6", "4"]
    with pytest.raises(selftests.SelftestError, match=r'^--family: there is no family "ipv4"'):
        selftests.families_of("ipv4")
    monkeypatch.setattr(_packetdrill, "PATH", (drill / "common", drill))
    assert selftests.player_of(None) == selftests.player_of(drill / "packetdrill") == drill / "packetdrill"
    with pytest.raises(selftests.SelftestError, match=rf"^--packetdrill: {drill} is no program; you mean {drill}/packetdrill\?$"):
        selftests.player_of(drill)
    with pytest.raises(selftests.SelftestError, match=r"a\.pkt is no program$"):
        selftests.player_of(drill / "tcp/close/a.pkt")
    monkeypatch.setattr(_packetdrill, "PATH", ())
    with pytest.raises(selftests.SelftestError, match=r"^say with --packetdrill where the program packetdrill is"):
        selftests.player_of(None)


def test_the_command_says_what_is_wrong(drill):
    words = ["linux", "packetdrill", str(drill / "common"), "--packetdrill", str(drill / "packetdrill")]
    done = CliRunner().invoke(build(["linux"]), words)
    assert isinstance(done.exception, selftests.SelftestError)
    done = CliRunner().invoke(build(["linux"]), [*words[:2], str(drill / "tcp"), *words[3:], "--family", "6", "--list"])
    assert done.output.split() == ["close/a:6", "close/b:6", "fast/deep/only-v6:6"]


def test_scripts_that_were_played_say_where_they_failed():
    log = "sysctl: cannot stat /proc/x\na.pkt:12: error handling packet: timing error\nscript packet:  0.1 S\n"
    assert selftests.fault_of(log) == "a.pkt:12: error handling packet: timing error"
    assert selftests.fault_of("one\ntwo\n\n") == "two"
    assert selftests.fault_of("") == "it said nothing"
    records = [selftests.Record(f"fast/deep/{name}:4", 1, status, (selftests.Subtest(selftests.EXIT, verdict),), "")
               for name, status, verdict in (("a", 0, "pass"), ("b", 1, "fail"))]  # fmt: skip
    assert [(row.test, row.subtest, row.failures) for row in selftests.script_rows(records)] == [
        ("fast/deep", "a:4", []),
        ("fast/deep", "b:4", [1]),
    ]
    assert (short("net/mptcp/a.sh"), short("net/fib_tests.sh"), short("net/tls")) == ("mptcp/a", "net/fib_tests", "net/tls")


def test_helpers_are_compiled_and_the_archive_tells_not_where(tree, tmp_path):
    (test,) = selftests.find(tree, ["mptcp/a"])
    assert set(test.suite.missing) == {"broken", "absent"}
    assert "linux/nowhere.h" in test.suite.missing["broken"]
    assert any(re.match("net/mptcp lacks its program broken: ", each) for each in _run.missing_of([test]))
    with tarfile.open(test.suite.archive) as archive:
        held = archive.getnames()
    own = [f"net/mptcp/{name}" for name in ("Makefile", "a.sh", "b.sh", "helper", "settings")]
    assert held == ["net/fib_tests.sh", "net/lib.sh", *own, "net/pmtu.sh"]
    (test,) = selftests.find(tree, ["net/pmtu"])
    other = tmp_path / "elsewhere" / "tools" / "testing" / "selftests"
    shutil.copytree(tree, other)
    for made in other.glob("net.*"):
        made.unlink()
    (again,) = selftests.find(other, ["net/pmtu"])
    assert test.suite.key == again.suite.key


def test_the_headers_are_as_programs_may_include_them(tmp_path):
    source = tmp_path / "source"
    (source / "tools/testing/selftests/net").mkdir(parents=True)
    (source / "include/uapi/linux").mkdir(parents=True)
    head = "#ifndef _UAPI_X_H\n#define _UAPI_X_H\n#include <linux/compiler.h>\n"
    text = "struct x { void __user *p; } __packed;\nstatic inline int f(void);\n#endif /* _UAPI_X_H */\n"
    (source / "include/uapi/linux/x.h").write_text(head + text)
    into = tmp_path / "into"
    into.mkdir()
    _selftests._unpack(source, into)
    assert (into / "include/uapi/linux/x.h").read_text() == (
        "#ifndef _X_H\n#define _X_H\n\nstruct x { void *p; } __attribute__((packed));\nstatic __inline__ int f(void);\n#endif /* _X_H */\n"
    )


# Running and keeping


@pytest.fixture
def runner(tree, tmp_path, monkeypatch):
    """A runner on a kernel that is not there; its machine is a function that counts."""
    monkeypatch.setattr(_run, "tools_hash", lambda: "tools")
    calls = []

    def run_job(job, *, kernel, out=None):
        calls.append((job.test.name, job.seed))
        if job.seed == 9:
            raise EngineError("the machine died")
        return (1, "not ok 1 - x\n") if job.seed == 2 else (0, "ok 1 - x # time=5ms\n")

    monkeypatch.setattr(_run, "run_job", run_job)
    kernel = linux.Kernel(name="k", release="6.12.1", file=tmp_path / "k", key="key", algorithms=(), mptcp=1)
    found = selftests.Runner(kernel, tmp_path / "runs")
    return found, calls


def test_finished_runs_are_kept_and_not_run_again(runner, tree):
    found, calls = runner
    todo = selftests.jobs(selftests.find(tree, ["mptcp"]), [1, 2, 9])
    assert [(job.test.name, job.seed) for job in todo][:3] == [("mptcp/a", 1), ("mptcp/b", 1), ("mptcp/a", 2)]
    told = []
    records, failed = found.run_all(todo, workers=2, done=lambda *words: told.append(words))
    wanted = [("mptcp/a", 1, 0), ("mptcp/b", 1, 0), ("mptcp/a", 2, 1), ("mptcp/b", 2, 1)]
    assert [(each.test, each.seed, each.status) for each in records] == wanted
    assert [(job.seed, why) for job, why in failed] == [(9, "the machine died")] * 2
    assert len(told) == len(calls) == 6
    calls.clear()
    again, _ = found.run_all(todo, workers=1, done=lambda *_: None)
    assert again == records
    # What had no result is tried again.
    assert {seed for _, seed in calls} == {9}
    assert not list(found.folder.glob(".*"))
    assert {json.loads(file.read_text())["seed"] for file in found.folder.glob("*.json")} == {1, 2}


def test_machines_that_fill_the_processors_keep_to_one_each():
    cores = sorted(os.sched_getaffinity(0))
    together = threading.Barrier(len(cores))

    def where(_):
        # So that each thread has one of them.
        together.wait(10)
        return os.sched_getaffinity(0)

    with _run._workers(len(cores)) as pool:
        assert sorted(map(sorted, pool.map(where, cores))) == [[core] for core in cores]
    with _run._workers(max(len(cores) - 1, 1)) as pool:
        assert pool.submit(os.sched_getaffinity, 0).result() == set(cores)
    assert sorted(os.sched_getaffinity(0)) == cores


def test_another_kernel_seed_or_suite_is_another_run(runner, tree, tmp_path):
    found, _ = runner
    a, b = selftests.jobs(selftests.find(tree, ["mptcp"]), [1])
    other = selftests.Runner(linux.Kernel(name="k", release="6.12.1", file=tmp_path, key="other", algorithms=(), mptcp=1), tmp_path)
    keys = {found.key(a), found.key(b), other.key(a), found.key(selftests.Job(a.test, 2)), found.key(selftests.Job(a.test, 1, ("-i",)))}
    keys.add(found.key(selftests.Job(a.test, 1, scheduler="pp_blest")))
    assert len(keys) == 6


# The variant's configuration


def test_variants_add_to_the_plain_configuration():
    plain, more = _config.fragment(), _config.fragment("selftests")
    assert more.startswith(plain)
    assert "KALLSYMS" not in plain
    assert "NETFILTER" not in plain
    added = [option.name for option in _config.options(variant="selftests")][len(_config.options()) :]
    assert len(added) == len(set(added)) > 100
    assert not {option.name for option in _config.options()} & set(added)
    with pytest.raises(linux.KernelError, match=r'^there is no variant "selftest" of a kernel; there is selftests, hz1000$'):
        linux.build("6.12", variant="selftest", prove=lambda _: None)


# The table of names


def test_the_table_of_names_is_linked_in_until_nothing_moves(tmp_path):
    program = tmp_path / "kallsyms"
    # A table as long as its list: linking it in moves what lies behind it.
    program.write_text('#!/bin/sh\necho \'.data\'\nwhile read -r at kind name; do echo ".quad 0x$at # $name"; done <"$1"\n')
    program.chmod(0o755)
    source = tmp_path / "main.c"
    source.write_text("int behind = 1;\nint main(void) { return behind - 1; }\n")
    links = []

    def link(further):
        links.append(list(further))
        output = tmp_path / "linked"
        subprocess.run(["gcc", "-no-pie", "-o", output, *further, source], check=True)
        return output

    linked = _kallsyms.settle(("kallsyms",), tmp_path, tmp_path, link, "6.12")
    assert 2 < len(links) <= 5
    listed = subprocess.run(["nm", "-n", linked], capture_output=True, text=True, check=True).stdout
    address = next(line.split()[0] for line in listed.splitlines() if line.endswith(" behind"))
    # The table that is in the executable says where its names are in that executable.
    assert f".quad 0x{address} # behind" in (tmp_path / "kallsyms.S").read_text()


def test_a_kernel_without_a_table_has_no_program_for_it(tmp_path):
    assert _kallsyms.harvest(tmp_path, tmp_path, "CONFIG_NET=y\n# CONFIG_KALLSYMS is not set\n") == ()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "kallsyms").write_text("")
    (tmp_path / "scripts" / "kallsyms.c").write_text('{"all-symbols"}, {"absolute-percpu"}')
    done = tmp_path / "done"
    done.mkdir()
    config = "CONFIG_KALLSYMS=y\nCONFIG_KALLSYMS_ALL=y\nCONFIG_KALLSYMS_BASE_RELATIVE=y\n"
    assert _kallsyms.harvest(tmp_path, done, config) == ("kallsyms", "--all-symbols")
    assert (done / "kallsyms").exists()


# What a watched machine leaves


def written(folder, records, names="7 ns1-x\n"):
    """The folder of a machine that wrote these records: time, what, content."""
    folder.mkdir(exist_ok=True)
    (folder / "namespaces").write_text(names)
    raw = b"".join(struct.pack("=QII", at, what, len(body)) + body + bytes(-len(body) % 8) for at, what, body in records)
    (folder / "observed").write_bytes(raw)
    return folder


def packet(namespace, name, data, length):
    return struct.pack("=IIII16s", namespace, 3, length, len(data), name) + data


def test_packets_sockets_and_counters_of_a_replay_are_readable(tmp_path):
    info = bytearray(232)
    info[68:72], info[80:84], info[228:232] = (each.to_bytes(4, "little") for each in (25_000, 10, 65_535))
    ends = (bytes([10, 0, 1, 1]), bytes([10, 0, 3, 3]))
    socket = struct.pack("=IHHHHII16s16s16s", 7, 2, 1, 40000, 10001, 7, 64, *ends, b"cubic") + info
    six = (bytes(10) + b"\xff\xff\x0a\x00\x02\x01", bytes.fromhex("deadbeef000000000000000000000003"))
    joined = struct.pack("=IHHHHII16s16s16s", 7, 10, 1, 40001, 10001, 7, 8, *six, b"") + info[:24]
    counted = struct.pack("=I", 7) + b"Tcp: ActiveOpens RetransSegs\nTcp: 3 0\nMPTcpExt: MPJoinSynRx\nMPTcpExt: 2\n"
    records = [
        (1_500_000_000, 2, socket),
        (1_505_000_000, 1, packet(7, b"eth1", b"\x02" * 20, 60)),
        (1_510_000_000, 2, joined),
        (1_600_000_000, 1, packet(7, b"eth2", b"\x02" * 21, 21)),
        (1_700_000_000, 3, counted),
    ]
    folder = written(tmp_path / "run", records)
    assert [file.name for file in selftests.readable(folder)] == ["ns1-x.counters", "ns1-x.pcapng", "ns1-x.sockets.csv"]
    assert (folder / "ns1-x.counters").read_text() == "TcpActiveOpens 3\nMPTcpExtMPJoinSynRx 2\n"
    rows = list(csv.DictReader((folder / "ns1-x.sockets.csv").open()))
    wanted = {"ms": "1500.000", "source": "10.0.1.1:40000", "state": "established", "subflow": "", "cc": "cubic", "rtt_us": "25000"}
    assert wanted.items() <= rows[0].items()
    assert (rows[0]["cwnd"], rows[0]["snd_wnd_bytes"]) == ("10", "65535")
    # A shorter tcp_info, and addresses of IPv6.
    assert (rows[1]["source"], rows[1]["destination"]) == ("10.0.2.1:40001", "[dead:beef::3]:10001")
    assert (rows[1]["subflow"], rows[1]["cwnd"], rows[1]["rto_us"]) == ("join", "", "0")
    (file,) = analyse([folder / "ns1-x.pcapng"])["files"]
    assert (file["packets"], file["broken"]) == (2, None)


def test_what_a_machine_left_is_read(tmp_path):
    records = [(at, 1, packet(8, b"eth1", b"\x02" * 20, 20)) for at in (10, 20, 30)]
    folder = written(tmp_path / "run", [*records, (40, 3, struct.pack("=I", 8) + b"Tcp: ActiveOpens\nTcp: 3\n")])
    # A namespace that was gone before anybody saw its name.
    assert [file.name for file in selftests.readable(folder, (20, 30))] == ["net-8.counters", "net-8.pcapng"]
    (file,) = analyse([folder / "net-8.pcapng"])["files"]
    assert file["packets"] == 1
    records = [(10, 4, struct.pack("=Q", 5)), (20, 5, b"mptcp"), (30, 6, struct.pack("=QQ", 2, 99))]
    found = selftests.observation_of(written(tmp_path / "run", records))
    assert (found.marks, found.packets, found.refused, found.shell) == (((10, 5),), (2, 99), ("mptcp",), False)


SUBTESTS = b"INFO: setup\n01 balanced   [ OK ]\n02 unbalanced   [ OK ]\n\nTAP version 13\n1..2\nok 1 - a\n"
# When the log was so long: 10 ms, in nanoseconds, is how late a mark may be.
MARKS = [(20_000_000, 12), (40_000_000, 20), (60_000_000, 35), (90_000_000, 60), (100_000_000, len(SUBTESTS))]


def test_the_time_of_a_subtest_is_known_by_its_log():
    windows = [selftests.window_of(SUBTESTS, MARKS, subtest, "mptcp/x") for subtest in (1, 2)]
    assert windows == [(30_000_000, 70_000_000), (50_000_000, 110_000_000)]
    with pytest.raises(selftests.SelftestError, match=r"mptcp/x has no subtest 3; its log numbers 1 to 2"):
        selftests.window_of(SUBTESTS, MARKS, 3, "mptcp/x")
    with pytest.raises(selftests.SelftestError, match=r"mptcp/x does not number its subtests: leave --subtest out"):
        selftests.window_of(b"ok 1 - a\n", MARKS, 1, "mptcp/x")


@pytest.mark.parametrize(
    ("ms", "said"),
    [(35, None), (45, "subtest 1, balanced"), (55, None), (65, "subtest 2, unbalanced"), (99, "subtest 2, unbalanced")],
)
def test_a_connection_is_of_the_subtest_that_surely_ran(ms, said):
    log = SUBTESTS.replace(b"ok 1 - a", b"ok 1 - x: balanced # time=3ms\nnot ok 2 - x: unbalanced")
    assert selftests.subtest_at(log, MARKS, ms * 1_000_000) == said
    assert selftests.subtest_at(SUBTESTS, MARKS, 45_000_000) == "subtest 1"


def test_a_connection_that_begins_with_its_subtest_is_named_with_how_that_ended(monkeypatch, tmp_path):
    log = SUBTESTS.replace(b"ok 1 - a", b"ok 1 - x: balanced # time=3ms\nnot ok 2 - x: unbalanced").decode()
    seen = selftests.Observation(tuple(MARKS), (0, 0), (), False)
    told = []
    monkeypatch.setattr(report, "write_captures", lambda _report, _target, replayed: told.append(replayed))
    connections = [{"began_s": at, "data": [{"lasted_s": lasted}, {"lasted_s": 0.0}]} for at, lasted in ((0.025, 0.0), (0.025, 0.02))]
    outcomes = [selftests.Subtest("balanced", "pass", 3), selftests.Subtest("unbalanced", "fail")]
    read = {"start_ns": selftests.START_NS + 30_000_000, "connections": connections}
    _linux_replay._write_page(read, tmp_path, log, seen, outcomes, None)
    assert told[0].during == [None, report.Part(name="subtest 2, unbalanced", verdict="fail")]
    assert told[0].began_s == pytest.approx(0.03)


def test_a_connection_that_goes_on_after_the_subtest_is_not_judged_by_its_beginning(monkeypatch, tmp_path):
    log = SUBTESTS.decode()
    seen = selftests.Observation(tuple(MARKS), (0, 0), (), False)
    monkeypatch.setattr(report, "write_captures", lambda *_: None)
    connections = [
        {"began_s": at, "data": [{"lasted_s": 0.001}], "subflows": [{"end": end}], "diagnosis": ["no MP_JOIN was sent"]}
        for at, end in ((0.015, None), (0.025, None), (0.025, {"how": "FIN"}))
    ]
    read = {"start_ns": selftests.START_NS + 30_000_000, "connections": connections}
    _linux_replay._write_page(read, tmp_path / "page", log, seen, [], None, 1)
    cut = "it goes on after subtest 1: the capture has only its beginning"
    assert [said for each in connections for said in each["diagnosis"]] == ["no MP_JOIN was sent", cut, "no MP_JOIN was sent"]


TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       [000] ..s..     0.212000: kfree_skb: skbaddr=1 protocol=2048 location=tcp_v4_rcv+0x37/0x60 reason: NO_SOCKET
   mptcp_connect-147     [000] d....     7.623243: console: MPTCP: msk=1 state=1 flags=10
          <idle>-0       [000] ..s..     7.700000: kfree_skb: skbaddr=1 protocol=2048 location=tcp_v4_rcv+0x37/0x60 reason: NO_SOCKET
"""


def test_the_kernels_events_are_counted_and_asked_for_only_where_written(tmp_path):
    (tmp_path / "trace").write_text(TRACE)
    (tmp_path / "trace.stats").write_text("entries: 3\noverrun: 4\ncommit overrun: 0\ndropped events: 1\n")
    found = selftests.events(tmp_path)
    assert (found.counts, found.drops, found.lost) == ({"kfree_skb": 2, "console": 1}, {"NO_SOCKET": 2}, 5)
    assert [file.name for file in tmp_path.iterdir()] == ["events.txt"]
    assert selftests.events(tmp_path) is None
    assert selftests.IDLE.text() == "idle\n\n\n0 0\n\n"
    watch = selftests.during(selftests.Watch(events="tcp:*", dyndbg="", shell_at=5), (1, 2))
    assert watch.text() == "all\ntcp:*\n\n1 2\n5\n"


WRONG = [
    (["mptcp/x", "--seed", "1", "--plain", "--subtest", "2"], "--plain writes nothing down: leave --subtest out"),
    (["mptcp/x", "--seed", "1", "--shell-at", "3"], "--shell-at: the bare number 3 has no unit"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG, ids=["plain", "instant"])
def test_a_replay_that_cannot_be_is_refused_at_once(words, sentence):
    done = CliRunner().invoke(build(["linux"]), ["linux", "replay", *words])
    assert isinstance(done.exception, selftests.SelftestError)
    assert str(done.exception).startswith(sentence)
