"""The study: reading, cells, runs, keys and scenarios."""

import json
import subprocess
import sys

import pytest
from study_data import STUDY, changed, written

import polypath
from polypath import Experiment, Flow, Link, Node, Study, Topology, _native
from polypath.study import PATH_MANAGERS, StudyError, Time, cells, json_schema, runs


@pytest.fixture
def study(tmp_path):
    return written(tmp_path, STUDY)


def in_python():
    """The same study, built in a few lines."""
    shape = {"rate": "50mbit", "queue": "100packets", "delay": "5ms"}
    return Study(
        name="small",
        question="Does it work?",
        topology=Topology(
            nodes={"client": Node(), "middle": Node(router=True), "server": Node()},
            links={
                "first": Link(ends=("client", "middle"), both=shape),
                "second": Link(ends=("client", "middle"), both={"rate": "${rate}", "delay": "10ms"}),
                "last": Link(ends=("middle", {"node": "server", "address": "10.9.0.2"}), both={"rate": "100mbit", "delay": "2ms"}),
            },
        ),
        flows={"bulk": Flow(client="client", server="server", cc="${cc}")},
        duration="20s",
        matrix={"cc": ["lia", "olia"], "rate": ["20mbit", "10mbit"]},
        seeds=2,
    )


def scenarios(study):
    return [run.scenario for run in runs(study, engine="sim", version="1") if run.baseline is None]


def test_a_study_in_a_file_in_python_and_rebuilt_are_equal(study, tmp_path):
    assert study == in_python()
    assert eval(repr(study), {name: getattr(polypath, name) for name in polypath.__all__}) == study
    assert written(tmp_path, study.to_yaml()) == study


def test_a_copy_is_checked_and_the_study_itself_is_frozen(study):
    fewer = study.replace(matrix={"cc": ["lia"], "rate": ["5mbit"]}, seeds=1)
    assert (len(cells(study)), len(cells(fewer))) == (4, 1)
    assert len(cells(study.model_copy(update={"matrix": {"cc": ["lia"], "rate": ["5mbit"]}}))) == 1
    with pytest.raises(ValueError, match="has no unit"):
        study.replace(duration=5)
    with pytest.raises(ValueError, match="frozen"):
        study.name = "other"


def test_cells_are_all_combinations_with_the_last_parameter_fastest(study):
    assert [dict(cell.parameters) for cell in cells(study)] == [
        {"cc": "lia", "rate": "20mbit"},
        {"cc": "lia", "rate": "10mbit"},
        {"cc": "olia", "rate": "20mbit"},
        {"cc": "olia", "rate": "10mbit"},
    ]
    found = [(s["flows"][0]["cc"], s["links"][1]["a_to_b"][0]["bits_per_s"], s["seed"]) for s in scenarios(study)]
    assert found[:3] == [("lia", 20_000_000, 1), ("lia", 20_000_000, 2), ("lia", 10_000_000, 1)]
    links = scenarios(study)[0]["links"]
    assert [(link["a"]["address"], link["b"]["address"]) for link in links] == [
        ("10.0.1.1", "10.0.1.2"),
        ("10.0.2.1", "10.0.2.2"),
        ("10.0.3.1", "10.9.0.2"),
    ]
    study = in_python()
    narrowed = Experiment(matrix=study.matrix, exclude=({"cc": "lia", "rate": "10mbit"},))
    named = Study(name="small", topology=study.topology, flows=study.flows, duration="20s", experiments={"e": narrowed})
    left = [(cell.parameters["cc"], cell.parameters["rate"]) for cell in cells(named)]
    assert left == [("lia", "20mbit"), ("olia", "20mbit"), ("olia", "10mbit")]


def test_a_placeholder_alone_keeps_the_type_of_its_value(tmp_path):
    study = written(tmp_path, changed(('cc: "${cc}"}', 'cc: "${cc}", count: "${many}"}'), ("cc: [lia, olia]", "cc: [lia]\n  many: [1, 3]")))
    assert [len(s["flows"]) for s in scenarios(study)] == [1, 1, 1, 1, 3, 3, 3, 3]
    assert [flow["name"] for flow in scenarios(study)[-1]["flows"]] == ["bulk-1", "bulk-2", "bulk-3"]


