"""Seeded variations of runs without a kernel."""

import itertools

import pytest
from typer.testing import CliRunner

from polypath import EngineError, linux, selftests
from polypath.cli._app import build
from polypath.engines import ALL, MOST_NS, Kind, LinuxEngine, Variation, draws_of, happened, in_units, variation
from polypath.selftests import _hunt, _run


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("start", "start=4ms"),
        ("slow, start=250us", "start=250us,slow=10us"),
        ("jitter=1.5us:3..4", "jitter=1.5us:3..4"),
        ("start=1ms:0..7", "start=1ms:0..7"),
    ],
)
def test_a_variation_is_read_and_said_again(text, said):
    assert str(variation(text)) == said
    assert variation(said) == variation(text)


def test_times_and_lines_say_exactly_what_varies():
    assert [in_units(each) for each in (1, 999, 1000, 1500, 4_000_000, 1_234_567, 10**9)] == [
        "1ns", "999ns", "1us", "1.5us", "4ms", "1.234567ms", "1s",
    ]  # fmt: skip
    assert variation("start:2..5,slow").text(7) == f"draw 7\nstart 4000000 2 5\nslow 10000 0 {ALL}\n"
    assert variation("jitter", draw=3).text(7).startswith("draw 3\njitter 10000 ")


WRONG = [
    ("", '"" is no variation: write one like start'),
    ("start=4ms:7", '"start=4ms:7" is no variation'),
    ("slwo", 'there is no variation "slwo"; did you mean "slow"?'),
    ("slow,slow=1us", '"slow,slow=1us" has slow twice'),
    ("start=2s", "the variation start is 2s: give it more than nothing, and a second at most"),
    ("start=0ms", "the variation start is 0ms: give it more than nothing"),
    ("start=4", "the variation start: the bare number 4 has no unit"),
    ("start:5..5", '"start:5..5" has no draws: the range ends before it begins'),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG)
def test_what_is_no_variation_is_said_in_a_sentence(text, sentence):
    with pytest.raises(EngineError) as error:
        variation(text)
    assert str(error.value).startswith(sentence)


def test_what_varied_is_readable(tmp_path):
    lines = ["start 5 at 2500000 ns 1500 tc 29", "slow 6 at 1 ns 10 ip -1", "slow 7 at 1 ns 10 one -2", "slow 8 at 1 ns 10 ip 0"]
    (tmp_path / "varied").write_text("\n".join([*lines, "start draws 16", "jitter draws 0", "slow draws 4305", ""]))
    assert draws_of(tmp_path) == {"start": 16, "jitter": 0, "slow": 4305}
    assert happened(tmp_path) == [
        "start 5 at 0.002500 s: tc, 1.5us",
        "slow 6 at 0.000000 s: ip page fault, 10ns",
        "slow 7 at 0.000000 s: one receives, 10ns",
        "slow 8 at 0.000000 s: ip call 0, 10ns",
    ]
    assert (draws_of(tmp_path / "none"), happened(tmp_path / "none")) == ({}, [])


# Hunting


