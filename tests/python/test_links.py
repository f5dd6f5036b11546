"""Recorded and wireless links, and queues that are managed."""

import itertools
import json
from pathlib import Path

import pytest
import yaml
from over_router import over_router

from polypath import Study, StudyError, run
from polypath.analysis import flow_bounds
from polypath.planner import PlanError, build
from polypath.results._events import events
from polypath.study import cells, runs, scenario
from polypath.study._scenario import links_of, seeds_make_links

STUDIES = Path(__file__).resolve().parents[2] / "studies"
TEXT = """\
name: recorded
topology:
  nodes: {c: , s: }
  links:
    air:
      ends: [c, s]
      forward: [{kind: trace, file: up.trace, queue: 50packets}, {kind: delay, delay: 10ms}]
      backward: [{kind: table, file: down.csv, queue: 80packets}]
flows:
  f: {client: c, server: s, transport: tcp}
duration: 10s
"""
TABLE = "time,rate,delay,loss\n0s,10mbit,10ms,0%\n2.5s,5mbit,30ms,1%\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "up.trace").write_text("".join(f"{ms}\n" for ms in range(1, 101)))
    (tmp_path / "down.csv").write_text(TABLE)
    (tmp_path / "study.yaml").write_text(TEXT)
    return tmp_path


def sides(study, seed=1):
    (link,) = scenario(cells(study)[0].setup, seed)["links"]
    return link["a_to_b"], link["b_to_a"]


def test_a_trace_is_its_chances_and_a_table_is_elements_that_change(folder):
    there, back = sides(Study.load(folder))
    assert [element["kind"] for element in there] == ["trace", "delay"]
    assert (there[0]["chances_ms"][:2], len(there[0]["chances_ms"]), there[0]["bytes"], there[0]["framing_bytes"]) == ([1, 2], 100, 1504, 4)
    assert [element["kind"] for element in back] == ["loss", "rate", "delay"]
    assert [element["changes"] for element in back] == [[{"at_ns": 2_500_000_000, "to": to}] for to in (0.01, 5_000_000, 30_000_000)]
    # A full packet each millisecond: 12.032 Mbit/s, of which 1448 of 1504 bytes are payload.
    bound = flow_bounds(scenario(cells(Study.load(folder))[0].setup, 1))["bound_mbps"].iloc[0]
    assert bound == pytest.approx(12.032 * 1448 / 1504, rel=1e-6)
    study = Study.load(folder).replace(duration="5s")
    assert sides(study) == sides(Study.load(folder))
    (folder / "up.trace").unlink()
    with pytest.raises(StudyError, match=r"there is no file .up\.trace. beside the study file"):
        Study.load(folder)


@pytest.mark.parametrize(
    "file, content, sentence",
    [
        ("up.trace", "1\nx\n", 'up.trace:2: "x" is no time'),
        ("up.trace", "5\n4\n", "up.trace:2: the time 4 stands after a later one"),
        ("up.trace", "0\n", "lasts longer than 0 ms"),
        ("down.csv", "time,rate\n1s,1mbit\n", "down.csv:2: the first row is of the time 1s; a table begins at 0s"),
        ("down.csv", "time,rate\n0s,12\n", "down.csv:2: rate: "),
        ("down.csv", "time,rate\n0s,1mbit\n0s,2mbit\n", "down.csv:3: the time 0s does not come after"),
        ("down.csv", "time,speed\n0s,1mbit\n", "down.csv:1: the columns are time, speed"),
    ],
)
def test_a_mistake_in_a_recording_is_named_with_its_line(folder, file, content, sentence):
    (folder / file).write_text(content)
    with pytest.raises(StudyError) as error:
        Study.load(folder)
    assert sentence in str(error.value)
    assert "study.yaml:" in str(error.value)


def wireless(matrix=None, **more):
    element = {"kind": "wireless", "radio": "5g", "peak": "100mbit", **more}
    links = {"air": {"ends": ["c", "s"], "both": [element]}}
    flows = {"f": {"client": "c", "server": "s", "transport": "tcp"}}
    topology = {"nodes": {"c": None, "s": None}, "links": links}
    return Study.model_validate({"name": "air", "topology": topology, "flows": flows, "duration": "60s", "matrix": matrix or {}})


