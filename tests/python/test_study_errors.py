"""Every mistake in a study file ends in one sentence with file, line, field and what is allowed."""

import json

import pytest
import yaml
from study_data import STUDY, changed

from polypath import Flow, Study, StudyError

FIRST = "first: {ends: [client, middle], both: {rate: 50mbit, queue: 100packets, delay: 5ms}}"

MISTAKES = {
    "datagrams as fast as they go": (
        (('cc: "${cc}"}', 'cc: "${cc}", transport: udp}'),),
        "15: flows.bulk.app: datagrams are sent at a rate: give the flow an `app` of the kind constant, or on_off with a `rate` "
        "(in the cell cc=lia, rate=20mbit)",
    ),
    "repetitions over an unknown parameter": (
        (("seeds: 2", "seeds: 2\nrepeat_over: [start]"),),
        '21: repeat_over[0]: there is no parameter "start"; there are cc, rate',
    ),
    "a bare number": ((("duration: 20s", "duration: 20"),), '16: duration: the bare number 20 has no unit; write time like "25ms"'),
    "a rate of zero": (
        (("rate: 50mbit", "rate: 0mbit"),),
        "9: topology.links.first.both.rate: a rate of zero lets nothing pass; to cut a link for a while, use `up: false` in `changes`",
    ),
    "a rate of zero in the matrix": (
        (("[20mbit, 10mbit]", "[20mbit, 0mbit]"),),
        "10: topology.links.second.both.rate: a rate of zero lets nothing pass; to cut a link for a while, use `up: false` in `changes` "
        "(in the cell cc=lia, rate=0mbit)",
    ),
    "a wrong unit": (
        (("rate: 50mbit", "rate: 50mbps"),),
        '9: topology.links.first.both.rate: "50mbps": rate has no unit "mbps"; allowed are bit, kbit, mbit, gbit',
    ),
    "a link to nowhere": (
        (("first: {ends: [client, middle]", "first: {ends: [client, midle]"),),
        '9: topology.links.first.ends[1]: the link leads to nowhere: there is no node "midle"; did you mean "middle"? '
        "there are client, middle, server (in the cell cc=lia, rate=20mbit)",
    ),
    "a link in a circle": (
        (("first: {ends: [client, middle]", "first: {ends: [client, client]"),),
        '9: topology.links.first.ends: both ends are at "client"; a link joins two nodes (in the cell cc=lia, rate=20mbit)',
    ),
    "a link with three ends": (
        (("first: {ends: [client, middle]", "first: {ends: [client, middle, server]"),),
        "9: topology.links.first: a link joins two nodes, and `ends` names 3",
    ),
    "a link that does nothing": (
        ((FIRST, "first: {ends: [client, middle]}"),),
        "9: topology.links.first: the link has neither rate nor delay; give `both:` or `forward:` and `backward:` "
        "(in the cell cc=lia, rate=20mbit)",
    ),
    "an unknown field": (
        (("queue: 100packets", "que: 100packets"),),
        "9: topology.links.first.both.que: there is no field `que` here; did you mean `queue`?",
    ),
    "a queue management that a parameter gives": (
        (("queue: 100packets", 'queue: 100packets, aqm: "${q}"'), ("cc: [lia, olia]", "cc: [lia, olia]\n  q: [codel, blue]")),
        '9: topology.links.first.both.aqm: there is no queue management "blue"; there are codel, fq_codel, pie, none, red '
        "(with its `min` and `max`) (in the cell cc=lia, q=blue, rate=20mbit)",
    ),
    "a misspelled field": (
        (("duration: 20s", "duraton: 20s"),),
        "16: duraton: there is no field `duraton` here; did you mean `duration`?",
    ),
    "no time": (
        (("duration: 20s", "duration: 0s"),),
        "16: duration: a run that lasts no time measures nothing (in the cell cc=lia, rate=20mbit)",
    ),
    "a seed twice": ((("seeds: 2", "seeds: [1, 1]"),), "20: seeds: a seed stands here twice, and would give the same run again"),
    "no seeds": ((("seeds: 2", "seeds: []"),), "20: seeds: too few values: at least 1 expected"),
    "no values": ((("cc: [lia, olia]", "cc: []"),), "18: matrix.cc: too few values: at least 1 expected"),
    "half a window": ((("seeds: 2", "seeds: 2\nmeasure: {window: [1s]}"),), "21: measure.window: one value is missing: 2 are expected"),
    "a number for a name": ((("name: small", "name: 5"),), "1: name: 5 stands where a text is expected; put it in quotes if it is one"),
    "a link that is a text": (
        ((FIRST, "first: {ends: [client, middle], both: 50mbit}"),),
        "9: topology.links.first.both: '50mbit' stands where fields with names are expected",
    ),
    "a missing field": ((("server: server, ", ""),), "15: flows.bulk: the field `server` is missing"),
    "a queue without a unit": (
        (("queue: 100packets", "queue: 100"),),
        '9: topology.links.first.both.queue: 100 is no queue length; write packets or bytes, like "100packets" or "64KiB"',
    ),
    "an unknown client": (
        (("bulk: {client: client", "bulk: {client: clint"),),
        '15: flows.bulk.client: there is no node "clint"; did you mean "client"? there are client, middle, server '
        "(in the cell cc=lia, rate=20mbit)",
    ),
    "no way from client to server": (
        (("middle: {router: true}", "middle:"),),
        '15: flows.bulk.server: no path leads from "client" to "server", because middle between them forwards nothing: '
        "give it `router: true` (in the cell cc=lia, rate=20mbit)",
    ),
    "an address of somebody else": (
        (('cc: "${cc}"}', 'cc: "${cc}", client_address: 10.9.0.2}'),),
        '15: flows.bulk.client_address: "client" has no address 10.9.0.2; it has 10.0.1.1, 10.0.2.1 (in the cell cc=lia, rate=20mbit)',
    ),
    "an address twice": (
        (("address: 10.9.0.2/24", "address: 10.0.1.1"),),
        "12: topology.links.last.ends[1]: the address 10.0.1.1 belongs to topology.links.first.ends[0] already "
        "(in the cell cc=lia, rate=20mbit)",
    ),
    "no address at all": (
        (("10.9.0.2/24", "server-one"),),
        '12: topology.links.last.ends[1].address: "server-one" is no IP address; write one like "10.0.0.1"',
    ),
    "an unknown transport": (
        (('cc: "${cc}"}', 'cc: "${cc}", transport: sctp}'),),
        "15: flows.bulk.transport: 'sctp' is not allowed here; allowed are 'mptcp', 'tcp', 'udp'",
    ),
    "an unknown path manager": (
        (('cc: "${cc}"}', 'cc: "${cc}", path_manager: halfmesh}'),),
        '15: flows.bulk.path_manager: there is no path manager "halfmesh"; allowed are fullmesh, ndiffports and endpoints '
        "(with its `addresses`)",
    ),
    "more subflows than Linux has": (
        (('cc: "${cc}"}', 'cc: "${cc}", path_manager: {kind: ndiffports, subflows: 10}}'),),
        "15: flows.bulk.path_manager.subflows: this asks for 10 subflows, and Linux 6.12 has at most 9 in a connection: ask for "
        "fewer (in the cell cc=lia, rate=20mbit)",
    ),
    "more subflows than masks have bits": (
        (('cc: "${cc}"}', 'cc: "${cc}", path_manager: {kind: ndiffports, subflows: 33}}'),),
        "15: flows.bulk.path_manager.subflows: 33 is too large; the most is 32",
    ),
    "the profile of before": (
        (('cc: "${cc}"}', 'cc: "${cc}", profile: v0}'),),
        "15: flows.bulk.profile: `profile: v0` is now `kernel: 5.4-mptcp` of the study, an experiment or a host",
    ),
    "the profile of before, which is the default": (
        (('cc: "${cc}"}', 'cc: "${cc}", profile: v1}'),),
        '15: flows.bulk.profile: `profile: v1` is now `kernel: "6.12"` of the study, which is the default: take the line out',
    ),
    "a profile that varied": (
        (('cc: "${cc}"}', 'cc: "${cc}", profile: "${p}"}'),),
        "15: flows.bulk.profile: `profile: ${p}` is now `kernel: ${p}` of the study or an experiment, with "
        '"5.4-mptcp" for v0, "6.12" for v1',
    ),
    "the profile of before as a kernel": (
        (("seeds: 2", "seeds: 2\nkernel: v0"),),
        '21: kernel: "v0" is the MPTCP of a kernel, and not its name; write "5.4-mptcp"',
    ),
    "an unknown application": (
        (('cc: "${cc}"}', 'cc: "${cc}", app: {kind: video}}'),),
        '15: flows.bulk.app: there is no kind "video"; there are bulk, transfer, on_off, constant, requests',
    ),
    "an unknown check": (
        (("seeds: 2", "seeds: 2\nclaims: [{id: a, sentence: b, check: {kind: best}}]"),),
        '21: claims[0].check: there is no kind "best"; there are order, above, below, within, between, varies, decides',
    ),
    "two claims of one name": (
        (("seeds: 2", "seeds: 2\nclaims:\n- &c {id: a, sentence: b, check: {kind: between, low: 1}}\n- *c"),),
        '22: claims[1].id: two claims are called "a"',
    ),
    "a parameter without a value": (
        (("cc: [lia, olia]\n", ""),),
        '15: flows.bulk.cc: the parameter "cc" has no value in the experiment "main"; give it in `parameters` or `matrix`',
    ),
    "a parameter that stands nowhere": (
        (("seeds: 2", "seeds: 2"), ("cc: [lia, olia]", "cc: [lia, olia]\n  colour: [red, blue]")),
        '19: matrix.colour: the matrix varies "colour", but "${colour}" stands nowhere in the set-up',
    ),
    "a parameter called like a column": (
        (("  cc: [lia, olia]", "  cc: [lia, olia]\n  seed: [1]"),),
        '19: matrix.seed: "seed" is a column of the results; give the parameter another name',
    ),
    "a value twice": ((("cc: [lia, olia]", "cc: [lia, lia]"),), "18: matrix.cc: a value stands here twice"),
    "no repetition": ((("seeds: 2", "seeds: 0"),), "20: seeds: at least one repetition is needed"),
    "a window that ends before it starts": (
        (("seeds: 2", "seeds: 2\nmeasure: {window: [10s, 5s]}"),),
        "21: measure.window: the window ends at 5s, which is not after its start at 10s (in the cell cc=lia, rate=20mbit)",
    ),
    "a window that ends after the run": (
        (("seeds: 2", "seeds: 2\nmeasure: {window: [10s, 25s]}"),),
        "21: measure.window: the window ends at 25s, and the run at 20s (in the cell cc=lia, rate=20mbit)",
    ),
    "changes that go back in time": (
        ((FIRST, "first: {ends: [client, middle], both: [{kind: down, spans: [[5s, 4s]]}]}"),),
        "9: topology.links.first.both: the times of the changes of element 1 (down) must ascend (in the cell cc=lia, rate=20mbit)",
    ),
    "jitter without delay": (
        (("queue: 100packets, delay: 5ms", "jitter: 5ms"),),
        "9: topology.links.first.both: jitter needs a `delay` beside it",
    ),
    "published numbers of an unknown parameter": (
        (("seeds: 2", "seeds: 2\npublished: {file: p.csv, keys: [ccc], compare: {}}"),),
        '21: published.keys[0]: there is no parameter "ccc"; did you mean "cc"? there are cc, rate, experiment, flow, subflow',
    ),
    "published numbers that are not there": (
        (("seeds: 2", "seeds: 2\npublished: {file: p.csv, keys: [cc], compare: {}}"),),
        '21: published.file: there is no file "p.csv" beside the study file',
    ),
    "a field twice": ((("seeds: 2", "seeds: 2\nseeds: 3"),), '21: the field "seeds" stands here twice'),
    "no YAML": ((("duration: 20s", "duration: [20s"),), "17: this is no YAML: expected ',' or ']', but got ':'"),
    "a list instead of fields": (
        (("    server:\n", "    server: [1]\n"),),
        "7: topology.nodes.server: [1] stands where fields with names are expected",
    ),
    "a field that no other is like": (
        (("    server:\n", "    server: {colour: red}\n"),),
        "7: topology.nodes.server.colour: there is no field `colour` here; there are addresses, kernel, mtu_search, router, sysctl",
    ),
    "a misspelled field of a node": (
        (("    server:\n", "    server: {sisctl: {}}\n"),),
        "7: topology.nodes.server.sisctl: there is no field `sisctl` here; did you mean `sysctl`?",
    ),
    "a matrix of millions": (
        (("cc: [lia, olia]", f"cc: [lia, olia]\n  x: {list(range(100_000))}"),),
        "17: matrix: 400000 combinations of values are too many for one experiment; the most is 100000",
    ),
    "a placeholder without quotes in braces": (
        (('cc: "${cc}"', "cc: ${cc}"),),
        "15: this is no YAML: expected ',' or '}', but got '{'; inside braces a placeholder stands in quotes, like \"${cc}\"",
    ),
    "half a repetition": (
        (("seeds: 2", "seeds: 2.5"),),
        "20: seeds: 2.5 is no number of repetitions: write a whole number, or a list of seeds like [1, 2, 3]",
    ),
    "a kind alone": (
        (('cc: "${cc}"', 'cc: "${cc}", app: transfer'),),
        '15: flows.bulk.app: "transfer" is a kind, which has fields: write it as `{kind: transfer}`, with them',
    ),
    "red alone": (
        (("queue: 100packets", "queue: 100packets, aqm: red"),),
        "9: topology.links.first.both.aqm: red needs two averages of the queue: write `aqm: {kind: red, min: 30KB, max: 90KB}`",
    ),
    "a name that is none": (
        (("name: small", "name: small/er"),),
        '1: name: "small/er" is no name; use letters from a to z, digits, ".", "_" and "-", beginning with a letter or digit',
    ),
}