@pytest.fixture
def suite(tmp_path):
    return selftests.Suite("net/x", ("a.sh",), {}, tmp_path / "tar", "suite")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that fails where draws 37 to 39 of start count, and dies of slow."""
    monkeypatch.setattr(_run, "tools_hash", lambda: "tools")
    calls = []

    def run_job(job, *, kernel, out=None):
        calls.append(str(job.vary))
        bad = False
        for kind in job.vary.kinds:
            if out:
                (out / "varied").write_text("start 37 at 5000 ns 9 sh 3\nstart draws 100\njitter draws 0\nslow draws 9\n")
            if kind.name == "slow" and kind.most_ns >= 2500:
                raise EngineError("the machine died")
            bad |= kind.name == "start" and job.vary.draw == 2 and kind.most_ns >= 300_000 and kind.first <= 37 and kind.last >= 40
        return int(bad), f"ok 1 - first\n{'not ok' if bad else 'ok'} 2 - second\nnot ok 3 - never\n"

    monkeypatch.setattr(_run, "run_job", run_job)
    monkeypatch.setattr(_hunt, "run_job", run_job)
    kernel = linux.Kernel(name="k", release="6.12.1", file=tmp_path / "k", key="key", algorithms=(), mptcp=1)
    return selftests.Runner(kernel, tmp_path / "runs"), calls


def hunt(machine, suite, kind, **more):
    return selftests.hunt(machine[0], selftests.Job(selftests.Test(suite, "a.sh"), 1), Kind(kind, MOST_NS[kind]), draws=3, **more)


def test_a_hunt_finds_the_fewest_draws_and_a_size_that_is_needed(machine, suite):
    found = hunt(machine, suite, "start")
    (kind,) = found.job.vary.kinds
    assert (found.subtest, found.job.vary.draw, kind.first, kind.last) == ("second", 2, 37, 40)
    # Five halvings come within a thirtieth of 1 ms from above.
    assert 300_000 <= kind.most_ns < 300_000 + 1_000_000 / 30
    assert found.what == ("start 37 at 0.000005 s: sh, 9ns",)
    first = hunt(machine, suite, "start")
    ran = len(machine[1])
    assert hunt(machine, suite, "start", workers=4) == first
    # Only what it did is looked at once more.
    assert len(machine[1]) == ran + 1


def test_a_hunt_finds_a_machine_that_dies_or_says_what_it_tried(machine, suite):
    found = hunt(machine, suite, "slow")
    assert found.subtest == "(no result)"
    assert 2500 <= found.job.vary.kinds[0].most_ns <= 2600
    found = hunt(machine, suite, "jitter")
    assert found.why == "all that passed passes with 3 draws of each of 5 sizes up to jitter=10us, too"
    assert found.runs == 1 + 3 * 5


def test_a_variation_is_part_of_keys(machine, suite, monkeypatch):
    runner, _ = machine
    test = selftests.Test(suite, "a.sh")
    jobs = [selftests.Job(test, 1), *(selftests.jobs([test], [1], variation(text, draw))[0] for text, draw in WAYS)]
    keys = [runner.key(job) for job in jobs]
    assert all(one != other for one, other in itertools.combinations(keys, 2))
    assert selftests.Job(test, 1, vary=Variation()) == jobs[0]
    monkeypatch.setattr("polypath.engines._linux._own_hash", lambda: "own")
    assert LinuxEngine().version == "1+own"
    assert LinuxEngine(variation("slow")).version == "1+own~slow=10us"
    assert LinuxEngine(variation("slow", draw=2)).version == "1+own~slow=10us/2"


WAYS = [("start", None), ("start", 1), ("start=1ms", None), ("start:0..3", None), ("slow", None), ("start,slow", None)]

REFUSED = [
    (["selftests", "--vary", "slwo"], '--vary: there is no variation "slwo"; did you mean "slow"?'),
    (["selftests", "--draw", "3"], "--draw says which draw of a variation: add --vary"),
    (["selftests", "--hunt", "--draw", "3"], "--draw says which draw of a variation: a hunt tries several, leave it out"),
    (["selftests", "--draws", "3"], "--draws says how many variations a hunt tries: add --hunt, or leave it out"),
    (["replay", "mptcp/x", "--seed", "1", "--draw", "3"], "--draw says which draw of a variation: add --vary"),
    (["replay", "mptcp/x", "--seed", "1", "--vary", "start=9"], "--vary: the variation start: the bare number 9 has no unit"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED, ids=[" ".join(words) for words, _ in REFUSED])
def test_a_command_that_cannot_be_is_refused_at_once(words, sentence):
    done = CliRunner().invoke(build(["linux"]), ["linux", *words])
    assert isinstance(done.exception, selftests.SelftestError)
    assert str(done.exception).startswith(sentence)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--vary", "slow"], "--vary is for the engine linux, and sim has none of it"),
        (["--engine", "linux", "--vary", "x"], '--vary: there is no variation "x"'),
        (["--engine", "linux", "--vary", "start,slow"], "--vary: a study's runs begin at the same moment of a tick"),
        (["--engine", "linux", "--vary", "slow", "--on", "dask://h:1"], "--vary runs on this machine alone: leave --on out"),
    ],
)
def test_a_study_that_cannot_vary_so_is_refused(words, sentence, tmp_path):
    done = CliRunner().invoke(build(["run"]), ["run", "studies/nitk", "--out", str(tmp_path), *words])
    assert str(done.exception).startswith(sentence)