def test_a_wireless_link_follows_its_seed_alone():
    first, again, other = (json.dumps(sides(wireless(), seed)) for seed in (1, 1, 2))
    assert first == again != other
    there, back = sides(wireless())
    assert there[0]["changes"] != back[0]["changes"], "each direction has its own chance"
    # Handovers draw from a stream of their own.
    assert sides(wireless(handover_every="10s"))[0][1] == there[0]
    rate = sides(wireless())[0][0]
    from polypath.study._wireless import RADIOS

    states = [round(100_000_000 * share) for share in RADIOS["5g"].states]
    walked = [states.index(bits) for bits in (rate["bits_per_s"], *(change["to"] for change in rate["changes"]))]
    assert all(abs(later - earlier) == 1 for earlier, later in itertools.pairwise(walked))
    assert min(walked) >= 6
    assert max(walked) <= 14
    # A state lasts 200 ms in the mean: some 270 changes in a minute.
    assert 210 < len(walked) < 320
    down = sides(wireless(handover_every="5s", handover_gap="100ms"))[0][0]
    assert down["kind"] == "down"
    assert 8 <= len(down["spans_ns"]) <= 16
    assert all(end - start == 100_000_000 for start, end in down["spans_ns"])


def test_only_links_that_the_seed_makes_are_made_for_each_seed():
    for study in (wireless().replace(seeds=3), Study.load(STUDIES / "nitk"), Study.load(STUDIES / "atlas").replace(seeds=3)):
        made = list(itertools.islice(runs(study, engine="sim", version="1"), 30))
        assert len({run.seed for run in made}) > 1, study.name
        cell = cells(study)[0]
        for each in made:
            if each.parameters == cell.parameters:
                assert each.scenario["links"] == links_of(cell.setup, each.seed), study.name
        assert seeds_make_links(cell.setup) is (links_of(cell.setup, 1) != links_of(cell.setup, 2))


def test_a_radio_and_a_recording_may_be_parameters(folder):
    given = {"radio": "${radio}", "lowest_state": "${low}", "handover_every": "${often}"}
    study = wireless({"radio": ["wifi6", "5g"], "low": [2], "often": ["5s"]}, **given)
    rates = [max(change["to"] for change in scenario(cell.setup, 1)["links"][0]["a_to_b"][1]["changes"]) for cell in cells(study)]
    assert rates == [100_000_000, 100_000_000]
    with pytest.raises(ValueError, match="the radio 5g has the states 0 to 14"):
        wireless({"radio": ["5g"], "low": [15], "often": ["5s"]}, **given)
    text = TEXT.replace("down.csv", '"${file}"') + "matrix: {file: [down.csv, other.csv]}\n"
    (folder / "study.yaml").write_text(text)
    (folder / "other.csv").write_text(TABLE.replace("10mbit", "7mbit"))
    recorded = [scenario(cell.setup, 1)["links"][0]["b_to_a"][1]["bits_per_s"] for cell in cells(Study.load(folder))]
    assert recorded == [10_000_000, 7_000_000]


def test_what_a_kernel_cannot_do_is_refused_and_the_rest_is_planned(folder):
    with pytest.raises(PlanError, match="netem cannot replay single chances to send"):
        build(scenario(cells(Study.load(folder))[0].setup, 1), ("cubic",))
    plan = build(scenario(cells(wireless())[0].setup, 1), ("cubic",)).plan
    assert len(plan["changes"]) > 300, "both directions change their rate"
    # 5G: up to three further attempts, 5 ms apart; one in ten thousand packets fails four times.
    there, back = [each["netem"] for each in plan["disciplines"] if "delays" in each["netem"]]
    assert there == back
    assert there["loss"] == {"model": "random", "probability": pytest.approx(1e-4)}
    assert [each["value"] / 8192 * there["jitter_ns"] for each in there["delays"]] == [0, 5e6, 10e6, 15e6]
    assert [each["count"] for each in there["delays"]] == [14747, 1475, 147, 15]
    with pytest.raises(PlanError, match="give fewer `attempts`"):
        build(scenario(cells(wireless(retries="50%", attempts=100, retry_delay="1s"))[0].setup, 1), ("cubic",))


def managed(aqm, *, matrix=None, **more):
    return second_link({"rate": "10mbit", "delay": "5ms", "aqm": aqm, **more}, matrix=matrix or {})


def second_link(forward, **more):
    """A study of a TCP over a router, whose second link does this to what the client sends."""
    links = {"a": {"both": {"delay": "1ms"}}, "b": {"forward": forward, "backward": {"delay": "5ms"}}}
    return over_router("second", links, duration="5s", **more)


def queues(study):
    """Of the managed link in each cell: what manages its queue."""
    return [scenario(cell.setup, 1)["links"][1]["a_to_b"][0].get("aqm") for cell in cells(study)]


