"""The engine host without a kernel."""

import json

import pytest
from fake_engine import FakeEngine
from study_data import STUDY, written

from polypath import EngineError, Study
from polypath.cli._summary import summary
from polypath.engines import HostEngine, _host, _iperf3
from polypath.planner import PlanError
from polypath.report import material as material_of
from polypath.report import page, warnings
from polypath.results import execute, plan

MS = 10**6


class LateEngine(FakeEngine):
    """The fake engine in real time: late in the runs of one seed."""

    real_time = True

    def __init__(self, late_seeds=(2,)):
        super().__init__()
        self.late_seeds = late_seeds

    def run(self, scenario):
        output = super().run(scenario)
        late = scenario["seed"] in self.late_seeds
        why = ["packets left last there 2.0 ms late at the 99th percentile"] if late else []
        figures = {"late_median_us": 20.0, "late_p99_us": 2000.0 if late else 90.0, "late_max_us": 2500.0, "limit_us": 1000.0}
        output.outcome["late"] = {**figures, "untrusted": why}
        return output


@pytest.fixture
def results(tmp_path):
    return execute(plan(written(tmp_path, STUDY), engine=LateEngine(), out=tmp_path))


def test_late_runs_are_told_apart_everywhere(results):
    runs = results.runs
    assert runs.groupby("seed")["trusted"].unique().map(list).to_dict() == {1: [True], 2: [False]}
    assert runs.groupby("seed")["late_p99_ms"].unique().map(list).to_dict() == {1: [0.09], 2: [2.0]}
    made = material_of(results)
    (sentence,) = warnings(made.runs, made.parameters)
    assert sentence.startswith("4 of 8 runs on fake are not to be trusted (up to 2.00 ms late")
    assert "lia · rate 20mbit seed 2" in sentence
    whole = page(made)
    assert whole.headlines[0].startswith("Beware: 4 of 8 runs")
    assert [cell.text for cell in whole.timing.rows[0]][1:] == ["2, 1 not to be trusted", "0.020", "1.045", "2.000", "2.500"]
    assert summary(results) is not None


def test_nothing_is_said_of_engines_that_cannot_be_late(tmp_path):
    made = material_of(execute(plan(written(tmp_path, STUDY), engine=FakeEngine(), out=tmp_path)))
    assert (warnings(made.runs), page(made).timing) == ([], None)
    assert made.runs["trusted"].all()


def test_late_runs_run_again_when_asked_and_replace_the_old_ones(results, tmp_path):
    study = Study.load(tmp_path)
    assert plan(study, engine=LateEngine(), out=tmp_path).pending == ()
    again = plan(study, engine=LateEngine(late_seeds=()), out=tmp_path, again=True)
    assert {run.seed for run in again.pending} == {2}
    assert execute(again).runs["trusted"].all()
    assert plan(study, engine=LateEngine(), out=tmp_path, again=True).pending == ()
    assert not list((results.folder / "runs").glob(".*"))


def direction(link, a_to_b, **figures):
    counters = (
        "packets",
        "bytes",
        "queue_drops",
        "loss_drops",
        "mtu_drops",
        "down_drops",
        "max_queue_packets",
        "missed",
        "overflow",
        "cut",
    )
    late = {"late_median_us": 10.0, "late_p99_us": 50.0, "late_max_us": 90.0, "untrusted": False}
    return {"link": link, "a_to_b": a_to_b, **dict.fromkeys(counters, 0), **late, **figures}


LINKS = {"links": [{"name": "one"}, {"name": "two"}], "series_interval_ns": 200 * MS}


def ran(*directions, flows=(), lost_between_devices=0):
    return {"directions": list(directions), "result": {"flows": list(flows)}, "lost_between_devices": lost_between_devices}


def test_what_was_late_or_lost_is_not_to_be_trusted():
    late = _host._late(ran(direction("one", True, packets=9), direction("one", False, packets=9, late_p99_us=1500.0, untrusted=True)))
    assert (late["late_p99_us"], late["untrusted"]) == (1500.0, ["packets left one back 1.5 ms late at the 99th percentile"])
    lost = ran(direction("one", True, packets=9, missed=2, overflow=1, untrusted=True))
    assert _host._late(lost)["untrusted"] == ["the emulator lost 3 packets on one there"]
    assert _host._late(ran(direction("one", True, late_p99_us=7.0)))["late_p99_us"] == 0, "nothing passed, so nothing was late"

    lost = "this machine lost 7 packets between its devices; enlarge net.core.netdev_max_backlog with sysctl and run it again"
    assert _host._late(ran(lost_between_devices=7))["untrusted"] == [lost]

    def why(late, sent):
        return _host._late(ran(flows=[{"name": "udp", "datagrams_sent": sent, "datagrams_late": late}]))["untrusted"]

    assert why(0, 0) == why(1, 100) == []
    assert why(3, 100) == ["udp sent 3% of its datagrams more than 1 ms late, since the processors had more to do"]


def test_what_each_processor_lost_between_devices_is_counted(tmp_path, monkeypatch):
    file = tmp_path / "softnet_stat"
    file.write_text("0000beef 0000000a 00000003\n00000001 00000001 00000000\n")
    monkeypatch.setattr(_host, "_SOFTNET", file)
    assert _host._lost_between_devices() == 11


