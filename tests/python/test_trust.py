"""Results that somebody else made, changed or damaged."""

import json
import re
import shutil

import pytest
from fake_engine import FakeEngine
from study_data import one_link, written

from polypath.engines import ENGINES
from polypath.results import Results, Store, execute, plan, verify
from polypath.study import Study, StudyError
from polypath.sweep import is_sealed

STUDY = one_link("told", matrix="{cc: [cubic, reno, bbr]}", duration="2s", seeds=3, baselines="null", measure="{series: 100ms}")
FOREIGN = "9 of 9 results were not computed here: they came with the study, or from another machine"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A study with results beside it."""
    there = tmp_path_factory.mktemp("theirs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("their cache")))
        execute(plan(written(there, STUDY), out=there / "results"))
    (there / "results/told/.study-file").unlink()
    return there


@pytest.fixture
def folder(theirs, tmp_path, monkeypatch, own_cache):
    """A copy of it, of which this user computed nothing."""
    monkeypatch.chdir(shutil.copytree(theirs, tmp_path / "theirs"))
    return tmp_path / "theirs"


def edited(folder, number=3, seal=None):
    """So many records say 4.2 Mbit/s; `seal` makes the text of each."""
    files = sorted((folder / "results/told/runs").glob("*/run.json"))[:number]
    for file in files:
        text = re.sub(r'"goodput_receiver_bps": [0-9.e+]+', '"goodput_receiver_bps": 4200000.0', file.read_text())
        file.write_text(text if seal is None else seal(text))
    return [str(file.parent.relative_to(folder)) for file in files]


def plain(text):
    return "{" + text.partition(", ")[2]


def test_results_that_come_with_a_study_are_told(folder, polypath, monkeypatch):
    code, out, err = polypath("run", ".")
    assert (code, "9 of them finished earlier" in err, FOREIGN in out) == (0, True, True)
    assert FOREIGN in (folder / "results/told/report.html").read_text()
    assert FOREIGN in polypath("show", "results/told")[1]
    assert Results.open(folder / "results/told").notes[0].startswith(FOREIGN)
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    code, out, _ = polypath("run", ".", "--out", "mine", "--no-report")
    assert (code, FOREIGN in out) == (0, True)


def test_what_one_computed_oneself_is_not_told(folder, polypath):
    shutil.rmtree(folder / "results")
    for _ in range(2):
        code, out, _ = polypath("run", ".", "--out", "mine")
        assert (code, "computed here" in out) == (0, False)
    assert "computed here" not in (folder / "mine/told/report.html").read_text()
    # Theirs and one's own, in one folder.
    shutil.rmtree(next((folder / "mine/told/runs").iterdir()))
    shutil.copytree(folder / "mine/told/runs", folder / "again/told/runs")
    assert "computed here" not in polypath("run", ".", "--out", "again", "--no-report")[1]


@pytest.mark.parametrize("seal", [None, plain])
def test_edited_results_are_told_and_verify_finds_them(folder, polypath, seal):
    places = edited(folder, seal=seal)
    code, out, _ = polypath("run", ".")
    assert (code, FOREIGN in out) == (0, True)
    page = (folder / "results/told/report.html").read_text()
    assert FOREIGN in page
    for text in (out, page):
        assert ("the hash in run.json does not fit" in text) == (seal is None)
    if seal is None:
        assert all(place in out for place in places)
    code, out, err = polypath("run", ".", "--verify", "all")
    assert (code, out.count("run.json differs"), all(place in out for place in places)) == (2, 3, True)
    assert "3 of 9 runs came out otherwise when run again on sim" in err
    # Nothing of the results folder was changed by looking.
    assert polypath("run", ".", "--verify", "9")[0] == 2


def test_what_one_edited_oneself_is_told_too(folder, polypath):
    shutil.rmtree(folder / "results")
    polypath("run", ".", "--out", "results", "--no-report")
    edited(folder, 1, plain)
    assert "1 of 9 results was not computed here" in polypath("run", ".")[1]
    # Those come first that nobody here has computed.
    code, out, _ = polypath("run", ".", "--verify", "1")
    assert (code, out.count("differs")) == (2, 1)


def test_verify_says_how_many_runs_are_the_same_and_which_was_changed(folder, polypath):
    code, out, _ = polypath("run", ".", "--verify", "2")
    assert (code, out.strip()) == (0, "told: 2 runs again on sim, the same to the byte")
    code, out, _ = polypath("run", ".", "--verify", "all", "--only", "cc=reno")
    assert (code, out.strip()) == (0, "told: 3 runs again on sim, the same to the byte")
    # Seeds of one algorithm may have the same series, and an id changes with the build: one run of each of two.
    keys = Results.open(folder / "results/told").runs.drop_duplicates("cc").key[:2]
    one, other = (folder / "results/told/runs" / key for key in keys)
    shutil.copy(one / "subflows.parquet", other / "subflows.parquet")
    code, out, _ = polypath("run", ".", "--verify", "all")
    assert (code, out.count("subflows.parquet differs")) == (2, 1)
    assert f"{other.relative_to(folder)} was changed after it was written" in polypath("run", ".", "--no-report")[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--verify", "some"), "--verify some says not how many runs; write a number, or all"),
        (("--verify", "0"), "--verify 0 says not how many runs; write a number, or all"),
        (("--verify", "1", "--on", "dask://127.0.0.1:1"), "leave --on and --again out"),
        (("--verify", "1", "--out", "nowhere"), "holds no finished run of told on sim to verify: run it first"),
    ],
)
def test_what_cannot_be_verified_is_one_sentence(folder, polypath, arguments, sentence):
    code, _, err = polypath("run", ".", *arguments)
    assert (code, sentence in err.splitlines()[-1]) == (2, True)


def test_records_are_sealed_and_none_in_real_time_is_verified(folder, monkeypatch):
    kept = Store(folder / "results/told/runs").look(next((folder / "results/told/runs").iterdir()).name)
    record, series = kept.files["run.json"], {name: content for name, content in kept.files.items() if name != "run.json"}
    assert (kept.sealed, is_sealed(record, series), is_sealed(record, {})) == (True, True, False)
    assert is_sealed(plain(record.decode()).encode(), series) is None
    assert list(json.loads(record)) == ["sha256", "key", "engine", "version", "scenario", "outcome"]

    class Real(FakeEngine):
        real_time = True

    monkeypatch.setitem(ENGINES, "fake", Real)
    with pytest.raises(StudyError, match="measures a machine in real time"):
        verify(plan(Study.load(folder), engine="fake", out=folder, only={"cc": "reno"}))
