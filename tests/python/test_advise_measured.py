"""The advisor on paths that were measured over time."""

import itertools

import pytest
from study_data import written

from polypath.advise import Question, linux_default, paths_of_file, weighted
from polypath.advise._answer import _measured
from polypath.advise._conclusion import Summary, command
from polypath.advise._study import study
from polypath.study import cells, scenario

STUDY = """\
name: office
topology:
  nodes: {office: , server: }
  links:
    starlink:
      ends: [office, server]
      forward: [UP, {kind: down, spans: [[4.7s, 5s]], repeat: 5s}, {kind: delay, delay: 20ms}]
      backward: {rate: 150mbit, delay: 20ms, queue: 100ms, outage: 300ms, every: 5s}
flows: {f: {client: office, server: server, transport: tcp, cc: cubic}}
duration: 20s
"""
TABLE = "{kind: table, file: up.csv, repeat: 6s, queue: 100packets}"
RATES = (10, 8, 9, 16, 16, 14)


@pytest.fixture
def office(tmp_path):
    rows = "".join(f"{second}s,{rate}mbit\n" for second, rate in enumerate(RATES))
    (tmp_path / "up.csv").write_text(f"time,rate\n{rows}")
    (tmp_path / "up.trace").write_text("".join(f"{ms}\n" for ms in [*range(1, 1001), *range(1002, 3001, 2)]))
    return tmp_path


def read(folder, element):
    written(folder, STUDY.replace("UP", element))
    return paths_of_file(str(folder))


def test_a_table_of_a_study_is_the_line_with_its_outages(office):
    (path,), notes = read(office, TABLE)
    assert [rate / 1e6 for rate in path.measured.up[:6]] == list(RATES)
    assert (path.up.low, path.up.high, path.measured.down) == (8e6, 16e6, ())
    assert path.usual("up").low == pytest.approx(73e6 / 6)
    assert (path.outage.low, path.outage.high, path.every.low) == (300e6, 300e6, pytest.approx(5e9))
    assert "starlink up has the rates that were measured, 8 to 16 Mbit/s (mean 12.2, 10th percentile 8)" in notes


def test_a_trace_of_a_study_is_its_chances_to_send(office):
    (path,), _ = read(office, "{kind: trace, file: up.trace}")
    chance = 1504 * 8 / 1e-3
    assert (path.measured.step, len(path.measured.up)) == (100_000_000, 30)
    assert path.measured.up[5] == pytest.approx(chance, rel=0.02) and path.measured.up[25] == pytest.approx(chance / 2, rel=0.02)


def test_every_network_has_the_measured_rates_from_another_moment(office):
    paths, _ = read(office, TABLE)
    question = Question(paths=tuple(paths), weights=weighted("upload"))
    begins = set()
    for cell in cells(study(question, [linux_default(question.paths)], range(1, 9))):
        link = next(link for link in scenario(cell.setup, cell.seeds[0])["links"] if link["name"] == "starlink")
        rate = next(element for element in link["a_to_b"] if element["kind"] == "rate")
        found = [rate["bits_per_s"] // 10**6, *(change["to"] // 10**6 for change in rate["changes"])]
        first = next(first for first in range(6) if found[:6] == [*RATES[first:], *RATES[:first]])
        begins.add(first)
        assert [change["at_ns"] for change in rate["changes"][:2]] == [10**9, 2 * 10**9]
        down = next(element for element in link["a_to_b"] if element["kind"] == "down")
        gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(down["spans_ns"])]
        assert gaps[0] == pytest.approx(5e9)
    assert len(begins) > 2
    assert _measured(question) == ", starlink up with the rates of your table (8 to 16 Mbit/s) from another moment in each"
    summary = Summary(question=question, ranked=None, shared=None, beside={}, left=[], uses="upload", budget="500runs", networks=8)
    assert command(summary) == f"polypath advise --file {office} --for upload --budget 500runs"


def test_what_a_study_has_besides_is_left_out_and_said(office):
    (office / "up.csv").write_text("time,rate,delay\n0s,10mbit,20ms\n1s,8mbit,40ms\n")
    (path,), notes = read(office, "{kind: table, file: up.csv}, {kind: retry, share: 9%, delay: 5ms}")
    assert path.rtt.low == pytest.approx(80e6, rel=0.01)
    assert notes[0] == "office: the paths of the flow f; left out: changes of delay, retry"
