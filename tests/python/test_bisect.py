"""The verdict on a commit, and git's search with verdicts that are given: no kernel is built here."""

import itertools
import random
import sys

import pytest
from typer.testing import CliRunner

from polypath import linux, programs
from polypath.bisect import Asked, BisectError, Judged, Sequential, Session, git, judge, rate, steps_of, told_apart, trial_of
from polypath.cli import _linux_bisect
from polypath.cli._app import build

SURE = Sequential(rate(0, 10), rate(10, 10), 0.01)


def test_runs_decide_a_commit_as_seldom_wrong_as_is_said():
    assert SURE.verdict([True, True]) == ("bad", 2)
    assert SURE.verdict([False, False, True]) == ("good", 2)
    assert SURE.verdict([True, False]) == (None, 2)
    chance = random.Random(1)
    test = Sequential(0.1, 0.5, 0.05)

    def wrong(true, verdict):
        verdicts = [test.verdict([chance.random() < true for _ in range(200)])[0] for _ in range(2000)]
        assert None not in verdicts
        return verdicts.count(verdict) / len(verdicts)

    assert wrong(0.1, "bad") <= 0.05
    assert wrong(0.5, "good") <= 0.05
    assert told_apart((0, 10), (10, 10)) < 1e-4
    assert told_apart((2, 10), (4, 10)) > 0.05
    # A good end that fails more often is no good end.
    assert told_apart((10, 10), (0, 10)) == 1.0
    assert judge(lambda seed: seed % 2 == 0, range(1, 9), SURE, workers=2).verdict is None
    assert [steps_of(n) for n in (1, 2, 5, 1000)] == [1, 2, 4, 11]


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_a_verdict_does_not_depend_on_the_workers(workers):
    # Two that fail more than pass decide; what runs beside them is not counted.
    judged = judge(lambda seed: seed in {1, 4, 5, 6, 7}, range(1, 20), SURE, workers=workers)
    assert judged == Judged("bad", {1: True, 2: False, 3: False, 4: True, 5: True, 6: True})


