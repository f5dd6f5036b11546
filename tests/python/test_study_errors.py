"""Every mistake in a study file ends in one sentence with file, line, field and what is allowed."""

import json

import pytest
import yaml
from study_data import STUDY, changed, written

from polypath import Flow, Link, Study, StudyError

FIRST = "first: {ends: [client, middle], both: {rate: 50mbit, queue: 100packets, delay: 5ms}}"

MISTAKES = {
    "repetitions over an unknown parameter": (
        (("seeds: 2", "seeds: 2\nrepeat_over: [start]"),),
        '21: repeat_over[0]: there is no parameter "start"; there are cc, rate',
    ),
    "a link that does nothing": (
        ((FIRST, "first: {ends: [client, middle]}"),),
        "9: topology.links.first: the link has neither rate nor delay; give `both:` or `forward:` and `backward:` "
        "(in the cell cc=lia, rate=20mbit)",
    ),
    "a change of what a link has not": (
        ((FIRST, "first: {ends: [client, middle], both: {delay: 5ms, changes: [{at: 1s, rate: 5mbit}]}}"),),
        "9: topology.links.first.both: `changes` give a rate, but the link has none to begin with; add `rate:` beside them",
    ),
    "a queue management that a parameter gives": (
        (("queue: 100packets", 'queue: 100packets, aqm: "${q}"'), ("cc: [lia, olia]", "cc: [lia, olia]\n  q: [codel, blue]")),
        '9: topology.links.first.both.aqm: there is no queue management "blue"; there are codel, fq_codel, pie, dualpi2, none, red '
        "(with its `min` and `max`) (in the cell cc=lia, q=blue, rate=20mbit)",
    ),
    "half a window": ((("seeds: 2", "seeds: 2\nmeasure: {window: [1s]}"),), "21: measure.window: one value is missing: 2 are expected"),
    "a link that is a text": (
        ((FIRST, "first: {ends: [client, middle], both: 50mbit}"),),
        '9: topology.links.first.both: "50mbit" stands where fields with names are expected',
    ),
    "a missing field": ((("server: server, ", ""),), "15: flows.bulk: the field `server` is missing"),
    "an unknown client": (
        (("bulk: {client: client", "bulk: {client: clint"),),
        '15: flows.bulk.client: there is no node "clint"; did you mean "client"? there are client, middle, server '
        "(in the cell cc=lia, rate=20mbit)",
    ),
    "an address of somebody else": (
        (('cc: "${cc}"}', 'cc: "${cc}", client_address: 10.9.0.2}'),),
        '15: flows.bulk.client_address: "client" has no address 10.9.0.2; it has 10.0.1.1, 10.0.2.1 (in the cell cc=lia, rate=20mbit)',
    ),
    "an address of a host and of its link": (
        (("    client:\n", "    client: {addresses: [10.0.1.1]}\n"),),
        "5: topology.nodes.client.addresses: the address 10.0.1.1 belongs to topology.links.first.ends[0] already "
        "(in the cell cc=lia, rate=20mbit)",
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
        '15: flows.bulk.profile: `profile: ${p}` is now `kernel: "${p}"` of the study, an experiment or a host, '
        'with "5.4-mptcp" for v0, "6.12" for v1',
    ),
    "a profile that never was": (
        (('cc: "${cc}"}', 'cc: "${cc}", profile: [v0]}'),),
        "15: flows.bulk.profile: there is no field `profile` any more: `kernel` of the study, an experiment or a host says "
        "which Linux a host is",
    ),
    "a list of kernels": (
        (("seeds: 2", "seeds: 2\nkernel: ['6.1']"),),
        '21: kernel: ["6.1"] stands where a text is expected; several values go into `matrix: {kernel: ["6.1"]}`, '
        'with `kernel: "${kernel}"` here',
    ),
    "a parameter called kernel that is none": (
        (("seeds: 2", "seeds: 2\nparameters: {kernel: minrtt}"), ('cc: "${cc}"}', 'cc: "${cc}", scheduler: "${kernel}"}')),
        "21: parameters: a parameter `kernel` says which kernel a host is, and no `kernel:` takes it: call it otherwise",
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
    "a field that no other is like": (
        (("    server:\n", "    server: {colour: red}\n"),),
        "7: topology.nodes.server.colour: there is no field `colour` here; there are addresses, kernel, mtu_search, router, sysctl",
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
    assert written(tmp_path, STUDY).name == "small"


def test_a_mistake_in_python_is_one_sentence_too():
    with pytest.raises(StudyError, match=r"^both\.delay: the bare number 5 has no unit; [^\n]*$"):
        Link(ends=("a", "b"), both={"delay": 5})
    with pytest.raises(StudyError, match=r"^this is no JSON: [^\n]*$"):
        Study.model_validate_json("{")
    with pytest.raises(StudyError) as error:
        Flow.model_validate({"client": "a", "server": "b", "transport": "tpc"})
    assert str(error.value) == 'transport: "tpc" is not allowed here; allowed are mptcp, tcp, udp'
    tree = {**yaml.safe_load(APART), "flows": {"f": Flow(client="a", server="x")}}
    with pytest.raises(StudyError, match=r'^flows\.f\.server: there is no node "x"'):
        Study.model_validate(tree)


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
        '8: flows.f.transport: "tpc" is not allowed here; allowed are mptcp, tcp, udp',
        '9: flows.g.app: there is no kind "bulkk"; there are bulk,',
        "10: durration: there is no field `durration` here; did you mean `duration`?",
        "11: seeds: 2.5 is no number of repetitions",
    ]
    assert len(told) == len(expected)
    assert all(line.startswith(start) for line, start in zip(told, expected, strict=True)), told
    file.write_text(APART)
    with pytest.raises(StudyError) as error:
        Study.load(file)
    assert [line.removeprefix(f"{file}:").split(": ")[1] for line in str(error.value).splitlines()] == [
        "flows.f.server",
        "flows.g.server",
        "flows.h.start",
    ]


APART = (
    SEVERAL.split("flows:")[0].replace("dellay", "delay").replace("10mbps, queue: 50", "10mbit")
    + "flows:\n  f: {client: a, server: x}\n  g: {client: a, server: a}\n  h: {client: a, server: b, start: 9s}\nduration: 2s\n"
)
"""Each part by itself is well written."""


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
