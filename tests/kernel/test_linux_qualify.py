"""Exactness, as `polypath linux qualify --short` proves it."""

from typer.testing import CliRunner

from polypath.cli import _linux_qualify
from polypath.cli._app import build
from polypath.engines import conditions, proof, replay


def test_replays_under_all_conditions_are_equal(linux_kernel):
    done = CliRunner().invoke(build(["linux"]), ["linux", "qualify", "--short"])
    assert done.exit_code == 0, done.output
    assert "exact: 12 replays" in done.output
    assert "NOT" not in done.output


def test_a_machine_that_is_stopped_and_continued_goes_on(linux_kernel):
    scenario = proof(linux_kernel, 3, 1)
    plain = replay(scenario, "plain", kernel=linux_kernel)
    stopped = []
    # A run that was never stopped would prove nothing, and beside other work a stop comes late.
    while sum(each.stops for each in stopped) <= 3 and len(stopped) < 100:
        stopped.append(replay(scenario, "stopped", kernel=linux_kernel, number=len(stopped)))
    assert sum(each.stops for each in stopped) > 3
    assert {each.digest for each in stopped} == {plain.digest}


def test_a_difference_is_told(linux_kernel, monkeypatch):
    # Every second replay is of another seed.
    calls = iter(range(100))
    other = proof(linux_kernel, 5, 1)

    def wrong(scenario, condition, *, kernel, number=0):
        return replay(other if next(calls) % 2 else scenario, "plain", kernel=kernel)

    monkeypatch.setattr(_linux_qualify, "replay", wrong)
    done = CliRunner().invoke(build(["linux"]), ["linux", "qualify", "--short", "--replays", "2"])
    assert done.exit_code == 1
    assert "NOT EXACT: 2 replays gave 2 hashes" in done.output


def test_only_root_may_become_another_user(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert conditions() == ["plain", "busy", "stopped", "folder", "core"]