@pytest.mark.parametrize("changes, sentence", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_place(tmp_path, changes, sentence):
    file = tmp_path / "study.yaml"
    file.write_text(changed(*changes))
    with pytest.raises(StudyError) as error:
        Study.load(tmp_path)
    assert str(error.value).removeprefix(f"{file}:") == sentence
    assert "\n" not in str(error.value)


def test_the_study_that_the_mistakes_are_put_into_has_none(tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    assert Study.load(tmp_path).name == "small"


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words\n"])
def test_a_file_without_fields_is_no_study(tmp_path, text):
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(StudyError, match="a study is a list of fields"):
        Study.load(tmp_path)


def test_a_mistake_in_python_is_one_sentence_too():
    with pytest.raises(ValueError, match="has no unit"):
        Study(name="x", topology={"nodes": {}, "links": {}}, flows={}, duration=20)


SEVERAL = """\
name: several
topology:
  nodes: {a: , r: {router: true}, b: }
  links:
    l1: {ends: [a, r], both: {dellay: 5ms}}
    l2: {ends: [r, b], both: {rate: 10mbps, queue: 50}}
flows:
  f: {clent: a, server: b, transport: tpc}
  g: {client: a, server: b, app: {kind: bulkk}}
durration: 2s
seeds: 2.5
"""


def test_all_mistakes_are_told_at_once_each_with_its_line(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(SEVERAL)
    with pytest.raises(StudyError) as error:
        Study.load(file)
    told = [line.removeprefix(f"{file}:") for line in str(error.value).splitlines()]
    expected = [
        "5: topology.links.l1.both.dellay: there is no field `dellay` here; did you mean `delay`?",
        '6: topology.links.l2.both.rate: "10mbps": rate has no unit "mbps"; allowed are',
        "6: topology.links.l2.both.queue: 50 is no queue length",
        "8: flows.f.clent: there is no field `clent` here; did you mean `client`?",
        "8: flows.f.transport: 'tpc' is not allowed here; allowed are 'mptcp', 'tcp', 'udp'",
        '9: flows.g.app: there is no kind "bulkk"; there are bulk,',
        "10: durration: there is no field `durration` here; did you mean `duration`?",
        "11: seeds: 2.5 is no number of repetitions",
    ]
    assert len(told) == len(expected)
    assert all(line.startswith(start) for line, start in zip(told, expected, strict=True)), told


APART = (
    SEVERAL.split("flows:")[0].replace("dellay", "delay").replace("10mbps, queue: 50", "10mbit")
    + "flows:\n  f: {client: a, server: x}\n  g: {client: a, server: a}\n  h: {client: a, server: b, start: 9s}\nduration: 2s\n"
)
"""Each part by itself is well written."""


def test_what_does_not_fit_together_is_told_at_once_as_well(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(APART)
    with pytest.raises(StudyError) as error:
        Study.load(file)
    assert [line.removeprefix(f"{file}:").split(": ")[1] for line in str(error.value).splitlines()] == [
        "flows.f.server",
        "flows.g.server",
        "flows.h.start",
    ]


@pytest.mark.parametrize("text", [SEVERAL, APART, "name: n\n", "- 1\n"])
def test_python_says_what_a_file_says_with_the_field_in_place_of_the_line(text, tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(text)
    tree = yaml.safe_load(text)
    with pytest.raises(StudyError) as of_tree:
        Study.model_validate(tree)
    with pytest.raises(StudyError) as of_json:
        Study.model_validate_json(json.dumps(tree))
    told = str(of_tree.value).splitlines()
    assert told == str(of_json.value).splitlines()
    if tree == [1]:
        assert told == ["[1] stands where fields with names are expected"]
    else:
        with pytest.raises(StudyError) as of_file:
            Study.load(file)
        assert told == [line.removeprefix(f"{file}:").partition(": ")[2] for line in str(of_file.value).splitlines()]


def test_text_that_is_no_json_is_one_sentence():
    with pytest.raises(StudyError, match=r"^this is no JSON: [^\n]*$"):
        Study.model_validate_json("{")


def test_a_part_built_from_plain_values_says_what_is_wrong_with_it_and_a_model_inside_a_tree_keeps_its_place():
    with pytest.raises(StudyError) as error:
        Flow.model_validate({"client": "a", "server": "b", "transport": "tpc"})
    assert str(error.value) == "transport: 'tpc' is not allowed here; allowed are 'mptcp', 'tcp', 'udp'"
    tree = {**yaml.safe_load(APART), "flows": {"f": Flow(client="a", server="x")}}
    with pytest.raises(StudyError, match=r'^flows\.f\.server: there is no node "x"'):
        Study.model_validate(tree)
