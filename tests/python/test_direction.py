"""`direction`: who sends, whoever opened the connection."""

import pytest
from study_data import written
from wrong_inputs import BASE, SHAPE, changed

from polypath import Results, Study, StudyError, run
from polypath.analysis import path_bounds
from polypath.planner import build
from polypath.results import plan
from polypath.study import cells, scenario

# 10 Mbit/s to the server and 40 Mbit/s to the client.
LINE = "both: {rate: 10mbit, queue: 50packets, delay: 5ms}"
ASYMMETRIC = "forward: {rate: 10mbit, queue: 50packets, delay: 5ms}, backward: {rate: 40mbit, queue: 150packets, delay: 5ms}"


def study(folder, *changes):
    file = folder / "study.yaml"
    file.write_text(changed(((LINE, ASYMMETRIC), *changes)))
    return Study.load(file)


def of(flow):
    return ("transport: tcp", f"transport: tcp, {flow}")


def test_a_download_is_as_fast_as_the_way_to_the_client(tmp_path):
    upload = run(study(tmp_path), out=tmp_path / "up").summary()
    download = run(study(tmp_path, of("direction: download")), out=tmp_path / "down").summary()
    for found, rate in ((upload, 10.0), (download, 40.0)):
        assert found["possible_mbps"].unique() == pytest.approx([rate * 1448 / 1514])
        assert found["of_possible"].between(0.85, 1.001).all(), found["of_possible"]
    results = run(study(tmp_path, of("direction: both")), out=tmp_path)
    assert sorted(results.runs["flow"].unique()) == ["f-down", "f-up"]
    assert results.runs["group"].unique() == ["f"]
    means = results.runs.groupby("flow")["goodput_receiver_mbps"].mean()
    # Each way is full but for the acknowledgements of the other.
    assert means["f-up"] > 6.0 and means["f-down"] > 25.0
    made = study(tmp_path, of("direction: download"))
    bound = path_bounds(scenario(cells(made)[0].setup, 1)).iloc[0]
    assert (bound["source"], bound["destination"], bound["bottleneck"]) == ("10.0.2.2", "10.0.1.1", "b → r (l2)")
    row = run(made, out=tmp_path).subflows.iloc[0]
    assert (row["source"], row["destination"]) == ("10.0.2.2", "10.0.1.1")


def test_datagrams_are_sent_by_the_server_on_every_engine(tmp_path):
    udp = ('transport: tcp, cc: "${cc}"', "transport: udp, direction: download, app: {kind: constant, rate: 1mbit}")
    made = study(tmp_path, udp, ("matrix: {cc: [cubic, reno]}\n", ""))
    flow = scenario(cells(made)[0].setup, 1)["flows"][0]
    assert (flow["client"], flow["server"], "direction" in flow) == ("b", "a", False)
    runs = Results.open(run(made, out=tmp_path).folder).runs
    assert runs["datagram_loss"].tolist() == [0.0]


def test_an_upload_is_the_run_that_it_was(tmp_path):
    assert "direction" not in scenario(cells(study(tmp_path, of("direction: upload")))[0].setup, 1)["flows"][0]
    keys = [{each.key for each in plan(made, out=tmp_path).runs} for made in (study(tmp_path), study(tmp_path, of("direction: upload")))]
    assert keys[0] == keys[1]


@pytest.mark.parametrize("direction", ["download", "both"])
def test_requests_have_no_direction(tmp_path, direction):
    with pytest.raises(StudyError, match=r"11: flows.f.direction: requests go both ways, and their responses come from the server: leave"):
        study(tmp_path, of(f"direction: {direction}, app: {{kind: requests}}"))


def test_a_way_back_without_a_rate_is_told_of_a_download(tmp_path):
    with pytest.raises(StudyError, match=r"no link from `b` to `a` \(l2, l1\) has a rate"):
        study(tmp_path, of("direction: download"), ("backward: {rate: 40mbit, queue: 150packets, delay: 5ms}", "backward: {delay: 5ms}"))
    assert SHAPE in BASE


def test_a_kernel_is_told_who_sends_and_at_which_end_the_algorithm_belongs(tmp_path):
    made = study(tmp_path, of("direction: both"), ("{cc: [cubic, reno]}", "{cc: [reno]}"))
    plan = build(scenario(cells(made)[0].setup, 1), {"reno", "cubic"}).plan
    told = {flow["name"]: (flow["client"], flow["server"], flow.get("download", False)) for flow in plan["flows"]}
    assert told == {"f-up": ("a", "b", False), "f-down": ("a", "b", True)}
    chosen = {each["name"]: dict(each["sysctl"]).get("net.ipv4.tcp_congestion_control") for each in plan["namespaces"]}
    assert (chosen["a"], chosen["r"], chosen["b"]) == ("reno", None, "reno")
    nodes = ("    a:\n", "    a: {sysctl: {receive_low_water: 3000}}\n")
    made = study(tmp_path, of("direction: both"), ("{cc: [cubic, reno]}", "{cc: [reno]}"), nodes)
    plan = build(scenario(cells(made)[0].setup, 1), {"reno"}).plan
    assert {flow["name"]: flow["reading"] for flow in plan["flows"]} == {"f-up": {}, "f-down": {"low_water": 3000}}


@pytest.mark.parametrize(("flow", "answers"), [("app: {kind: requests}", True), ("direction: upload", False)])
def test_who_answers_requests_sends_with_the_flow_s_algorithm(tmp_path, flow, answers):
    made = study(tmp_path, of(flow), ("{cc: [cubic, reno]}", "{cc: [reno]}"))
    plan = build(scenario(cells(made)[0].setup, 1), {"reno"}).plan
    server = next(each for each in plan["namespaces"] if each["name"] == "b")
    assert ("net.ipv4.tcp_congestion_control" in dict(server["sysctl"])) == answers


THIRD = """\
name: third
topology:
  nodes: {client: , rival: , r1: {router: true}, r2: {router: true}, server: }
  links:
    own1: {ends: [client, r1], both: {delay: 5ms}}
    path1: {ends: [r1, server], both: {rate: 20mbit, delay: 5ms}}
    own2: {ends: [client, r2], both: {delay: 5ms}}
    path2: {ends: [r2, server], both: {rate: 10mbit, delay: 5ms}}
    theirs: {ends: [rival, r2], both: {delay: 5ms}}
flows:
  m: {client: client, server: server}
  tcp: {client: rival, server: server, transport: tcp}
duration: 2s
"""


def test_addresses_are_those_that_a_path_reaches(tmp_path):
    made = written(tmp_path, THIRD)
    plain = {flow["name"]: flow["server_address"] for flow in scenario(cells(made)[0].setup, 1)["flows"]}
    assert plain == {"m": None, "tcp": "10.0.4.2"}, "only where the first one cannot be reached"
    runs = run(made, out=tmp_path / "out").runs.set_index("flow")
    assert runs.loc["tcp", "goodput_receiver_mbps"] > 1.0
    text = THIRD.replace("  tcp: {client: rival, server: server, transport: tcp}\n", "")
    more = "    own3: {ends: [client, r2], both: {delay: 9ms}}\n    theirs"
    found = run(written(tmp_path, text.replace("    theirs", more)), out=tmp_path / "out").baselines
    pairs = list(zip(found["client_address"], found["server_address"], strict=True))
    assert pairs == [("10.0.1.1", "10.0.2.2"), ("10.0.3.1", "10.0.4.2"), ("10.0.5.1", "10.0.4.2")]
