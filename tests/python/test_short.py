"""The short form of a study."""

from pathlib import Path

import pytest
from fake_engine import FakeEngine
from study_data import changed, written

from polypath import Study, StudyError
from polypath.results import Results, execute, plan
from polypath.study import Setup, cells, scenario

FILE = changed(
    ("first: {ends: [client, middle], both: {rate: 50mbit, queue: 100packets, delay: 5ms}}",
     "first: {ends: [client, middle], both: {rate: 50mbit, delay: 5ms, changes: [{at: 10s, up: false}, {at: 12s, up: true}]}}"),
    ('  bulk: {client: client, server: server, cc: "${cc}"}',
     '  bulk: {client: client, server: server, cc: "${cc}", start: "${start}", window: [4s, 16s]}\n'
     "  file: {client: client, server: server, start_spread: 8ms, app: {kind: transfer, size: 10MB}}"),
    ("seeds: 2\n", "seeds: 4\nparameters: {start: 2s}\nshort: {duration: 5s, seeds: 3, only: {rate: [20mbit]}}\nclaims: []\n"),
)  # fmt: skip


@pytest.fixture
def study(tmp_path):
    return written(tmp_path, FILE)


def test_what_happens_moves_along_and_what_links_do_stays(study):
    short = study.in_short()
    assert (short.name, len(cells(short)), len(cells(study))) == ("small-short", 2, 4)
    cell = cells(short)[0]
    assert (cell.parameters["rate"], cell.seeds) == ("20mbit", (1, 2, 3))
    made, whole = scenario(cell.setup, 1), scenario(cells(study)[0].setup, 1)
    assert made["duration_ns"] == 7_000_000_000, "the tail after the applications' time is not a part of it"
    bulk, file = made["flows"]
    assert (bulk["start_ns"], bulk["window_ns"]) == (500_000_000, [1_000_000_000, 4_000_000_000])
    assert bulk["app"] == {"kind": "bulk", "duration_ns": 4_500_000_000}
    assert file["app"]["bytes"] == 2_500_000
    assert file["start_ns"] == whole["flows"][1]["start_ns"], "where between two ticks a flow starts is no event"
    rate, delay = (next(each for each in made["links"][0]["a_to_b"] if each["kind"] == kind) for kind in ("rate", "delay"))
    assert (rate["bits_per_s"], delay["delay_ns"]) == (50_000_000, 5_000_000)
    (down,) = (each for each in made["links"][0]["a_to_b"] if each["kind"] == "down")
    assert down["spans_ns"] == [[2_500_000_000, 3_000_000_000]]


def test_what_is_short_already_or_no_time_stays_and_claims_are_not_decided(tmp_path):
    study = written(tmp_path, changed(("duration: 20s", "duration: 3s")))
    assert isinstance(cells(study)[0].setup, Setup)
    assert [cell.setup for cell in cells(study.in_short())] == [cell.setup for cell in cells(study)]
    text = changed(
        ("seeds: 2\n", "seeds: 2\nclaims: [{id: a, sentence: b, check: {kind: varies, series: cwnd, by: [cc], more_than: 1%}}]\n")
    )
    study = Study.model_validate(__import__("yaml").safe_load(text))
    assert (len(study.claims), study.in_short().claims) == (1, ())
    short = Study.load(Path(__file__).parents[2] / "studies" / "mpt-gre").in_short()
    tunnels = [tunnel for cell in cells(short) for tunnel in cell.setup.topology.tunnels.values()]
    assert {tunnel.reorder.window for tunnel in tunnels if tunnel.reorder.kind == "mpt"} == {1600, 900}


def test_its_results_lie_beside_the_others_and_open_again(study, tmp_path):
    folder = execute(plan(study.in_short(), engine=FakeEngine(), out=tmp_path)).folder
    assert folder == tmp_path / "small-short"
    again = Results.open(folder)
    assert again.study == study.in_short()
    assert len(again.runs) == 2 * 3 * 2
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("only", "sentence"),
    [("{speed: [1]}", 'there is no parameter "speed"'), ("{rate: [1mbit]}", "no cell has these values")],
)
def test_a_short_form_of_nothing_is_refused(tmp_path, only, sentence):
    (tmp_path / "study.yaml").write_text(changed(("seeds: 2\n", f"seeds: 2\nshort: {{only: {only}}}\n")))
    with pytest.raises(StudyError, match=sentence):
        Study.load(tmp_path)
