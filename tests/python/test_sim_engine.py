"""The simulator behind Python."""

import json
import sys
from itertools import pairwise

import pytest
from fake_engine import FakeEngine
from study_data import STUDY, changed, written

from polypath import Study, StudyError, _native
from polypath.analysis import rates
from polypath.analysis._network import asked
from polypath.cli import _bench_linux
from polypath.engines import SimEngine
from polypath.results import execute, plan
from polypath.study import runs

# Random loss and a drawn start: whatever is not repeated exactly shows here.
LOSSY = changed(("rate: 100mbit, delay: 2ms", "rate: 100mbit, delay: 2ms, loss: 0.5%"), ("duration: 20s", "duration: 3s"))


def tables(folder):
    return {file.name: file.read_bytes() for file in sorted(folder.glob("*.parquet"))}


def test_two_runs_of_a_study_are_the_same_bytes_for_any_number_of_workers(tmp_path):
    study = written(tmp_path / "study", LOSSY)
    first, second = (execute(plan(study, engine=SimEngine(), out=tmp_path / str(n)), workers=n) for n in (1, 3))
    assert tables(first.folder) == tables(second.folder)
    by_seed = first.runs.groupby("seed")["bytes_received"].sum()
    assert by_seed[1] != by_seed[2], "another seed is another run"


def test_links_flows_and_delays_are_what_the_study_says(tmp_path):
    study = written(tmp_path / "study", LOSSY)
    results = execute(plan(study, engine=SimEngine(), out=tmp_path, only={"cc": ["lia"], "rate": ["10mbit"]}))
    assert 0 < results.runs["goodput_receiver_mbps"].max() < 60
    assert set(results.links["link"]) == {"first", "second", "last"}
    assert results.links.query("link == 'last'")["loss_drops"].sum() > 0
    assert results.series["cwnd"].max() > 10
    assert len(results.baselines) == 4
    slower = results.baselines.groupby("client_address")["goodput_receiver_mbps"].mean()
    assert slower["10.0.2.1"] < 10 < slower["10.0.1.1"]
    runs = results.runs
    assert (runs["byte_delay_p50_ms"] > 2).all(), "no byte is faster than the first path"
    ordered = [runs[f"byte_delay_{part}_ms"] for part in ("p50", "p95", "p99", "max")]
    assert all((low <= high).all() for low, high in pairwise(ordered))
    assert runs["out_of_order_share"].between(0, 1, inclusive="neither").all(), "two unequal paths"
    assert (runs["out_of_order_mean_bytes"] <= runs["out_of_order_max_bytes"]).all()
    assert (runs["hol_blocked_s"] < 3).all()
    most = runs.set_index("key")["out_of_order_max_bytes"]
    waiting = results.progress.groupby("key")["out_of_order_bytes"].max()[most.index]
    assert (waiting > 0).all() and (waiting <= most).all()


def laminar(kernel):
    """A client of three links, of which two are kept for the second address of the server."""
    links = {name: {"ends": ends, "both": {"rate": "10mbit", "delay": "5ms"}} for name, ends in (("a", "cr"), ("b", "cr"), ("g", "cr"))}
    links |= {name: {"ends": ["r", "s"], "both": {"delay": "1ms"}} for name in ("d", "e")}
    addresses = [{"address": "10.0.3.1", "laminar": True, "backup": True}, {"address": "10.0.2.1", "laminar": True}]
    flow = {"client": "c", "server": "s", "path_manager": {"kind": "endpoints", "addresses": addresses}}
    topology = {
        "nodes": {"c": None, "r": {"router": True}, "s": None},
        "links": {k: {**v, "ends": list(v["ends"])} for k, v in links.items()},
    }
    study = {"name": "laminar", "topology": topology, "flows": {"f": flow}, "duration": "2s", "seeds": [1], "baselines": None}
    return Study.model_validate({**study, "kernel": kernel})


def test_one_laminar_endpoint_answers_an_announced_address(tmp_path):
    study = laminar("7.3")
    results = execute(plan(study, engine=SimEngine(), out=tmp_path))
    ends = [results.subflows[end].str.partition(":")[0] for end in ("source", "destination")]
    joined = [("10.0.1.1", "10.0.4.2"), ("10.0.3.1", "10.0.5.2")]
    assert list(zip(*ends, strict=True)) == joined
    (run,) = runs(study, engine="sim", version=lambda kernel: kernel)
    assert asked(run.scenario, run.scenario["flows"][0]) == joined
    received = results.subflows["bytes_acked"].tolist()
    assert received[0] > 1_000_000 and received[1] == 0, "it is a backup"


def test_a_kernel_without_laminar_endpoints_is_told_by_the_field(tmp_path):
    told = r"flows\.f\.path_manager: it has laminar endpoints, which came with Linux 6\.18, and `c` is Linux 6\.12\.117"
    with pytest.raises(StudyError, match=told):
        plan(laminar("6.12"), engine=SimEngine(), out=tmp_path)