def test_a_rate_may_be_a_token_bucket_in_the_simulator():
    def bucket(**more):
        return second_link([{"kind": "rate", "rate": "10mbit", **more}])

    plain = scenario(cells(bucket(burst="1538B"))[0].setup, 1)
    assert plain["links"][1]["a_to_b"][0]["burst_bytes"] == 1538
    with pytest.raises(PlanError, match="netem has no token bucket"):
        build(plain, ("cubic",))
    with pytest.raises(ValueError, match="a managed queue has no `burst`"):
        bucket(burst="1538B", aqm="codel")


def policed(*before, **more):
    return second_link([*before, {"kind": "policer", "rate": "8mbit", "burst": "20KB", **more}, {"kind": "delay", "delay": "5ms"}])


def test_a_policer_drops_and_delays_nothing(tmp_path):
    found = run(policed(), out=tmp_path / "out")
    goodput = found.runs["goodput_receiver_mbps"].iloc[0]
    (link,) = found.links[(found.links["link"] == "b") & found.links["a_to_b"]].to_dict("records")
    assert link["queue_drops"] > 10 and link["max_queue_packets"] == 0
    # 1448 of 1514 bytes are payload, and the bucket of 20 kB is full at the window's beginning.
    bound = flow_bounds(scenario(cells(policed())[0].setup, 1))["bound_mbps"].iloc[0]
    assert bound == pytest.approx(8.032 * 1448 / 1514, rel=1e-6)
    assert 0.9 * bound < goodput < bound


def test_a_policer_stands_before_the_netem_of_its_device():
    before = [{"kind": "loss", "share": "1%"}]
    plan = build(scenario(cells(policed(*before))[0].setup, 1), ("cubic",)).plan
    (stage,) = [each for each in plan["disciplines"] if "policer" in each]
    assert stage["policer"] == {"rate": 8_000_000, "burst": 20_000, "overhead": 0} and "link" in stage
    # What stood before it is a stage of its own.
    assert (stage["netem"]["delay_ns"], stage["netem"]["loss"]) == (5_000_000, {"model": "none"})
    for wrong, sentence in (({"framing": "0B"}, "14 bytes of Ethernet header"), ({"rate": "10kbit", "burst": "400KB"}, "within 274 s")):
        with pytest.raises(PlanError, match=sentence):
            build(scenario(cells(policed(**wrong))[0].setup, 1), ("cubic",))


def test_parameters_decide_what_manages_a_queue_and_its_bounds():
    short = managed("${aqm}", matrix={"aqm": ["none", "codel", "fq_codel", "pie"]})
    assert [found and found["kind"] for found in queues(short)] == [None, "codel", "fq_codel", "pie"]
    long = managed({"kind": "${aqm}", "ecn": True, "target": "${target}"}, matrix={"aqm": ["codel", "pie", "none"], "target": ["7ms"]})
    assert [found and (found["kind"], found["target_ns"], found["ecn"]) for found in queues(long)] == [
        ("codel", 7_000_000, True),
        ("pie", 7_000_000, True),
        None,
    ]
    assert queues(Study.model_validate(yaml.safe_load(long.to_yaml()))) == queues(long)
    red = {"kind": "red", "min": "${least}", "max": "${most}", "probability": "${p}", "weight_log": "${weight}"}
    matrix = {"least": ["15KB"], "most": ["45KB", "60KB"], "p": ["5%"], "weight": [7], "room": ["200KB"]}
    found = queues(managed(red, queue="${room}", matrix=matrix))
    assert [(each["min_bytes"], each["max_bytes"], each["probability"], each["weight_log"]) for each in found] == [
        (15_000, 45_000, 0.05, 7),
        (15_000, 60_000, 0.05, 7),
    ]
    assert queues(managed("codel", queue="${room}", matrix={"room": ["50packets"]}))[0]["kind"] == "codel"


def test_a_parameter_decides_an_element_and_an_application():
    topology = {"nodes": {"c": None, "s": None}}
    air = [{"kind": "${loss}", "share": "1%", "delay": "5ms"}, {"kind": "rate", "rate": "10mbit"}]
    topology["links"] = {"a": {"ends": ["c", "s"], "forward": air, "backward": {"delay": "1ms"}}}
    flow = {"client": "c", "server": "s", "path_manager": {"kind": "${pm}"}, "app": {"kind": "${app}", "duration": "2s"}}
    matrix = {"loss": ["retry"], "pm": ["fullmesh", "ndiffports"], "app": ["bulk", "requests"]}
    study = Study.model_validate({"name": "any", "topology": topology, "flows": {"f": flow}, "duration": "5s", "matrix": matrix})
    made = [scenario(cell.setup, 1) for cell in cells(study)]
    assert {each["links"][0]["a_to_b"][0]["kind"] for each in made} == {"retry"}
    assert [(each["flows"][0]["mptcp"]["path_manager"]["kind"], each["flows"][0]["app"]["kind"]) for each in made] == [
        ("fullmesh", "bulk"), ("fullmesh", "requests"), ("ndiffports", "bulk"), ("ndiffports", "requests")
    ]  # fmt: skip


