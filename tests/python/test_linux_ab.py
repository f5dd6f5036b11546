"""Before and after: the text for a commit message, and what is refused before anything is built."""

import io
import random
from pathlib import Path

import pandas as pd
import pytest
from study_data import one_link
from test_bisect import repository
from typer.testing import CliRunner

from polypath import linux, selftests, terminal
from polypath.analysis import PLATFORM, Comparison, distance, significant
from polypath.cli import _linux_ab
from polypath.cli._app import build
from polypath.linux import _build
from polypath.study import StudyError

STUDY = one_link("one", flow="transport: tcp, cc: reno", duration="1s")


SOURCES = 'Before: Linux 6.12.7, 1234567 ("base"); after: Linux 6.12.7, 89abcde ("mptcp: a patch").'


def kernel(name, key):
    return linux.Kernel(name=name, release="6.12.7", file=Path("linux"), key=key, algorithms=("reno",), mptcp=1)


def test_a_text_says_what_changed_and_what_of_it_is_significant():
    chance = random.Random(1)
    before = [10 + chance.gauss(0, 0.1) for _ in range(20)]
    cells = {"faster": [value + 1 for value in before], "same": [value + chance.gauss(0, 0.1) for value in before]}
    rows = [
        {"experiment": "main", "cc": name, "flow": "f", PLATFORM: platform, "metric": "goodput_receiver_mbps", "distance": found}
        for name, after in cells.items()
        for platform, found in (("linux old", None), ("linux new", distance(after, before)))
    ]
    by = ("experiment", "cc", "flow")
    made = Comparison(platforms=["linux new", "linux old"], reference="linux old", by=by, rows=pd.DataFrame(rows), windows=pd.DataFrame())
    text = _linux_ab._text("one", SOURCES, made, 20)
    lines = {line.split()[0]: line for line in text.splitlines() if line.startswith(("faster", "same"))}
    assert "+10.0 % ± 0.0" in lines["faster"]
    assert "significant" not in lines["faster"]
    assert lines["same"].endswith("(not significant)")
    assert "By the paired t-test or that of Kolmogorov and Smirnov 1 of 2 rows changed significantly" in " ".join(text.split())
    assert f"{SOURCES} Changes are of the mean goodput at the receiver" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 75


def test_chance_alone_is_not_significant():
    assert significant([0.001, 0.04, 0.5, 0.9]) == [True, False, False, False]
    assert significant([0.01, 0.02, 0.03, 0.04]) == [True] * 4
    assert significant([]) == []
    pair = selftests.Pair("t", "a", newly=list(range(8)))
    assert pair.p == 2 / 2**8
    assert _build._progress(200, 675, 100.0) == "200 of some 675 files compiled, 4 min left"
    assert _build._progress(650, 675, 100.0) == "650 of some 675 files compiled, 4 s left"
    assert _build._progress(700, 675, 100.0) == "700 files compiled"


def test_a_log_is_told_now_and_then_how_far_it_is(monkeypatch):
    monkeypatch.setattr("polypath.terminal._LINE_EVERY_S", 0.0)
    text = io.StringIO()
    with terminal.bar(terminal.console(file=text), total=3) as move:
        for _ in range(3):
            move(advance=1, description="x")
    assert text.getvalue() == "1 of 3 finished\n2 of 3 finished\n"


@pytest.fixture
def study(tmp_path, own_cache):
    (tmp_path / "study.yaml").write_text(STUDY)
    return str(tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("trees", "why"),
    [
        (["a"], "name both"),
        (["a", "b", "c"], "name both"),
        (["a", "a"], "both --tree are a"),
        (["nowhere", "b"], "nowhere is neither a release"),
    ],
)
def test_what_is_no_pair_of_kernels_is_refused(study, trees, why, monkeypatch):
    monkeypatch.setattr("polypath.linux._tools.require", lambda *_: None)
    done = CliRunner().invoke(build(["linux"]), ["linux", "ab", study, *(word for tree in trees for word in ("--tree", tree))])
    assert isinstance(done.exception, (StudyError, linux.KernelError))
    assert why in str(done.exception)


def test_a_kernel_is_not_compared_with_itself(study, monkeypatch):
    monkeypatch.setattr(_linux_ab, "_kernel", lambda *_: kernel("same", "1"))
    done = CliRunner().invoke(build(["linux"]), ["linux", "ab", study, "--tree", "x", "--tree", "y"])
    assert isinstance(done.exception, StudyError)
    assert "x and y give the same kernel to the byte" in str(done.exception)


def record(seed, verdicts):
    subtests = [selftests.Subtest(name, verdict, ms) for name, (verdict, ms) in verdicts.items()]
    exits = selftests.Subtest(selftests.EXIT, "fail" if any(each.verdict == "fail" for each in subtests) else "pass", None)
    return selftests.Record("mptcp/t", seed, 0, (*subtests, exits), "")


def told(before, after):
    found = selftests.pairs(before, after)
    text = _linux_ab._summary(found, SOURCES, len(before))
    return {pair.subtest: pair for pair in found}, text.splitlines()


