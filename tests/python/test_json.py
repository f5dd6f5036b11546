"""`--json`: one JSON document on standard output and nothing else, with the same names in all
commands. Kernels, machines and programs are stand-ins.
"""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from fake_engine import FakeEngine
from study_data import STUDY, one_link, written
from test_bisect import repository
from test_linux_ab import kernel, record
from test_measured import iperf3

from polypath import kernelcc, linux, selftests
from polypath.analysis import PLATFORM, Comparison, distance
from polypath.bisect import Culprit, Session
from polypath.cli import _diverge, _linux_ab, _linux_bisect, _linux_packetdrill, _linux_qualify, _linux_replay, _linux_selftests
from polypath.engines import ENGINES, Replay, SimEngine
from polypath.engines._diverge import Divergence, Passing


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENGINES, "fake", FakeEngine)


@pytest.fixture
def given(polypath):
    """The document of a command, which prints nothing else, and its exit status."""

    def call(*words):
        words = words if "--json" in words else (*words, "--json")
        code, out, _ = polypath(*words)
        assert out.startswith("{") and out.endswith("}\n")
        return json.loads(out), code

    return call


def test_init_says_what_it_wrote(given):
    assert given("init", "mine") == ({"study": "mine", "file": "mine/study.yaml", "template": "two-paths"}, 0)


def test_run_gives_the_verdict_on_each_claim(polypath):
    polypath("init", "mine", "--template", "exercise-headers")
    code, out, _ = polypath("run", "mine", "--no-report", "--json")
    (told,) = json.loads(out)
    (claim,) = told["claims"]
    # The exercise as it is given is not solved, which is no error.
    assert (code, claim["platform"], claim["verdict"]) == (0, "sim", "does not hold")
    assert claim["sentence"] and "outside" in claim["why"]
    assert json.loads(polypath("show", "results/mine", "--json")[1]) == told


def test_import_gives_the_summary_and_what_was_understood(given, tmp_path):
    (tmp_path / "lan.json").write_text(iperf3())
    found, _ = given("import", "lan.json")
    assert (found["study"], found["file"], found["folder"]) == ("lan", "lan/study.yaml", "results/lan")
    assert found["summary"][0]["goodput_receiver_mbps"] == 8.0
    assert found["said"].keys() == {"lan.json"}


def test_report_gives_the_summary_differences_and_files(given, polypath, tmp_path):
    written(tmp_path / "small", STUDY)
    polypath("run", "small", "--engine", "fake", "--no-report")
    found, _ = given("report", "small", "--figures", "svg", "--against", "cc=lia")
    assert (found["study"], found["report"], len(found["summary"])) == ("small", "results/small/report.html", 4)
    assert [(row["cc"], row["against"], row["rate"]) for row in found["against"]] == [("olia", "lia", "20mbit"), ("olia", "lia", "10mbit")]
    assert json.loads(polypath("run", "small", "--engine", "fake", "--no-report", "--against", "cc=lia", "--json")[1])[0]["against"]
    found, _ = given("report", "small", "--figure", "goodput", "--out", "figure.svg")
    assert (found["study"], found["figures"]) == ("small", ["figure.svg"])


def test_diverge_gives_the_packets_and_what_senders_knew(given, tmp_path, monkeypatch):
    written(tmp_path / "one", one_link("one", flow="transport: tcp, cc: reno", duration="1s"))
    monkeypatch.setattr(_diverge, "find", lambda name: SimEngine())
    found, code = given("diverge", "one")
    assert (found["study"], found["same"], found["divergence"], code) == ("one", True, None, 0)
    segment = Passing(0.5, "a:l", "10.0.0.1 > 10.0.0.2 S")
    parted = Divergence("a:l", segment, None, 3, ([segment], []), ({(0, 0): {"cwnd": 11}}, {}))
    monkeypatch.setattr(_diverge.engine_layer, "diverge", lambda *_, **__: parted)
    found, code = given("diverge", "one")
    assert (found["same"], found["divergence"]["first"]["linux"], found["divergence"]["at_s"], code) == (False, None, 0.5, 1)
    assert found["divergence"]["state"] == [{"flow": "f", "subflow": 0, "sim": {"cwnd": 11}, "linux": {}}]


def test_check_gives_what_was_found_of_each_algorithm(given, monkeypatch):
    lines = ["lia: same windows in 10 calls", "olia: different windows: call 3"]
    monkeypatch.setattr(kernelcc, "check", lambda *_, **__: (False, lines))
    found, code = given("cc", "check")
    assert (found["same"], [(each["name"], each["same"]) for each in found["checked"]], code) == (
        False,
        [("lia", True), ("olia", False)],
        1,
    )
    monkeypatch.setattr(linux, "check_schedulers", lambda *_, **__: iter([("blest", 7, None)]))
    assert given("sched", "check") == (
        {"same": True, "checked": [{"name": "blest", "same": True, "said": "same choices in 7 calls"}]},
        0,
    )


