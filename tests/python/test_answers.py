"""What the terminal, the report and `Results.summary` show follows the application."""

import json
import math

import pytest
import yaml

from polypath import Results, Study, run
from polypath.analysis import APPLICATIONS, FAIRNESS, POSSIBLE, path_figures, paths, possible, short_queues, small_buffers
from polypath.results import columns
from polypath.study import cells, scenario

STUDY = """\
name: mixed
topology:
  nodes: {a: , r: {router: true}, s: {router: true}, b: }
  links:
    p1: {ends: [a, r], both: {rate: 20mbit, delay: 10ms, queue: 50packets}}
    p2: {ends: [a, s], both: {rate: 10mbit, delay: 30ms, queue: 50packets}}
    o1: {ends: [r, b], both: {delay: 1ms}}
    o2: {ends: [s, b], both: {delay: 1ms}}
flows:
  call: {client: a, server: b, scheduler: "${s}", app: {kind: constant, rate: 1mbit}}
  voip: {client: a, server: b, transport: udp, app: {kind: constant, rate: 100kbit}, datagram: 160B}
  web: {client: a, server: b, scheduler: "${s}", app: {kind: requests, response: 50KB, pause: 100ms}}
  load: {client: a, server: b, scheduler: "${s}", app: {kind: transfer, size: 1MB}}
  copy: {client: a, server: b, scheduler: "${s}", start: 1s, start_spread: 1s}
duration: 4s
matrix: {s: [default, minrtt]}
seeds: 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    (folder / "mixed.yaml").write_text(STUDY)
    run(Study.load(folder / "mixed.yaml"), out=folder / "results")
    return folder


def shown(polypath, monkeypatch, *arguments):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = polypath(*arguments)
    assert code == 0, err
    return out


def test_each_metric_is_a_column_of_the_runs_and_each_bound_is_known():
    for application in APPLICATIONS:
        assert application.main in application.metrics
        for metric in application.metrics:
            assert metric.column in columns("runs")
            assert metric.best == "" or metric.best in POSSIBLE
            assert metric.meaning and metric.of_a_run and metric.better in ("higher", "lower")
    assert not set(POSSIBLE) & {*columns("runs"), *FAIRNESS}


def test_a_summary_has_of_each_flow_what_its_application_asks_for(folder):
    found = Results.open(folder / "results/mixed").summary()
    assert list(found["n"].unique()) == [2]
    kinds = found.drop_duplicates("flow").set_index("flow")["application"].to_dict()
    assert kinds == {"call": "stream", "voip": "datagrams", "web": "requests", "load": "transfer", "copy": "bulk"}
    for application in APPLICATIONS:
        own = found[found["application"] == application.name]
        assert sorted(own["s"]) == ["default", "minrtt"]
        for metric in application.metrics:
            assert own[metric.column].notna().all(), metric.column
            assert own[f"{metric.column}_ci"].notna().all(), metric.column
    # And nothing of what another application is told by.
    assert found.loc[found["application"] == "bulk", "response_p95_ms"].isna().all()
    results = Results.open(folder / "results/mixed")
    shown = results._repr_html_()
    # A head for each kind of application.
    assert shown.count("<tr") == len(results.summary()) + 5
    assert "<th>response p95, ms</th>" in shown and "<th>goodput, Mbit/s</th>" in shown
    assert "_ci" not in shown and "nan" not in shown.lower()
    runs = Results.open(folder / "results/mixed").summary()
    for application in APPLICATIONS:
        own = runs[runs["application"] == application.name]
        for metric in application.metrics:
            if metric.best:
                ratio = own[metric.column] / own[metric.best]
                # A window may hold one datagram more than its time has: 1 of 250.
                assert (ratio <= 1.005 if metric.better == "higher" else ratio >= 0.999).all(), (metric.column, ratio)
        assert own["of_possible"].between(0.01, 1.005).all()


def test_what_is_possible_follows_from_the_links_and_the_application():
    study = Study.model_validate(yaml.safe_load(STUDY.replace("${s}", "default").replace("matrix: {s: [default, minrtt]}\n", "")))
    found = possible(scenario(cells(study)[0].setup, 1)).set_index("flow")
    links = (20 + 10) * 1424 / 1514
    assert found.loc["call", "possible_mbps"] == 1.0
    assert found.loc["copy", "possible_mbps"] == pytest.approx(links)
    assert found.loc["call", "least_delay_ms"] == 11.0
    # 160 bytes with 28 of headers at 20 Mbit/s.
    assert found.loc["voip", "least_delay_ms"] == pytest.approx(11.0 + 8 * 188 / 20e3)
    assert found.loc["load", "least_completion_s"] == pytest.approx(0.011 + 8 / links)
    assert found.loc["web", "least_response_ms"] == pytest.approx(22.0 + 8 * 50.2 / links)
    assert math.isnan(found.loc["copy", "least_response_ms"])


def test_the_terminal_has_a_table_a_kind_of_application_and_what_is_asked_for(folder, polypath, monkeypatch):
    out = shown(polypath, monkeypatch, "show", folder / "results/mixed")
    tables = out.split("main, on sim: ")[1:]
    assert [table.split()[0] for table in tables] == ["stream", "datagrams", "requests", "transfer", "bulk"]
    for table, application in zip(tables, ("stream", "datagrams", "requests", "transfer", "bulk"), strict=True):
        kind = next(each for each in APPLICATIONS if each.name == application)
        head = table.split("───")[0]
        assert all(metric.head in head for metric in kind.metrics), head
        assert ("at best" in head) == any(metric.better == "lower" for metric in kind.metrics)
        assert "possible" in head and "limited by" in head
    assert "±" in tables[-1]
    out = shown(polypath, monkeypatch, "show", folder / "results/mixed", "--columns", "srtt_ms,jitter")
    assert "srtt_ms" in out and "jitter_ms" in out and "limited by" not in out
    code, _, err = polypath("show", folder / "results/mixed", "--columns", "srtt")
    assert code == 2
    assert err.startswith('polypath: there is no column "srtt" of the runs; did you mean "srtt_ms"?')
    code, _, err = polypath("show", folder / "results/mixed", "--columns", "flow_cc")
    assert (code, err) == (2, 'polypath: the column "flow_cc" holds no numbers, so it has no mean; choose another\n')
    out = shown(polypath, monkeypatch, "show", folder / "results/mixed", "--metric", "delay")
    # Of "delay" each application has its own; others have none.
    assert "stream: least first" in out and "datagrams: least first" in out and "requests" not in out
    stream = out.split("datagrams")[0]
    assert stream.index(" minrtt ") < stream.index(" default ")
    assert "most first" in shown(polypath, monkeypatch, "show", folder / "results/mixed", "--metric", "goodput_receiver_mbps")
    code, _, err = polypath("show", folder / "results/mixed", "--metric", "dellay")
    assert code == 2
    assert 'did you mean "delay"?' in err


def test_the_report_has_a_table_and_a_figure_of_each_application(folder):
    from polypath.report import material, page

    made = page(material(Results.open(folder / "results/mixed")))
    (experiment,) = made.experiments
    assert [answer.title for answer in experiment.answers] == ["Streams at a rate", "Datagrams", "Requests and responses", "Transfers"]
    assert all(answer.bars is not None and len(answer.table.rows) == 2 for answer in experiment.answers)
    assert experiment.bars is not None
    # A study with one experiment needs no name for it.
    assert made.headlines[0].startswith("The cells reach 24.45 ± 4.66 Mbit/s (minrtt · copy) to 24.89 ± 0.89 (default · copy).")
    assert [line.split(":")[0] for line in made.headlines[2:]] == ["Streams at a rate", "Datagrams", "Requests and responses", "Transfers"]
    # Subflows that no route joins are named below the table and have no row.
    assert "Never established and left out: 10.0.1.1 → 10.0.4.2, 10.0.2.1 → 10.0.3.2." in experiment.paths.note
    assert not any("10.0.1.1 → 10.0.4.2" in cell.text for row in experiment.paths.rows for cell in row)


def test_the_bound_and_the_simulator_use_one_rule_for_routes(folder):
    results = Results.open(folder / "results/mixed")
    plain = results.scenario(results.runs["key"].iloc[0])
    known = {flow["name"]: {(path.source, path.destination) for path in paths(plain, flow)} for flow in plain["flows"]}
    up = results.subflows[(results.subflows["key"] == results.runs["key"].iloc[0]) & results.subflows["established_s"].notna()]
    for flow, own in up.groupby("flow"):
        assert {tuple(each.split(":")[0] for each in pair) for pair in zip(own["source"], own["destination"], strict=True)} == known[flow]
    assert known["copy"] == {("10.0.1.1", "10.0.3.2"), ("10.0.2.1", "10.0.4.2")}


def test_paths_are_told_before_anything_runs(folder, polypath, monkeypatch, tmp_path):
    big = STUDY.replace("name: mixed", "name: big").replace("20mbit", "1gbit").replace("delay: 10ms", "delay: 40ms")
    (tmp_path / "big.yaml").write_text(big)
    out = shown(polypath, monkeypatch, "show", tmp_path / "big.yaml")
    paths_told = out.split("paths (of the first cell")[1].split("flows (of")[0]
    assert "10.0.1.1 → 10.0.3.2 │ p1, o1" in paths_told and "10.0.1.1 → 10.0.4.2" not in paths_told
    assert "the receive buffer of `b` ends at 6.0 MiB, and the paths of `copy` need" in paths_told
    assert "the queue of a → r (p1) holds 0.61 ms of packets, and a round trip takes 82 ms" in paths_told
    plain = scenario(cells(Study.load(tmp_path / "big.yaml"))[0].setup, 1)
    # Who answers requests sends; also in the record of a run.
    told = small_buffers(json.loads(json.dumps(plain)))
    assert any(sentence.startswith("the receive buffer of `a` ends at 6.0 MiB, and the paths of `web` need") for sentence in told)
    assert short_queues(path_figures(scenario(cells(Study.load(folder / "mixed.yaml"))[0].setup, 1))) == []
    first = path_figures(plain).query("flow == 'copy'").iloc[0]
    assert (first["rtt_ms"], first["bottleneck"]) == (82.0, "a → r (p1)")
    assert first["bdp_bytes"] == pytest.approx(1e9 * 1424 / 1514 * 0.082 / 8)
    assert first["queue_ms"] == pytest.approx(8e3 * 50 * 1514 / 1e9)
    assert small_buffers(scenario(cells(Study.load(folder / "mixed.yaml"))[0].setup, 1)) == []
