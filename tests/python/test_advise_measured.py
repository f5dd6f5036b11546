"""The advisor on lines that were measured over time, and what calls lose in their outages."""

import itertools

import pytest
from study_data import written

from polypath.advise import AdviceError, Question, Setting, linux_default, path_in_words, paths_of_file, weighted
from polypath.advise._answer import _measured, answer
from polypath.advise._conclusion import Summary, command
from polypath.advise._harm import harm
from polypath.advise._ranking import ranking
from polypath.advise._score import score
from polypath.advise._study import study
from polypath.advise._uses import figures
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


def flow(name, loss, p95_ms):
    return {"name": name, "datagrams": {"loss": loss, "delay": {"p95_ns": p95_ms * 1e6}}}


def test_what_is_lost_counts_beside_the_delay_of_what_arrived():
    weights = weighted("call")
    outcome = {"flows": [flow("call-up", 0.1, 20), flow("call-down", 0.002, 30)]}
    found = figures(weights, outcome, 10)
    assert found == {"call": 30, "call loss": 0.1}
    assert figures(weights, {"flows": [{"name": "call-up", "datagrams": {"loss": 0.0, "delay": None}}]}, 10)["call loss"] == 1
    # As if the delay were ten times as long; up to 1 % costs nothing.
    assert score(found, weights) == pytest.approx(score({"call": 300}, weights))
    assert score({"call": 30, "call loss": 0.01}, weights) == score({"call": 30}, weights)


def test_the_answer_says_what_a_call_loses_and_what_outages_cost_it():
    paths = tuple(path_in_words(text, 1 + number) for number, text in enumerate(("a: 9mbit 20ms outage 300ms every 15s", "b: 9mbit 20ms")))
    default, shaped = linux_default(paths), Setting(paths="all", cc="bbr", shaped=True)
    tunnel = Setting(paths="all", cc="bbr", tunnel="earliest")
    calls = {default: (80, 0.03), shaped: (20, 0.021), tunnel: (60, 0.003)}
    rows = {setting.name: [{"call": delay, "call loss": lost}] * 3 for setting, (delay, lost) in calls.items()}
    beside = {default.name: {"call": 70, "call loss": 0.174}, shaped.name: {"call": 65, "call loss": 0.005}}
    no_harm = harm([{1: 1.0}], [{1: 1.0}])
    found = ranking(list(calls), default, rows, weighted("call"), dict.fromkeys(rows, no_harm), beside)
    assert found.advice.setting == shaped

    def written(setting, name, where):
        figure = (beside[setting.name] if where == "with-neighbours" else rows[setting.name][0])[name]
        return f"{100 * figure:.1f} %" if name == "call loss" else f"{figure}"

    told = " ".join(answer(Question(paths=paths, weights=weighted("call")), found, beside, 3, written))
    assert "that gives call 20 ms with 2.1 % lost; Linux by itself gives call 80 ms with 3.0 % lost." in told
    assert "(a delay counts once for each per cent lost)" in told
    assert "it is call 65 ms (Linux by itself: call 70 ms with 17.4 % lost)" in told
    outages = "With the outages of a (300ms every 15s) call loses 2.1 % of its datagrams with the advice"
    assert f"{outages}; in the best tunnel, tunnel-earliest-bbr, call loses 0.3 %." in told
    assert "in the best setting of those tried, with cubic or bbr inside, tunnel-earliest-bbr" in told


def test_a_measured_line_in_words_is_told_where_it_goes_and_mbps_is_what_providers_mean():
    with pytest.raises(AdviceError, match=r"up\.csv is a file: a measured line stands in a study, .* and --file takes that"):
        path_in_words("a: 150mbit/up.csv 40ms", 1)
    for text in ("150/15Mbps 40ms", "150Mbps/15Mbps 40ms", "150/15 Mbps 40 ms"):
        path = path_in_words(text, 1)
        assert (path.down.low, path.up.low) == (150e6, 15e6)