RECORDS = [
    record(1, {"a": ("pass", 10), "b": ("pass", None)}),
    replace(record(2, {"a": ("fail", 12), "b": ("pass", None)}), status=1),
    record(3, {"a": ("pass", 11), "b": ("pass", None)}),
]
JOB = selftests.Job(SimpleNamespace(name="mptcp/t"), 4)


@pytest.fixture
def played(monkeypatch):
    """Tests and scripts with these records, and a job that has none."""
    monkeypatch.setattr(linux, "is_there", lambda _: True)
    monkeypatch.setattr(linux, "selftests", lambda *_, **__: Path())
    monkeypatch.setattr(selftests, "names", lambda *_: ["mptcp/t"])
    for module in (_linux_selftests, _linux_packetdrill, _linux_replay):
        monkeypatch.setattr(module, "kernel_of", lambda *_: kernel("6.12", "1"))
    for module in (_linux_selftests, _linux_ab, _linux_replay):
        monkeypatch.setattr(module, "tests_of", lambda *_: [JOB.test])
    for module in (_linux_selftests, _linux_packetdrill):
        monkeypatch.setattr(module, "carry_out", lambda *_: (RECORDS, [(JOB, "its machine died")]))
    for name in ("missing_of", "jobs"):
        monkeypatch.setattr(selftests, name, lambda *_, **__: [])
    for name, value in (("player_of", Path()), ("scripts_of", [JOB.test]), ("check_player", None)):
        monkeypatch.setattr(selftests, name, lambda *_, value=value: value)


def test_tests_and_scripts_give_a_row_each_and_what_has_no_result(given, played, tmp_path):
    for words, subtest in ((("selftests",), "a"), (("packetdrill", "--packetdrill", "x", "scripts"), "t")):
        found, code = given("linux", *words, "--out", tmp_path)
        first, second = found["rows"]
        assert (first["subtest"], first["runs"], first["pass"], first["fail"], first["failing_seeds"]) == (subtest, 3, 2, 1, [2])
        assert (first["ms"], second["failing"]) == ([10, 12, 11], 0.0)
        assert found.get("again") == ("polypath linux replay mptcp/t --seed 2" if subtest == "a" else None)
        assert (found["without_result"], code) == ([{"test": "mptcp/t", "seed": 4, "why": "its machine died"}], 1)
        assert [each["test"] for each in found.get("faults", ())] == ["mptcp/t"] * (subtest == "t")
        assert given("linux", *words, "--list")[0] == {"tests": ["mptcp/t"]}


def test_a_hunt_gives_what_it_found(given, played, monkeypatch, tmp_path):
    vary = _linux_selftests.variation_of("start", 2)
    hunted = {
        "start": selftests.Found(selftests.Job(JOB.test, 4, vary=vary), "a", ("x",), 9),
        "slow": selftests.Nothing(JOB, "slow", "none", 5),
    }
    monkeypatch.setattr(selftests, "jobs", lambda *_, **__: [JOB])
    monkeypatch.setattr(selftests, "hunt", lambda runner, job, kind, **_: hunted[kind.name])
    found, code = given("linux", "selftests", "--hunt", "--vary", "start,slow", "--out", tmp_path)
    (one,) = found["found"]
    assert (found["hunts"], one["test"], one["draw"], one["subtest"], code) == (2, "mptcp/t", 2, "a", 1)
    assert one["again"].startswith("polypath linux replay mptcp/t --seed 4 --vary start=4ms --draw 2")


def test_ab_gives_what_changed_and_the_text(given, played, monkeypatch, tmp_path):
    after = [record(seed, {"a": ("pass", 20 + seed), "b": ("pass", None)}) for seed in (1, 2, 3)]
    both = iter((RECORDS, after, after, RECORDS))
    monkeypatch.setattr(_linux_ab, "carry_out_tests", lambda *_: (next(both), []))
    monkeypatch.setattr(_linux_ab, "_kernels", lambda *_: [kernel("old", "1"), kernel("new", "2")])
    monkeypatch.setattr(linux, "require", lambda *_: None)
    words = ("linux", "ab", "--tree", "x", "--tree", "y", "--out", tmp_path, "--json", "--", "selftests", "mptcp/t")
    found, code = given(*words)
    first, second = found["rows"]
    assert first["n"] == 3
    assert (first["mended"], first["before"], first["after"], first["unit"], "change" in second) == ([2], 11.0, 22.0, "ms", False)
    assert found["text"] == (tmp_path / "ab.txt").read_text()
    for side, ms in (("before", "10 12 11"), ("after", "21 22 23")):
        assert (tmp_path / side / "table.csv").read_text().splitlines()[1].endswith(f",{ms}")
    assert ("again" in found, code) == (False, 0)
    found, code = given(*words)
    assert (found["again"], code) == ("polypath linux replay mptcp/t --seed 2 --kernel y", 1)
    by = ("experiment", "flow")
    row = {"experiment": "main", "flow": "f", "metric": "goodput_receiver_mbps"}
    rows = [{**row, PLATFORM: "linux old", "distance": None}, {**row, PLATFORM: "linux new", "distance": distance([2.0, 2.1], [1.0, 1.0])}]
    made = Comparison(platforms=["linux new", "linux old"], reference="linux old", by=by, rows=pd.DataFrame(rows), windows=pd.DataFrame())
    (one,) = _linux_ab._rows(made)
    assert (one["flow"], one["before"], one["unit"], one["change"]) == ("f", 1.0, "Mbit/s", pytest.approx(1.05))