def test_a_managed_queue_is_a_token_bucket_with_the_kernels_own_discipline():
    study = managed({"kind": "red", "min": "15KB", "max": "45KB", "ecn": True}, queue="200KB", framing="18B")
    plan = build(scenario(cells(study)[0].setup, 1), ("cubic",)).plan
    (shaper,) = [each["shaper"] for each in plan["disciplines"] if "shaper" in each]
    assert (shaper["rate"], shaper["overhead"], shaper["burst"]) == (10_000_000, 4, 1514)
    expected = {"kind": "red", "limit": 200_000, "min": 15_000, "max": 45_000, "probability": 0.02, "weight_log": 9, "ecn": True}
    assert shaper["aqm"] == {**expected, "packet_ns": 1018 * 800}


def test_stalls_and_recoveries_are_read_off_the_bytes():
    # 2 MB each 100 ms until 1 s, which lies further back than is asked; 1 MB until 3 s; silence until
    # 4.2 s; half the rate until 5 s, then all of it.
    received = [(min(step, 10) + min(step, 30)) * 10**6 for step in range(43)]
    received += [received[-1] + step * 5 * 10**5 for step in range(1, 9)]
    received += [received[-1] + step * 10**6 for step in range(1, 30)]
    spans = [[3_000_000_000, 4_000_000_000]]
    link = {"name": "air", "a_to_b": [{"kind": "down", "spans_ns": spans}], "b_to_a": []}
    flows = [{"name": "f", "received_100ms": received}, {"name": "later", "received_100ms": [0] * 60 + [9] * 20}]
    (row,) = events({"links": [link]}, {"simulated_ns": 8_000_000_000, "flows": flows})
    assert (row["link"], row["flow"], row["at_s"], row["until_s"]) == ("air", "f", 3.0, 4.0)
    assert row["rate_before_mbps"] == pytest.approx(80)
    assert row["stall_s"] == pytest.approx(1.2)
    # From 4.8 s on a second holds 0.2 s of half the rate and 0.8 s of all of it: nine tenths.
    assert row["recover_s"] == pytest.approx(1.8)


@pytest.mark.parametrize(
    "aqm, more, sentence",
    [
        ("cake", {}, 'there is no queue management "cake"; there are codel, fq_codel, pie, dualpi2, none, red'),
        ({"kind": "red", "min": "15KB", "max": "45KB"}, {}, "red counts bytes: give its queue in bytes"),
        ({"kind": "red", "min": "45KB", "max": "15KB"}, {"queue": "1MB"}, "red needs min < max <= queue"),
        ({"kind": "red", "min": "${x}", "max": "2MB"}, {"queue": "1MB", "matrix": {"x": ["15KB"]}}, "red needs min < max <= queue"),
        (
            {"kind": "red", "min": "15KB", "max": "${x}"},
            {"queue": "1MB", "matrix": {"x": ["45KB", "9KB"]}},
            "topology.links.b.forward.*: red needs min < max <= queue; here they are 15KB, 9KB and 1MB (in the cell x=9KB)",
        ),
        ("${x}", {"matrix": {"x": ["codel", "cake"]}}, 'topology.links.b.forward.aqm: there is no queue management "cake"'),
        (
            {"kind": "${x}", "target": "5ms"},
            {"queue": "1MB", "matrix": {"x": ["red"]}},
            "topology.links.b.forward.aqm: the field `min` is missing (in the cell x=red)",
        ),
        ({"kind": "${x}"}, {"matrix": {"x": ["cake"]}}, 'topology.links.b.forward.aqm: there is no kind "cake"; there are red, codel'),
        ("codel", {"queue": "${x}", "matrix": {"x": ["64KiB"]}}, "codel counts packets: give its queue in packets"),
    ],
)
def test_a_queue_and_its_management_must_fit(aqm, more, sentence):
    with pytest.raises(ValueError, match=sentence.replace("(", "\\(").replace(")", "\\)")):
        managed(aqm, **more)