def test_links_have_a_chain_of_elements_that_changes_reach(tmp_path):
    study = written(tmp_path, changed(("rate: 100mbit, delay: 2ms", "loss: 1%, delay: 2ms, mtu: 1400B, rate: 100mbit")))
    assert [element["kind"] for element in scenarios(study)[0]["links"][2]["b_to_a"]] == ["mtu", "loss", "rate", "delay"]
    changes = "changes: [{at: 5s, rate: 1mbit}, {at: 7s, up: false}, {at: 8s, up: true, rate: 2mbit, loss: 3%}]"
    study = written(tmp_path, changed(("rate: 100mbit, delay: 2ms", f"rate: 100mbit, delay: 2ms, {changes}")))
    down, loss, rate, delay = scenarios(study)[0]["links"][2]["a_to_b"]
    assert down["spans_ns"] == [[7_000_000_000, 8_000_000_000]]
    assert (loss["probability"], loss["changes"]) == (0.0, [{"at_ns": 8_000_000_000, "to": 0.03}])
    assert rate["changes"] == [{"at_ns": 5_000_000_000, "to": 1_000_000}, {"at_ns": 8_000_000_000, "to": 2_000_000}]
    assert delay["changes"] == []


def test_experiments_replace_parts_of_the_set_up(tmp_path):
    text = changed(
        ("matrix:\n  cc: [lia, olia]\n  rate: [20mbit, 10mbit]\n", ""),
    )
    text += """
parameters: {rate: 5mbit}
experiments:
  a: {matrix: {cc: [lia, olia]}, seeds: [7]}
  b: {matrix: {cc: [reno]}, parameters: {rate: 6mbit}, duration: 10s, flows: {one: {client: client, server: server, cc: "${cc}"}}}
"""
    study = written(tmp_path, text)
    assert [(cell.experiment, cell.parameters["rate"], cell.seeds) for cell in cells(study)] == [
        ("a", "5mbit", (7,)),
        ("a", "5mbit", (7,)),
        ("b", "6mbit", (1, 2)),
    ]
    last = scenarios(study)[-1]
    assert (last["flows"][0]["name"], last["flows"][0]["app"]["duration_ns"]) == ("one", 10_000_000_000)


def test_baselines_are_tcp_alone_on_each_path_or_none(study, tmp_path):
    found = [run for run in runs(study, engine="sim", version="1") if run.baseline is not None]
    first = [run for run in found if run.parameters == {"cc": "lia", "rate": "20mbit"} and run.seed == 1]
    assert [(run.baseline.client_address, run.scenario["flows"][0]["client_address"]) for run in first] == [
        ("10.0.1.1", "10.0.1.1"),
        ("10.0.2.1", "10.0.2.1"),
    ]
    assert {(run.scenario["flows"][0]["transport"], run.scenario["flows"][0]["cc"]) for run in found} == {("tcp", "cubic")}
    # Cells share theirs over congestion controls: two paths, two rates, two seeds.
    assert (len(found), len({run.key for run in found})) == (16, 8)
    study = written(tmp_path, changed(("seeds: 2", "seeds: 2\nbaselines: null")))
    assert all(run.baseline is None for run in runs(study, engine="sim", version="1"))


def test_keys_cover_what_can_change_a_result_and_no_title(study, tmp_path):
    def keys(engine="sim", version="1", of=study):
        return {run.key for run in runs(of, engine=engine, version=version)}

    assert keys() == keys()
    assert not keys() & keys(version="2")
    assert not keys() & keys(engine="linux")
    other = written(tmp_path, "title: Something else\n" + STUDY)
    assert [run.key for run in runs(study, engine="sim", version="1")] == [run.key for run in runs(other, engine="sim", version="1")]


