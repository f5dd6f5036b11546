"""A study that is run again with nothing to do prints what it printed, and plans nothing."""

import json

import pytest

from polypath.cli import _run, _unchanged

STUDY = """\
name: same
topology:
  nodes: {a: , b: }
  links:
    l: {ends: [a, b], forward: [{kind: trace, file: link.trace}, {kind: delay, delay: 5ms}],
      backward: {rate: 10mbit, queue: 50packets, delay: 5ms}}
flows:
  up: {client: a, server: b, transport: tcp, cc: "${cc}"}
matrix: {cc: [cubic, reno]}
duration: 1s
seeds: 1
baselines: null
"""
SAID = "same: nothing has changed since then"


@pytest.fixture
def study(tmp_path, monkeypatch, polypath, own_cache):
    """A study that was run, in this folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "same"
    folder.mkdir()
    (folder / "study.yaml").write_text(STUDY)
    (folder / "link.trace").write_text("1\n2\n3\n")
    code, out, err = polypath("run", "same")
    assert code == 0 and SAID not in err
    return folder, out


def test_the_same_is_printed_and_nothing_is_planned(study, polypath, monkeypatch):
    def read(*arguments):
        raise AssertionError("no study is read")

    monkeypatch.setattr(_run._studies, "read_all", read)
    code, out, err = polypath("run", "same")
    assert (code, out) == (0, study[1])
    assert err.splitlines() == ["same: 2 runs on sim, 2 of them finished earlier", SAID]


def add(file, content=b" "):
    file.write_bytes(file.read_bytes() + content)


def of_a_run(edit):
    return lambda folder: edit(min((folder.parent / "results/same/runs").glob("*/run.json")))


def otherwise(file):
    content = file.read_bytes()
    assert b'"bytes_acked": ' in content
    file.write_bytes(content.replace(b'"bytes_acked": ', b'"bytes_acked":  ', 1))


CHANGES = {
    "the study": lambda folder: add(folder / "study.yaml", b"# said\n"),
    "its recorded link": lambda folder: add(folder / "link.trace", b"4\n"),
    "a finished run": of_a_run(otherwise),
    "a finished run of the same length": of_a_run(lambda file: file.write_bytes(file.read_bytes()[::-1])),
    "a run that is gone": of_a_run(lambda file: file.unlink()),
    "a file that came": lambda folder: (folder.parent / "results/same/runs/x").write_text(""),
    "a table": lambda folder: add(folder.parent / "results/same/runs.parquet"),
    "the report": lambda folder: (folder.parent / "results/same/report.html").unlink(),
    "a figure": lambda folder: add(min((folder.parent / "results/same/figures").glob("*.svg"))),
    "the ledger": lambda folder: min((folder.parent / "cache/polypath/computed").iterdir()).unlink(),
    "what was kept": lambda folder: (folder.parent / "results/same/.unchanged.json").write_text('{"folder": 1}'),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_was_changed_is_seen(study, polypath, change):
    folder, _ = study
    change(folder)
    _, out, err = polypath("run", "same")
    assert SAID not in err
    assert "report: " in out or "was changed" in out + err or "cannot be read" in out + err


@pytest.mark.parametrize("words", ["--columns srtt_ms", "--only cc=reno", "--no-report", "--short", "--json", "--dry-run"])
def test_another_command_is_another(study, polypath, words):
    assert SAID not in polypath("run", "same", *words.split())[2]


def test_another_build_is_another(study, polypath, monkeypatch):
    monkeypatch.setattr(_unchanged, "_build", lambda: "another")
    assert SAID not in polypath("run", "same")[2]


def test_what_changes_while_it_is_read_is_not_kept(study, polypath, monkeypatch):
    folder, _ = study
    kept = folder.parent / "results/same/.unchanged.json"
    assert json.loads(kept.read_bytes())["name"] == "same"
    kept.unlink()
    written = _run._report.write

    def meanwhile(*arguments):
        add(folder.parent / "results/same/runs.parquet")
        return written(*arguments)

    monkeypatch.setattr(_run._report, "write", meanwhile)
    polypath("run", "same")
    assert not kept.exists()