def test_errors_of_the_compiled_module_say_whose_fault_it_is_and_where():
    with pytest.raises(ValueError, match="the scenario cannot be read: ") as error:
        _native.simulate("{}")
    assert "\n" not in str(error.value)
    scenario = {"seed": 1, "duration_ns": 1, "series_interval_ns": 0, "nodes": [], "links": [], "flows": []}
    with pytest.raises(_native.CallerError, match="give an interval, or leave it out") as error:
        _native.simulate(json.dumps(scenario))
    assert error.value.field == ("series_interval_ns",)
    release, _, sources = _native.version().partition("+")
    assert release.count(".") == 2
    assert len(sources) == 16
    assert int(sources, 16)


def test_a_scenario_that_an_engine_refuses_after_all_names_the_run(tmp_path):
    # Whatever the check at load has let through.
    def refuse(scenario):
        raise ValueError("node `client`: nonsense")

    study = written(tmp_path / "study", STUDY)
    with pytest.raises(
        StudyError, match=r"(?m)^small: node `client`: nonsense \(in the runs main, cc=lia, rate=20mbit, seed 1; .*; and in 8 others\)$"
    ):
        execute(plan(study, engine=FakeEngine(before=refuse), out=tmp_path), workers=1)


def test_bench_measures_every_case(polypath):
    code, out, _ = polypath("bench", "--json", "--repeat", "1", "tcp-200-1hop")
    measured = json.loads(out)
    assert code == 0 and measured["bare_queue_ns_per_event"] > 0
    (case,) = measured["cases"]
    names = {"name", "packets_per_s", "transmissions_per_s", "events_per_packet", "wall_s", "rss_mb", "bare_events_per_packet"}
    assert set(case) == names
    # One hop each way: a packet of data, and an ACK for each two.
    assert 1.4 < case["transmissions_per_s"] / case["packets_per_s"] < 2
    assert case["bare_events_per_packet"] == pytest.approx(1e9 / case["packets_per_s"] / measured["bare_queue_ns_per_event"])
    assert case["packets_per_s"] > 1000
    # This case without series stays below 50 MB with the interpreter around it.
    assert 5 < case["rss_mb"] < 50


def test_another_polypath_is_measured_beside_this_one(polypath):
    code, out, _ = polypath("bench", "tcp-tunnel-mpt", "--pair", sys.executable, "--repeat", "1", "--json")
    measured = json.loads(out)
    (case,) = measured["cases"]
    assert (code, measured["pairs"], case["name"], case["same_work"]) == (0, 1, "tcp-tunnel-mpt", True)
    assert case["least"] == case["times_as_fast"] == case["most"] > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--pair", "/nowhere/python"), "--pair /nowhere/python: No such file or directory; name the Python that the other Polypath is in"),
        (("--pair", "false"), "--pair false: no Polypath is installed there; name the Python that the other one is installed in"),
        (("--pair", "python3", "--engine", "linux"), "--pair compares simulators on cases; leave out --engine linux, or --pair"),
        (("--pair", "python3", "--cc", "all"), "--pair compares simulators on cases; leave out --cc, or --pair"),
    ],
)
def test_what_cannot_be_measured_in_pairs_is_said(polypath, words, sentence):
    code, _, err = polypath("bench", *words)
    assert code == 2 and sentence in err


@pytest.mark.parametrize("name", [*_bench_linux.CASES, "start"])
def test_cases_of_the_engine_linux_can_be_run(name):
    engine = SimEngine()
    (run,) = runs(_bench_linux.case(name), engine=engine.name, version=engine.versions())
    output = engine.run(run.scenario)
    assert output.outcome["flows"][0]["bytes_received"] > 0 or name == "start"


def test_no_subflow_receives_more_than_its_link_carries(tmp_path):
    links = {
        "a": {"ends": ["c", "s"], "both": {"rate": "10mbit", "delay": "20ms", "queue": "1000packets"}},
        "b": {"ends": ["c", "s"], "both": {"rate": "20mbit", "delay": "40ms", "queue": "900packets", "loss": "0.1%"}},
    }
    flow = {"client": "c", "server": "s", "transport": "mptcp", "cc": "reno"}
    given = {"name": "holes", "topology": {"nodes": {"c": None, "s": {"addresses": ["10.9.0.1"]}}, "links": links}, "flows": {"f": flow}}
    study = Study.model_validate({**given, "duration": "20s", "seeds": 3, "baselines": None})
    results = execute(plan(study, engine=SimEngine(), out=tmp_path))
    ends = results.subflows[results.subflows["established_s"].notna()]
    capacity = ends.assign(rate=ends["source"].str.startswith("10.0.1.").map({True: 10.0, False: 20.0}))
    capacity = capacity.set_index(["key", "subflow"])["rate"]
    received, acked = (rates(results.series, ["key", "subflow"], name).set_index(["key", "subflow"])["mbps"] for name in _COUNTED)
    # A packet of 1514 bytes may fall into one half second or the next.
    most = capacity.loc[received.index] * 1424 / 1514 + 1514 * 8e-6 / 0.5
    assert (received.to_numpy() <= most.to_numpy()).all()
    assert received.to_numpy().max() > 5
    assert acked.to_numpy().max() > 30, "slow start leaves large holes: once filled, they are acknowledged at once"
    last = results.series.groupby(["key", "subflow"])[list(_COUNTED)].last()
    assert ((last["bytes_received"] - last["bytes_acked"]).abs() < 0.05 * last["bytes_acked"].clip(lower=1e6)).all()


_COUNTED = ("bytes_received", "bytes_acked")