def test_starts_are_drawn_from_the_seed_within_their_spread(tmp_path):
    study = written(tmp_path, changed(('cc: "${cc}"}', 'cc: "${cc}", start: 1s, start_spread: 100ms, count: 2}')))
    starts = [[flow["start_ns"] for flow in scenario["flows"]] for scenario in scenarios(study)[:2]]
    assert starts == [[flow["start_ns"] for flow in scenario["flows"]] for scenario in scenarios(study)[:2]]
    drawn = [start for pair in starts for start in pair]
    assert len(set(drawn)) == 4
    assert all(1_000_000_000 <= start < 1_100_000_000 for start in drawn)
    study = written(tmp_path, changed(('cc: "${cc}"}', 'cc: "${cc}", start: 1s, count: 2}'))).over_starts(12, Time("20ms"))
    assert (study.name[-7:], study.seeds, study.claims, study.baselines) == ("-starts", tuple(range(1, 13)), (), None)
    starts = [[flow["start_ns"] for flow in run.scenario["flows"]] for run in runs(study, engine="sim", version="1")]
    assert all(1_000_000_000 <= start < 1_020_000_000 for own in starts for start in own)
    assert len({tuple(own) for own in starts}) >= 12
    own = written(tmp_path, changed(('cc: "${cc}"}', 'cc: "${cc}", start_spread: 100ms}'))).over_starts(12, Time("20ms"))
    assert {str(flow.start_spread) for flow in own.flows.values()} == {"100ms"}
    short = study.in_short().over_starts(12, Time("20ms"))
    assert {len(cell.seeds) for cell in cells(short)} == {12}


def test_words_that_yaml_1_1_takes_for_booleans_are_words(tmp_path):
    app = "app: {kind: on_off, on: 1s, off: 500ms}"
    study = written(tmp_path, changed(('cc: "${cc}"}', f'cc: "${{cc}}", {app}}}')))
    assert scenarios(study)[0]["flows"][0]["app"]["off_ns"] == 500_000_000


def test_the_published_schema_is_up_to_date(pytestconfig):
    file = pytestconfig.rootpath / "python/polypath/study/study.schema.json"
    # In a process of its own: this one may have algorithms of other tests.
    ask = "from polypath.study import json_schema; print(json_schema(), end='')"
    made = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout
    assert file.read_text() == made, "write it again: polypath list schema > python/polypath/study/study.schema.json"


def test_the_schema_takes_every_study_there_is_and_no_bare_number(pytestconfig):
    import jsonschema

    from polypath.study._yaml import parse

    validator = jsonschema.Draft202012Validator(json.loads(json_schema()))
    texts = {"small": STUDY}
    for pattern in ("studies/*/study.yaml", "python/polypath/templates/*.yaml"):
        texts |= {str(file): file.read_text() for file in pytestconfig.rootpath.glob(pattern)}
    assert len(texts) >= 5
    for name, text in texts.items():
        assert [error.message for error in validator.iter_errors(parse(text, name).value)] == [], name
    assert list(validator.iter_errors(parse(changed(("duration: 20s", "duration: 20")), "x").value))
    flow = json.loads(json_schema())["$defs"]["Flow"]["properties"]
    assert {"cubic", "lia", "bbr"} <= set(flow["cc"]["anyOf"][0]["enum"])
    assert {"default", "minrtt", "redundant"} <= set(flow["scheduler"]["anyOf"][0]["enum"])
    for name in ("lia", "one_of_mine", "${cc}"):
        jsonschema.validate(name, flow["cc"])
    jsonschema.validate("weighted 3:1", flow["scheduler"])


def test_a_study_has_the_path_managers_of_the_simulator():
    ours = {kind.model_fields["kind"].default: (kind.__doc__ or "").splitlines()[0] for kind in PATH_MANAGERS}
    assert ours == dict(_native.path_managers())


def test_a_parameter_may_stand_in_a_list_of_a_setting(tmp_path):
    (tmp_path / "study.yaml").write_text(
        "name: lists\n"
        "topology:\n"
        '  nodes: {a: , b: {sysctl: {net.ipv4.tcp_rmem: [4096, 131072, "${most}"]}}}\n'
        "  links: {l: {ends: [a, b], both: {rate: 10mbit, delay: 5ms}}}\n"
        "flows: {f: {client: a, server: b}}\n"
        "matrix: {most: [600000, 8000000]}\n"
        "duration: 2s\n"
    )
    study = Study.load(tmp_path)
    settings = [cell.setup.topology.nodes["b"].sysctl["net.ipv4.tcp_rmem"] for cell in cells(study)]
    assert settings == [(4096, 131072, 600000), (4096, 131072, 8000000)]
    (tmp_path / "study.yaml").write_text((tmp_path / "study.yaml").read_text().replace("[600000, 8000000]", "[6MB, 8000000]"))
    with pytest.raises(StudyError, match="one value or a list of whole numbers is expected; sizes are bytes without a unit"):
        Study.load(tmp_path)
