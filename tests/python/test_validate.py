"""polypath validate."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from polypath.validate import Selection, TableError, UnknownRunError, build, parse, read, to_json, validate
from polypath.validate._judge import judge
from polypath.validate._run import run, scenario_key, simulate

DATA = Path(__file__).parent.parent / "data"


def outcome(*flows):
    return {"flows": [{"established_ns": 1, "completion_ns": None, "subflows": [], **flow} for flow in flows]}


def cell(name, flow="c", file="summary-v1.csv"):
    return next(c for c in read(DATA / file) if c.id == name and c.flow == flow)


# Names to set-ups: figures that no file of ours holds, so parsed and not looked up.


def test_names_of_runs_say_their_set_ups():
    setup = parse("a_rtt50_loss0.5_reno_r3")
    (path,) = setup.paths
    assert (path.rate, path.queue, path.fwd_ms, path.rev_ms, path.loss) == (100_000_000, 417, 25, 25, 0.5)
    assert (setup.id, setup.repeat, setup.group, setup.kernel, setup.cc) == ("a_rtt50_loss0.5_reno", 3, "a", "6.12", "reno")
    assert setup.window_s == (5, 30)
    mptcp, tcp = parse("c_q55_lia"), parse("v0_c_q55_tcp_lia")
    assert mptcp.last is not None
    assert mptcp.last.queue == 55
    assert [flow.mptcp for flow in (mptcp.flows[0], tcp.flows[0])] == [True, False]
    assert (mptcp.kernel, tcp.kernel) == ("6.12", "5.4-mptcp")
    setup = parse("d_defbuf_delay35_cubic")
    assert [(path.fwd_ms, path.rev_ms) for path in setup.paths] == [(36, 36), (1, 1)]
    assert setup.buffers == (6_291_456, 4_194_304)
    assert parse("d_delay35_cubic").buffers == (16_777_216, 16_777_216)
    assert [parse(name).cc for name in ("b_cubic_vs_bic", "v0_f_lia_vs_reno_r1", "v0_s_ecf_delay20")] == ["bic", "lia", "cubic"]
    setup = parse("v0_e_mptcp_9000+1500_base512_icmpdrop_cubic")
    assert [(path.mtu, path.mtu_mid) for path in setup.paths] == [(9000, None), (9000, 1500)]
    assert setup.sysctl == {"net.ipv4.tcp_mtu_probing": 1, "net.ipv4.tcp_base_mss": 512}
    assert not setup.icmp
    assert parse("e_tcp_1500mid_probe2_icmpok").icmp


def test_flows_start_one_after_the_other():
    starts = [[flow.start_s for flow in parse(name).flows] for name in ("f_reno", "f_reno_r2", "v0_f_lia_vs_reno_r3")]
    assert starts == [[0, 0], [0, 0.37], [0, 1.3]]
    with pytest.raises(UnknownRunError, match="repeat 4"):
        parse("f_reno_r4")
    setup = parse("v0_n3_olia_vs_4tcp")
    assert setup.ndiffports == 3
    assert [flow.start_s for flow in setup.flows] == [0, 0.13, 0.26, 0.39, 0.52]
    assert [flow.cc for flow in setup.flows] == ["olia", "reno", "reno", "reno", "reno"]


@pytest.mark.parametrize("name", ["", "x_rtt20_reno", "a_rtt_reno", "v0_n_lia_vs_1tcp", "e_mptcp_1280+1500", "a_rtt20_reno_rx"])
def test_other_names_are_refused_with_a_sentence(name):
    with pytest.raises(UnknownRunError):
        parse(name)


# Set-ups to scenarios.


def links(scenario):
    return {link["name"]: link for link in scenario["links"]}


def test_set_ups_become_links_and_subflows():
    scenario = build(parse("a_rtt20_loss1_reno_r2"))
    net = links(scenario)
    assert net["c-p1a"]["a_to_b"] == [{"kind": "delay", "delay_ns": 10_000_000}]
    assert net["p1a-s"]["a_to_b"] == [
        {"kind": "loss", "model": "bernoulli", "probability": 0.01},
        {"kind": "rate", "bits_per_s": 100_000_000, "queue": {"packets": 167}},
    ]
    assert net["p1a-s"]["b_to_a"] == [{"kind": "delay", "delay_ns": 10_000_000}]
    assert scenario["seed"] == 2
    assert scenario["flows"][0]["window_ns"] == [5_000_000_000, 30_000_000_000]
    net = links(build(parse("v0_nitk_wvegas_r1")))
    for name, delay_ms, rate in (("c-h2-1", 5, 50), ("c-h2-2", 10, 50), ("h2-s", 2, 10)):
        chain = [
            {"kind": "delay", "delay_ns": delay_ms * 1_000_000},
            {"kind": "rate", "bits_per_s": rate * 1_000_000, "queue": {"packets": 1000}},
        ]
        assert net[name]["a_to_b"] == net[name]["b_to_a"] == chain
    silent, heard = (links(build(parse(f"e_tcp_1500mid_probe0_icmp{what}")))["p1a-s"] for what in ("drop", "ok"))
    assert silent["a_to_b"][0] == {"kind": "mtu", "bytes": 1500, "oversize": "silent"}
    assert (silent["a"]["mtu"], silent["b"]["mtu"]) == (9000, 9000)
    assert (heard["a"]["mtu"], heard["b"]["mtu"]) == (1500, 9000)
    scenario = build(parse("v0_n2_lia_vs_3tcp"))
    addresses = [end["address"] for link in scenario["links"] for end in (link["a"], link["b"])]
    assert len(set(addresses)) == len(addresses) == 2 * (1 + 2 * 4)
    assert [flow["name"] for flow in scenario["flows"]] == ["c1", "c2", "c3", "c4"]
    v1, v0 = build(parse("d_delay10_reno"))["flows"][0], build(parse("v0_d_delay10_reno"))["flows"][0]
    assert v1["mptcp"] == {"path_manager": {"kind": "endpoints", "addresses": [{"address": "10.12.1.1"}]}}
    assert v0["mptcp"] == {"path_manager": {"kind": "fullmesh"}}


def test_repeats_have_seeds_or_starts_of_their_own():
    # Losses are not all that is drawn: cdg, bbr and nv draw too.
    names = ("d_loss1_reno_r2", "a_rtt100_cdg_r3", "v0_nitk_lia_r3", "f_cdg_r2", "b_cubic_vs_nv_r3")
    assert [build(parse(name))["seed"] for name in names] == [2, 3, 3, 1, 1]
    assert scenario_key(parse("f_cdg_r2")) != scenario_key(parse("f_cdg"))
    setups = {name: parse(name) for name in ("a_rtt100_cdg", "a_rtt100_cdg_r2", "a_rtt20_reno", "a_rtt20_reno_r2")}
    results = simulate(setups.values())
    rates = {}
    for name, setup in setups.items():
        outcome = results[scenario_key(setup)]
        assert isinstance(outcome, tuple)
        rates[name] = outcome[0]["flows"][0]["goodput_receiver_bps"]
    assert rates["a_rtt100_cdg"] != rates["a_rtt100_cdg_r2"]
    assert rates["a_rtt20_reno"] == rates["a_rtt20_reno_r2"]


# Tables.


def test_rows_of_tables_form_cells(tmp_path):
    first, second = (cell("f_cubic", flow) for flow in ("c1", "c2"))
    assert [row.mbps for row in first.rows] == [11.725, 13.501, 13.482]
    assert first.mbps == pytest.approx(12.9027, abs=1e-4)
    assert first.spread == pytest.approx(12.9027 - 11.725, abs=1e-4)
    assert second.rows[0].mbps == 7.203
    file = tmp_path / "summary.csv"
    file.write_text("platform,id,group,flow,cc,dur,win,goodput_mbps\numl,a_rtt20_reno_iperf3,a,c,reno,40,0-40,95\n")
    (setup,) = read(file)[0].setups
    assert (setup.duration_s, setup.window_s) == (40, (0, 40))
    file.write_text("platform,id,group,flow,cc,goodput_mbps\nqemu,a_rtt20_reno,a,c,reno,90\numl,a_rtt20_reno,a,c,reno,95\n")
    assert [c.mbps for c in read(file)] == [95]
    assert [c.mbps for c in read(file, platform="qemu")] == [90]
    with pytest.raises(TableError, match="no rows of platform arm: it has qemu, uml"):
        read(file, platform="arm")
    cells = read(DATA / "summary-v1.csv")
    assert {c.id for c in cells if c in Selection(groups=("a",), algorithms=("reno",))} == {"a_rtt20_reno", "a_rtt20_loss1_reno"}
    assert {c.id for c in cells if c in Selection(ids=("*_q20_*",))} == {"c_q20_reno", "c_q20_tcp_reno"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,b\n1,2\n", "lacks the columns platform, id, group, flow, cc, goodput_mbps"),
        ("platform,id,group,flow,cc,goodput_mbps\n", "has no rows"),
        ("platform,id,group,flow,cc,goodput_mbps\numl,a_rtt20_reno,a,c,reno,fast\n", "'fast', not a number"),
        ("platform,id,group,flow,cc,goodput_mbps\numl,a_rtt20_reno,a,c,reno,inf\n", "'inf', not a number from 0 on"),
        ("platform,id,group,flow,cc,goodput_mbps\n" + 2 * "uml,a_rtt20_reno,a,c,reno,1\n", "a_rtt20_reno stands there twice"),
        ("platform,id,group,flow,cc,goodput_mbps,dur\numl,a_rtt20_reno,a,c,reno,1,1e9\n", "'1e9' and None, not like '30' and '5-30'"),
        ("platform,id,group,flow,cc,goodput_mbps\numl,a_rtt20_reno,a,c,reno,95,5\n", ":2: it has more fields than the first line"),
        ("platform,id,group,flow,cc,goodput_mbps\numl,a_rtt20_reno,a\n", ":2: it has fewer fields than the first line"),
        ("platform,id,group,flow,cc,goodput_mbps\numl,a_rtt20_reno,a,c,bbr,9\n", "'bbr', and by its name it is 'reno'"),
        ("platform;id;group;flow;cc;goodput_mbps\n", "commas part columns, not semicolons"),
        ("platform,id,group,flow,cc,goodput_mbps\numl,a_rtt20_reno,a,c,reno,\n", "has no goodput_mbps"),
        ("platform,id,group,flow,cc,goodput_mbps,win\numl,a_rtt20_reno,a,c,reno,5,all\n", "not like '30' and '5-30'"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path, text, sentence):
    file = tmp_path / "summary.csv"
    file.write_text(text)
    with pytest.raises(TableError, match=sentence):
        read(file)


# Verdicts.


def test_ten_percent_is_the_limit_or_what_linux_repeats_differ_by():
    one = cell("a_rtt20_reno")  # 95.533 Mbit/s, one repeat
    verdicts = [judge(one, [outcome({"name": "c", "goodput_receiver_bps": 95.533e6 * share})]) for share in (0.9, 1.1, 0.899, 1.101)]
    assert [verdict.agrees for verdict in verdicts] == [True, True, False, False]
    assert verdicts[2].error == pytest.approx(-0.101)
    one = cell("f_cubic", "c2")  # 7.203, 5.430, 5.436: mean 6.023, largest distance 1.180
    verdicts = [judge(one, [outcome({"name": "c2", "goodput_receiver_bps": mbps * 1e6})] * 3) for mbps in (7.2, 7.21)]
    assert [verdict.agrees for verdict in verdicts] == [True, False]
    assert verdicts[0].why == "within the spread of Linux's repeats, 1.18 Mbit/s"


def test_transfers_and_round_trips_are_judged():
    one = cell("v0_done_olia", file="summary-v0.csv")  # 4.809 s
    verdict = judge(one, [outcome({"name": "c", "goodput_receiver_bps": 0.0, "completion_ns": 5_000_000_000})] * 2)
    assert verdict.sim_mbps == pytest.approx(96.0)
    assert verdict.agrees
    assert verdict.why == "completion 5.000 s, Linux 4.809 s"
    unfinished = judge(one, [outcome({"name": "c", "goodput_receiver_bps": 9e7})] * 2)
    assert (unfinished.agrees, unfinished.why) == (False, "the simulated transfer did not finish")
    subflows = [{"source": "10.11.1.1:40000", "mean_srtt_us": 33_000.0}]
    flow = {"name": "c", "goodput_receiver_bps": 9e7, "subflows": subflows}
    plain, lossy = judge(cell("a_rtt20_reno"), [outcome(flow)]), judge(cell("a_rtt20_loss1_reno"), [outcome(flow)] * 3)
    assert (plain.linux_srtt_ms, plain.sim_srtt_ms, plain.srtt_agrees) == (30.82, 33.0, True)
    assert (lossy.linux_srtt_ms, lossy.srtt_agrees) == (None, None)


def test_a_run_that_cannot_be_simulated_counts_in_neither():
    good = judge(cell("a_rtt20_reno"), [outcome({"name": "c", "goodput_receiver_bps": 95e6})])
    bad = judge(cell("a_rtt20_cdg"), "unknown algorithm cdg")
    report = to_json([good, bad])
    assert (report["agree"], report["of"]) == (1, 1)
    assert report["rows"][1] == {
        "id": "a_rtt20_cdg",
        "flow": "c",
        "linux_mbps": bad.cell.mbps,
        "sim_mbps": None,
        "error": None,
        "agrees": None,
        "why": "unknown algorithm cdg",
    }
    assert list(report["rows"][0]) == ["id", "flow", "linux_mbps", "sim_mbps", "error", "agrees", "why"]


def test_a_simulator_that_breaks_on_one_run_does_not_hide_the_others():
    class Panic(BaseException):
        pass

    def simulator(scenario):
        if json.loads(scenario)["flows"][0]["cc"] == "cubic":
            raise Panic("index out of bounds")
        return json.dumps(outcome({"name": "c", "goodput_receiver_bps": 1.0})), {}, {}

    setups = [parse("a_rtt20_cubic"), parse("a_rtt20_reno")]
    results = simulate(setups, simulator=simulator)
    assert results[scenario_key(setups[0])] == "index out of bounds"
    assert isinstance(results[scenario_key(setups[1])], tuple)


# With the real simulator.


def app():
    made = typer.Typer()
    made.command()(validate)
    return made


def test_one_flow_over_one_path_agrees_with_linux(tmp_path):
    table = tmp_path / "summary.csv"
    table.write_text((DATA / "summary-v1.csv").read_text().replace("cdg", "remy"))
    verdicts = run(table, selection=Selection(ids=("a_rtt20_reno", "a_rtt20_remy")))
    by_name = {verdict.cell.id: verdict for verdict in verdicts}
    assert by_name["a_rtt20_reno"].agrees
    assert by_name["a_rtt20_remy"].agrees is None
    assert "remy" in (by_name["a_rtt20_remy"].why or "")


def test_the_command_prints_json_and_refuses_in_one_sentence(tmp_path):
    done = CliRunner().invoke(app(), [str(DATA / "summary-v1.csv"), "--id", "a_rtt20_reno", "--json"])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert {"rows", "agree", "of"} <= set(report)
    assert report["groups"] == {"a": {"agree": 1, "of": 1, "srtt_agree": 1, "srtt_of": 1}}
    assert [row["id"] for row in report["rows"]] == ["a_rtt20_reno"]
    table = CliRunner().invoke(app(), [str(DATA / "summary-v1.csv"), "--id", "a_rtt20_reno", "--markdown"]).stdout
    assert table.splitlines()[2:] == ["| a | 1 of 1 | 100 % | 1 of 1 | 100 % |", "| all | 1 of 1 | 100 % | 1 of 1 | 100 % |"]
    missing = CliRunner().invoke(app(), [str(tmp_path / "none.csv")])
    assert (missing.exit_code, missing.stderr.count("\n")) == (2, 1)
    nothing = CliRunner().invoke(app(), [str(DATA / "summary-v1.csv"), "--group", "z"])
    assert (nothing.exit_code, nothing.stdout) == (2, "")
    assert 'there is no group "z"; there are a, ' in nothing.stderr
    table = tmp_path / "my.csv"
    table.write_text("platform,id,group,flow,cc,goodput_mbps\numl,my-own-run,x,c,reno,9.1\n")
    done = CliRunner().invoke(app(), [str(table)])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"polypath: {table}: 1 of 1 rows are not judged, since no set-up is known for my-own-run: names tell")


def test_the_area_between_windows_is_a_share_of_the_area_under_them():
    from polypath.validate._figure import window_areas

    def curve(line, who, window):
        return pd.DataFrame({"time": np.arange(0, 10, 0.1), "line": line, "cwnd": window, "srtt": 1.0, "who": who})

    curves = pd.concat([curve("c 1", "Linux", 100), curve("c 1", "simulated", 60), curve("c 2", "Linux", 7)])
    assert window_areas(curves) == {"c 1": pytest.approx(40 / 80)}