def test_queues_are_sampled_at_the_series_own_times():
    samples = [(tick, 10 * tick, 0) for tick in range(6)]
    series = [
        {"link": "two", "a_to_b": True, "samples": samples},
        {"link": "one", "a_to_b": True, "samples": []},
        {"link": "one", "a_to_b": False, "samples": samples},
        {"link": "two", "a_to_b": False, "samples": []},
    ]
    table = _host._link_series(LINKS, 100 * MS, 400 * MS, series)
    rows = list(zip(*(table[name].to_pylist() for name in ("time_ns", "link", "queue_packets")), strict=True))
    assert rows == [(0, 1, 0), (0, 2, 0), (200 * MS, 1, 2), (200 * MS, 2, 2), (400 * MS, 1, 4), (400 * MS, 2, 4)]
    assert _host._link_series({**LINKS, "series_interval_ns": None}, 100 * MS, 400 * MS, series).num_rows == 0


FLOW = {"name": "f", "app": {"kind": "bulk", "duration_ns": 3 * 10**9}}
PLANNED = {"mptcp": False, "port": 5001, "server_address": "10.0.0.2", "client_address": "10.0.0.1", "cc": "pp_lia"}


def said(folder, number, end, intervals, **more):
    report = {"start": {"version": "iperf 3.12"}, "intervals": [{"sum": {"end": at, "bytes": count}} for at, count in intervals], **more}
    (folder / f"{number}-{end}.json").write_text(json.dumps(report))


def test_iperf3_is_told_the_plans_ends_and_amount(monkeypatch):
    monkeypatch.setattr(_iperf3, "release", lambda: (3, 12))
    monkeypatch.setattr(_iperf3.outside, "find", lambda name: f"/usr/bin/{name}")
    made = _iperf3.programs(1, PLANNED, FLOW)
    words = " ".join(made["client"])
    assert words.startswith("iperf3 --client 10.0.0.2 --port 5001 --bind 10.0.0.1 --cport 7002 --congestion pp_lia")
    assert (words.endswith("--time 3"), made["client_port"]) == (True, 7002)
    size = {**FLOW, "app": {"kind": "transfer", "bytes": 77}}
    assert _iperf3.programs(0, {**PLANNED, "mptcp": True}, size)["client"][:3] == ["mptcpize", "run", "iperf3"]
    assert _iperf3.programs(0, PLANNED, size)["client"][-2:] == ["--bytes", "77"]
    monkeypatch.setattr(_iperf3, "release", lambda: (3, 19))
    new = _iperf3.programs(0, {**PLANNED, "mptcp": True}, FLOW)
    assert (new["client"][0], new["server"][-1]) == ("iperf3", "--mptcp")
    with pytest.raises(PlanError, match="iperf3 sends for whole seconds"):
        _iperf3.programs(0, PLANNED, {**FLOW, "app": {"kind": "bulk", "duration_ns": 1}})
    monkeypatch.setattr(_iperf3, "release", lambda: (3, 12))
    monkeypatch.setattr(_iperf3.outside, "find", lambda name: None)
    wanted = r"iperf3 3\.12 opens no MPTCP sockets, and mptcpize is missing: install the Debian package mptcpize"
    with pytest.raises(PlanError, match=wanted):
        _iperf3.programs(0, {**PLANNED, "mptcp": True}, FLOW)


def test_what_iperf3_counted_is_taken_and_what_went_wrong_is_said(tmp_path):
    got = {"error": "iperf3 ended with exit status: 1", "subflows": []}
    with pytest.raises(EngineError, match="flow f: iperf3 did not end in time"):
        _iperf3.read(0, FLOW, got, tmp_path)
    said(tmp_path, 0, "server", [])
    said(tmp_path, 0, "client", [], error="unable to connect to server")
    with pytest.raises(EngineError, match="flow f: iperf3: unable to connect to server"):
        _iperf3.read(0, FLOW, got, tmp_path)
    said(tmp_path, 0, "client", [])
    with pytest.raises(EngineError, match="opened no connection that carried data"):
        _iperf3.read(0, FLOW, {**got, "error": None}, tmp_path)
    said(tmp_path, 0, "server", [(0.1, 1000), (0.2, 500)])
    said(tmp_path, 0, "client", [(0.1, 2000)])
    got = {"error": None, "subflows": [{"established_ns": None}, {"established_ns": 200 * MS}]}
    assert _iperf3.read(0, {**FLOW, "app": {"kind": "transfer", "bytes": 1500}}, got, tmp_path) == "iperf3 3.12"
    assert got["read"] == [(300 * MS, 1000), (400 * MS, 1500)]
    assert (got["written"], got["accepted_ns"], got["finished_ns"]) == ([(300 * MS, 2000)], 200 * MS, 400 * MS)


def test_the_engine_has_this_machines_kernel_and_finds_what_it_lacks():
    nodes = {"c": {"sysctl": {"net.ipv4.tcp_no_such": 1}}, "s": None}
    links = {"only": {"ends": ["c", "s"], "both": {"rate": "1mbit", "delay": "1ms"}}}
    flows = {"f": {"client": "c", "server": "s"}}
    study = Study.model_validate({"name": "x", "topology": {"nodes": nodes, "links": links}, "flows": flows, "duration": "1s"})
    (cell,) = study._cells
    wrong = 'namespace c: setting net.ipv4.tcp_no_such to "1": No such file or directory (os error 2)'
    assert _host._where_of(cell, wrong) == ("topology", "nodes", "c", "sysctl", "net.ipv4.tcp_no_such")
    assert _host._where_of(cell, "something else") == ("topology",)
    engine = HostEngine()
    assert engine.kernels() == [engine.only_kernel]
    assert engine.versions("6.1")("6.1").startswith(engine.only_kernel)
    assert engine.workers == 1