def test_subtests_that_newly_fail_come_first_with_their_seeds():
    before = [
        record(seed, {"a": ("fail" if seed == 1 else "pass", 1000), "b": ("skip", None), "c": ("pass", None)}) for seed in range(1, 21)
    ]
    after = [
        record(seed, {"c": ("ignored" if seed == 5 else "pass", None), "a": ("fail" if seed in (2, 3) else "pass", 1100), "b": ("pass", 5)})
        for seed in range(1, 21)
    ]
    found, lines = told(before, after)
    a, b, c = found["a"], found["b"], found["c"]
    assert (a.newly, a.mended, a.both, len(a.seeds), a.p, a.counts) == ([2, 3], [1], [], 20, 1.0, True)
    assert (c.newly, c.ignored, c.counts) == ([5], [5], False)
    assert (b.seeds, len(b.alone)) == ([], 20)
    assert lines[:6] == [
        "2 subtests fail in seeds in which they passed before (the test itself",
        "  ignores 1):",
        "  a: 2,3 (1 of 20 seeds failed before, 2 after; p 1)",
        "  ignored: c: 5 (0 of 20 seeds failed before, 1 after; p 1)",
        "1 subtest passes in seeds in which it failed before:",
        "  a: 1 (2 seeds the other way)",
    ]
    assert "skipped or not reached on one of both kernels, in so many seeds: b (20)" in lines
    assert "without milliseconds on both: b, c" in lines


def test_milliseconds_are_of_all_seeds_that_have_them_failed_ones_too():
    # The slower, the sooner it fails: those that pass on both are no sample of all.
    before = [record(seed, {"slow": ("pass", 1000 + seed), "same": ("pass", 500 + seed)}) for seed in range(1, 21)]
    after = [record(seed, {"slow": ("fail", 1400 + seed), "same": ("pass", 500 + seed)}) for seed in range(1, 20)]
    after.append(record(20, {"slow": ("pass", 1021), "same": ("pass", 519)}))
    _, lines = told(before, after)
    rows = {line.split()[0]: line for line in lines if "  ms  " in line}
    assert rows["slow"].split()[1:8] == ["20", "1010.5", "1390.5", "ms", "+37.6", "%", "±"]
    assert rows["slow"].endswith("  (newly fails with 19)")
    assert rows["same"].split()[1] == "20" and rows["same"].endswith("  (not significant)")
    assert "By the paired t-test 1 of 2 rows changed significantly, at most 5 % of them by chance alone" in " ".join(lines)


def test_milliseconds_whose_interval_holds_no_change_are_not_significant():
    # Each seed is slower, and one of them so much that the mean says nothing; ranks would.
    before = [record(seed, {"a": ("pass", 11000 + seed)}) for seed in range(1, 21)]
    after = [record(seed, {"a": ("pass", 26000 if seed == 2 else 11400 + seed)}) for seed in range(1, 21)]
    _, lines = told(before, after)
    (row,) = (line for line in lines if line.startswith("a ") and " ms " in line)
    assert row.endswith("+10.3 % ± 13.9  (not significant)")


def test_the_text_names_the_commit_of_each_tree_with_its_subject(tmp_path):
    tree, (_, second) = repository(tmp_path / "after", 2)
    named = f'{second[:7]} ("number 1")'
    assert _linux_ab._source(str(tree)) == named
    (tree / "number").write_text("9\n")
    assert _linux_ab._source(str(tree)) == f"{named} and changes that are not committed"
    below = tree / "linux-6.6"
    below.mkdir()
    assert [_linux_ab._source(each) for each in (str(below), "6.12")] == ["linux-6.6", "6.12"]
    assert _linux_ab._sources(["6.12", str(below)], [kernel("6.12", "1"), kernel("ab-linux-6.6", "2")]) == (
        "Before: Linux 6.12.7, 6.12; after: Linux 6.12.7, linux-6.6."
    )


def test_a_test_that_newly_dies_without_a_failing_subtest_newly_fails():
    before = [record(seed, {"a": ("pass", 10), "b": ("pass", 10)}) for seed in (1, 2)]
    died = selftests.Record("mptcp/t", 2, 137, (selftests.Subtest("a", "pass", 10), selftests.Subtest(selftests.EXIT, "fail")), "")
    found, lines = told(before, [before[0], died])
    assert (found[selftests.EXIT].newly, found["b"].alone) == ([2], [2])
    assert lines[:2] == [
        "1 subtest fails in seeds in which it passed before:",
        "  (exit status): 2 (0 of 2 seeds failed before, 1 after; p 1)",
    ]
    assert selftests.EXIT not in told(before, before)[0]


@pytest.mark.parametrize(
    "words, why",
    [
        (["--", "selftests", "mptcp/x", "--seeds"], "--seeds needs a value"),
        (["--", "selftests", "mptcp/x", "--workers"], "--workers is not known here"),
        (["--", "selftests", "mptcp/x", "--seeds", "x"], '"x" names no seeds'),
        (["--", "one", "two"], "ab compares one study, and 2 are named"),
    ],
)
def test_what_tests_are_asked_for_wrongly_is_refused(words, why):
    done = CliRunner().invoke(build(["linux"]), ["linux", "ab", "--tree", "x", "--tree", "y", *words])
    assert isinstance(done.exception, (StudyError, selftests.SelftestError))
    assert why in str(done.exception)
