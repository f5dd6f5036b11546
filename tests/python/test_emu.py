"""From a topology file to what the emulator takes; nothing here needs root or touches the machine."""

import re
from pathlib import Path

import pytest

from polypath import emu
from polypath.study import StudyError, load_setup, scenario

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "emulator.md"

TWO_WAYS = """
topology:
  nodes:
    a: {addresses: [10.99.0.1]}
    r: {router: true}
    b:
  links:
    left: {ends: [a, r], both: {rate: 10mbit, delay: 5ms}}
    right: {ends: [r, b], forward: {delay: 1ms}, backward: {mtu: 1000B}}
    short: {ends: [a, b], both: {delay: 1ms}}
"""


def network(tmp_path, text, **options):
    file = tmp_path / "topology.yaml"
    file.write_text(text)
    return emu.network(scenario(load_setup(file), 1), **options)


def test_ends_of_links_are_cabled_and_reach_one_another(tmp_path):
    made = network(tmp_path, TWO_WAYS, plain=["short"])
    cables = [tuple(f"{cable[end]['namespace']} {cable[end]['device']}" for end in "ab") for cable in made["plan"]["cables"]]
    assert cables == [("a l0", ".wire w0a"), ("r l1", ".wire w1a"), ("a l2", "b l2"), (".wire w0b", "r l0"), (".wire w1b", "b l1")]
    assert made["links"] == [{"link": 0, "a": "w0a", "b": "w0b"}, {"link": 1, "a": "w1a", "b": "w1b"}]
    macs = [cable[end]["mac"] for cable in made["plan"]["cables"] for end in "ab"]
    assert len(set(macs)) == len(macs)
    # What links do is the emulator's to know, and not the plan's.
    assert made["plan"]["disciplines"] == made["plan"]["redirects"] == []
    assert [element["kind"] for element in made["scenario"]["links"][0]["a_to_b"]] == ["rate", "delay"]
    routes = network(tmp_path, TWO_WAYS)["plan"]["routes"]
    at_a = {(route["to"], route.get("source")): route["device"] for route in routes if route["namespace"] == "a"}
    # b's address on the short link is one hop away, that on the right link is behind the router.
    assert at_a["10.0.3.2", None] == "l2"
    assert at_a["10.0.2.2", None] == "l0"
    back = {(route["to"], route.get("source")): route["device"] for route in routes if route["namespace"] == "b"}
    assert back["10.99.0.1", "10.0.2.2"] == "l1"
    assert back["10.99.0.1", "10.0.3.2"] == "l2"
    flows = "flows: {f: {client: a, server: b}}\nmatrix: {rate: [7mbit, 8mbit]}\n"
    text = TWO_WAYS.replace("10mbit", '"${rate}"') + "name: s\nduration: 1s\n" + flows
    assert network(tmp_path, text)["scenario"]["links"][0]["a_to_b"][0]["bits_per_s"] == 7_000_000


def test_the_example_of_the_guide_can_be_built(tmp_path):
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(network(tmp_path, block)["links"]) == 3
    topology_only = re.sub(r"^(name|duration|flows):.*\n(  .*\n)*", "", block, flags=re.M)
    assert topology_only.startswith("topology:") and "flows" not in topology_only
    assert len(network(tmp_path, topology_only)["links"]) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("topology:\n  nodes: {a: , b: }\n", "topology.yaml:1: topology: there is nothing to build: the file needs a `topology:`"),
        ("nodes: {a: , b: }\n", "there is nothing to build"),
        ("topology:\n  nodes: {a: , b: }\n  links:\n    l: {ends: [a, c], both: {delay: 1ms}}\n", 'topology.yaml:4: .*no node "c"'),
    ],
)
def test_mistakes_are_named_by_file_and_line(tmp_path, text, sentence):
    with pytest.raises(StudyError, match=sentence):
        network(tmp_path, text)


def test_what_no_lab_can_have_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(emu._lab, "require_root", lambda: None)
    file = tmp_path / "topology.yaml"
    nodes, links = (
        "{a: , r: {router: true}, b: , c: }",
        "{one: {ends: [a, r], both: DELAY}, two: {ends: [r, b], both: DELAY}, three: {ends: [r, c], both: DELAY}}",
    )
    links = links.replace("DELAY", "{delay: 1ms}")
    file.write_text(f"topology:\n  nodes: {nodes}\n  links: {links}\n")
    with pytest.raises(emu.EmuError, match="does not know who opens connections to whom: give the file `flows:`"):
        emu.up(str(file), load_setup(file), mptcp=True)
    flows = "{f: {client: a, server: b, transport: udp, app: {kind: constant, rate: 1mbit}}}"
    file.write_text(f"name: s\nduration: 1s\ntopology:\n  nodes: {nodes}\n  links: {links}\nflows: {flows}\n")
    with pytest.raises(emu.EmuError, match="no connection to serve: the file's flows are all datagrams"):
        emu.up(str(file), load_setup(file), mptcp=True)
    ends = "[{node: a, address: 'fd00::1'}, {node: b, address: 'fd00::2'}]"
    text = f"topology:\n  nodes: {{a: , b: }}\n  links:\n    l: {{ends: {ends}, both: {{delay: 1ms}}}}\n"
    with pytest.raises(emu.EmuError, match="IPv6"):
        network(tmp_path, text)