def repository(folder, commits):
    """A repository in which the number in a file grows by one each commit."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    found = []
    for number in range(commits):
        (folder / "number").write_text(f"{number}\n")
        git(folder, "add", "number")
        git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", f"number {number}")
        found.append(git(folder, "rev-parse", "HEAD").strip())
    return folder, found


# Stands in for polypath's own step: exit statuses as git wants them, by the number in the file.
STEP = "read number <number; echo $number >>$0; [ $number = 5 ] && exit 125; [ $number -lt 11 ]"


@pytest.fixture
def session(tmp_path):
    folder, commits = repository(tmp_path / "tree", 20)
    made = Session(tmp_path / "bisect")
    made.begin(Asked(tree=str(folder), good=commits[0], bad=commits[-1], command=("run", "x"), seeds=(1, 2), error=0.05))
    return made, commits


def test_git_finds_the_first_bad_commit_and_the_checkout_stays(session, tmp_path):
    made, commits = session
    made.start()
    made.run("sh", "-c", STEP, str(tmp_path / "visited"))
    found = made.culprit()
    assert found is not None
    assert found.commits == (commits[11],)
    assert git(tmp_path / "tree", "rev-parse", "HEAD").strip() == commits[-1]
    made.end({"commits": list(found.commits)})
    assert made.answer() == {"commits": [commits[11]]}
    assert not made.tree.exists()


def test_a_search_that_was_stopped_goes_on(session, tmp_path):
    made, commits = session
    made.start()
    with pytest.raises(BisectError, match="the same command goes on where it stopped"):
        made.run("sh", "-c", "exit 255")
    again = Session(made.folder)
    again.begin(made.asked())
    again.start()
    again.run("sh", "-c", STEP, str(tmp_path / "visited"))
    found = again.culprit()
    assert found is not None
    assert found.commits == (commits[11],)


def test_commits_that_cannot_be_decided_are_all_named(session, tmp_path):
    made, commits = session
    made.start()
    made.run("sh", "-c", "read number <number; [ $number -ge 10 -a $number -le 12 ] && exit 125; [ $number -lt 11 ]")
    found = made.culprit()
    assert found is not None
    assert set(found.commits) == set(commits[10:14])


def test_a_folder_of_another_question_is_refused(session):
    made, _ = session
    asked = made.asked()
    made.begin(asked)
    with pytest.raises(BisectError, match="holds a bisect of something else"):
        made.begin(Asked(tree=asked.tree, good=asked.good, bad=asked.bad, command=("run", "y"), seeds=(1, 2), error=0.05))


@pytest.mark.parametrize("command", [["run"], ["run", "x"], ["run", "x", "--check"], ["walk"], [], ["selftests", "--fast"]])
def test_a_command_that_is_none_is_refused(command, tmp_path):
    with pytest.raises(BisectError, match="comes behind --"):
        trial_of(command, tmp_path, lambda: tmp_path, print)


def test_what_stops_a_step_is_no_bad_commit(tmp_path):
    told = {
        status: programs.run("sh", "-c", _linux_bisect._AS_GIT, "sh", sys.executable, "-c", f"import os; os._exit({status})").returncode
        for status in (40, 41, 42, 0, 1, 2, 137)
    }
    assert told == {40: 0, 41: 1, 42: 125, 0: 255, 1: 255, 2: 255, 137: 255}
    assert list(itertools.islice(told, 3)) == list(_linux_bisect._STATUSES.values())


def test_a_single_commit_is_the_answer_and_the_same_command_says_so_again(tmp_path, monkeypatch):
    folder, commits = repository(tmp_path / "tree", 2)
    judged = []

    def judge_tree(session, *_):
        judged.append(session.commit())
        failed = {str(seed): session.commit() == commits[1] for seed in range(1, 11)}
        session.keep(session.commit(), {"failed": failed, "build_s": 1.0, "runs_s": 2.0, "kernel": session.commit()})
        return session.kept(session.commit())

    monkeypatch.setattr(linux, "require", lambda *_: None)
    monkeypatch.setattr(_linux_bisect, "_judge_tree", judge_tree)
    words = ("--tree", folder, "--good", commits[0], "--bad", commits[1], "--out", tmp_path / "out", "--", "selftests", "mptcp/t")
    reports = []
    for _ in range(2):
        done = CliRunner().invoke(build(["linux"]), ["linux", "bisect", *map(str, words)])
        assert done.exit_code == 0, done.output
        reports.append((tmp_path / "out/report.md").read_text())
    assert judged == commits
    assert git(folder, "worktree", "list").count("\n") == 1
    assert reports[0] == reports[1]
    bad = git(folder, "log", "-1", "--format=%h %s").strip()
    assert f"First bad commit: **{bad}**" in reports[0]
    assert "At the good end 0 of 10 seeds fail, at the bad end 10 of 10" in reports[0]
    assert "Wald" not in reports[0]
    assert f"| {bad} | bad end | 10 of 10 | 1..10 | 1 | 2 |" in reports[0]


def test_a_commit_with_the_kernel_of_another_says_whose_runs_it_takes_over(session):
    made, commits = session
    for number, (commit, kernel) in enumerate(((commits[0], "1"), (commits[-1], "2"), (commits[5], "1"))):
        verdict = {} if number < 2 else {"verdict": "good"}
        made.keep(commit, {"failed": {"1": kernel == "2"}, "build_s": 1.0, "runs_s": 0.0, "kernel": kernel, **verdict})
    short = [made.about(commit).split()[0] for commit in (commits[0], commits[5])]
    report = _linux_bisect._report(made, (commits[-1],), [(0, 1), (1, 1)], 0.01, 0.004)
    assert report.endswith(f"{short[1]} gives the same kernel to the byte as {short[0]}, whose runs are taken over.\n")
    assert report.count("to the byte") == 1
    assert "with an error of 0.004. The answer is wrong with a probability of at most 0.05" in report


def test_a_step_leaves_what_was_found_of_an_end(session, monkeypatch):
    made, commits = session
    monkeypatch.setattr(_linux_bisect, "_judge_tree", lambda *_: pytest.fail("an end is judged with all seeds, once"))
    for commit, status in ((commits[0], 40), (commits[-1], 41)):
        made.checkout(commit)
        done = CliRunner().invoke(build(["linux"]), ["linux", "bisect-step", str(made.folder)])
        assert done.exit_code == status