def test_bisect_gives_the_commit_and_each_verdict(given, monkeypatch, tmp_path):
    folder, commits = repository(tmp_path / "tree", 3)

    def judged(session, *_):
        failed = {seed: session.commit() == commits[-1] for seed in map(str, range(1, 11))}
        session.keep(session.commit(), {"failed": failed, "build_s": 1.0, "runs_s": 2.0})
        return session.kept(session.commit())

    monkeypatch.setattr(linux, "require", lambda *_: None)
    monkeypatch.setattr(_linux_bisect, "_judge_tree", judged)
    monkeypatch.setattr(Session, "run", lambda *_: None)
    monkeypatch.setattr(Session, "culprit", lambda _: Culprit((commits[-1],)))
    found, code = given(
        *("linux", "bisect", "--tree", folder, "--good", commits[0], "--bad", commits[-1], "--out", tmp_path / "out"),
        *("--json", "--", "selftests", "mptcp/t"),
    )
    assert (found["commits"], [row["commit"] for row in found["rows"]], code) == ([commits[-1]], [commits[0], commits[-1]], 0)
    assert Path(found["report"]).is_file()


def test_replay_gives_its_files_and_subtests(given, polypath, played, monkeypatch, tmp_path):
    seen = SimpleNamespace(packets=(5, ""), marks=[], refused=[], shell=False)
    monkeypatch.setattr(selftests, "run_job", lambda *_, **__: (0, "TAP version 13\n1..1\nok 1 - a # time=3ms\n"))
    monkeypatch.setattr(selftests, "observation_of", lambda _: seen)
    monkeypatch.setattr(selftests, "events", lambda _: None)
    monkeypatch.setattr(selftests, "readable", lambda folder, _: [folder / "log"])
    found, code = given("linux", "replay", "mptcp/t", "--seed", "4", "--to", tmp_path / "out")
    assert (found["test"], found["seed"], found["same"], found["packets"], code) == ("mptcp/t", 4, True, 5, 0)
    assert found["files"] == [str(tmp_path / "out/log")]
    sentence = "polypath: --json tells what was written down: leave --plain out\n"
    assert polypath("linux", "replay", "mptcp/t", "--seed", "4", "--plain", "--json") == (2, "", sentence)


def test_qualify_gives_what_was_proved(given, monkeypatch):
    monkeypatch.setattr(linux, "find", lambda _: kernel("6.12", "1"))
    monkeypatch.setattr(_linux_qualify, "proof", lambda machine, number, _: number)
    monkeypatch.setattr(_linux_qualify, "conditions", lambda: ["plain", "stopped"])
    monkeypatch.setattr(_linux_qualify, "replay", lambda scenario, condition, **_: Replay(condition, f"{scenario:064}", {}))
    found, code = given("linux", "qualify", "--short", "--replays", "2")
    assert (found["kernel"], found["exact"], [row["replays"] for row in found["rows"]], code) == ("6.12", True, ["1", "1"], 0)
    assert found["said"].startswith("exact: 2 replays")


@pytest.mark.parametrize(
    "words",
    [
        ("diverge", "nowhere"),
        ("report", "nowhere"),
        ("import", "nowhere"),
        ("init", "mine", "--template", "nothing"),
        ("sched", "check", "nothing"),
        ("linux", "selftests", "--seeds", "x"),
        ("linux", "packetdrill", "--family", "x"),
        ("linux", "replay", "mptcp/t", "--seed", "1", "--draw", "2"),
        ("linux", "qualify", "--kernel", "nothing"),
        ("linux", "ab", "x", "--tree", "y"),
        ("linux", "bisect", "--tree", "nowhere", "--good", "a", "--bad", "b", "x"),
    ],
)
def test_a_mistake_is_one_sentence_and_no_document(polypath, monkeypatch, words):
    monkeypatch.setattr(linux, "require", lambda *_: None)
    code, out, err = polypath(*words, "--json")
    assert (code, out, err.count("\n")) == (2, "", 1)
