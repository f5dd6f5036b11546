"""Studies that a stranger sent."""

import copy
import re
import string
import time
from itertools import pairwise

import pytest
import yaml
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from study_data import written
from wrong_inputs import BASE, SHAPE

from polypath import Study, StudyError

HEAD = BASE.replace("seeds: 1\n", "")
ITEMS = ["x", *(f"*{name}" for name in "abcdef")]
BOMB = "".join(f"{name}: &{name} [{', '.join([item] * 9)}]\n" for name, item in zip("abcdefg", ITEMS, strict=True))


def links(number):
    return "".join(f"    x{each}: {{ends: [a, b], both: {{rate: 1mbit}}}}\n" for each in range(number))


# What stands in the file -> its line, and a part of the sentence.
TEXTS = {
    "aliases in lists of aliases": (HEAD + BOMB, "19: the file has more than 150,000 values, with those that aliases repeat"),
    "many values": (HEAD + f"parameters: {{z: [{'x, ' * 200_000}]}}", "14: the file has more than 150,000 values"),
    "an alias within its anchor": ("name: &a [*a]\n", "1: the alias *a stands inside of what it names, which has no end"),
    "three thousand lists": ("[" * 3000, "1: values stand more than 50 levels deep"),
    "lists of lists on lines": ("- " * 3000, "1: values stand more than 50 levels deep"),
    "a billion seeds": (HEAD + "seeds: 1000000000\n", "14: seeds: 1000000000 repetitions are too many; the most is 1,000,000"),
    "seeds as a float": (HEAD + "seeds: 9e29\n", "14: seeds: 9e+29 is no number of repetitions"),
    "seeds with thirty digits": (HEAD + f"seeds: {'9' * 30}\n", f"14: seeds: {'9' * 30} repetitions are too many"),
    "a number of five thousand digits": (HEAD + f"seeds: {'9' * 5000}\n", "14: a number of 5000 digits is none that a study needs"),
    "a number beyond counting": (HEAD + "parameters: {a: 1e999}\n", "14: the number 1e999 is larger than this program can count"),
    "an alias that is cut off": ("name: *", "1: this is no YAML: expected alphabetic or numeric character, but found '\\x00'"),
    "a quote that is cut off": ('name: "a\n', "2: this is no YAML: found unexpected end of stream"),
    "a date": ("name: !!timestamp x\n", "1: tags such as !!timestamp are not used in studies"),
    "a tag of Python": ("name: !!python/name:os.system\n", "1: tags such as !!python/name:os.system are not used"),
    "a call of Python on a list": (
        "name: !!python/object/apply:os.system [id]\n",
        "1: tags such as !!python/object/apply:os.system are not used",
    ),
    "a tag of one's own": ("name: !mine x\n", "1: tags such as !mine are not used"),
    "an escape beyond Unicode": ('name: "\\UFFFFFFFF"\n', "1: this is no YAML: an escape here names no character"),
    "half a character": ('name: "\\uD800"\n', "1: an escape here names half a character"),
    "a list as a name": ("{[a, b]: 1}\n", "1: a field's name must be a word"),
    "a raw control character": ("name: a\x1bb\n", "1: this is no text: the character number 0x1b may not stand in YAML"),
    "many open braces": ("a: 'x\n" + "{" * 100_000, "2: this is no YAML"),
    "many mistakes": (HEAD + "".join(f"x{number}: 1\n" for number in range(20_000)), "14: x0: there is no field `x0` here"),
    "many placeholders without an end": (HEAD + f'title: "{"${" * 100_000}"\n', '14: title: "${${'),
    "many places without an end": (HEAD + f"conclusion: '{'{{ ' * 30_000}'\n" + "x: 1\n", "15: x: there is no field `x` here"),
    "a long quantity": (
        BASE.replace(SHAPE, f"{{rate: '1{' ' * 100_000}x'}}"),
        '9: topology.links.l2.both.rate: a rate is a few letters like "50mbit", and here stand 100002',
    ),
    "many links": (
        BASE.replace("    l1:", links(1100) + "    l1:"),
        "7: topology.links: too many values: at most 1000 expected",
    ),
    "many large cells": (
        BASE.replace("    l1:", links(500) + "    l1:")
        .replace("{cc: [cubic, reno]}", "{cc: [cubic, reno], number: [" + ", ".join(map(str, range(1000))) + "]}")
        .replace("transport: tcp", 'transport: tcp, count: "${number}"'),
        "513: matrix: 2000 cells of 506 nodes, links and flows each are too many; the most is 200,000 in all",
    ),
}


def refused(folder, content):
    """The sentence about a file, without its name; it comes within seconds."""
    file = folder / "study.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    begun = time.process_time()
    with pytest.raises(StudyError) as error:
        Study.load(file)
    assert time.process_time() - begun < 20
    return str(error.value).removeprefix(f"{file}:").replace(f"\n{file}:", "\n")


@pytest.mark.parametrize("content, expected", TEXTS.values(), ids=TEXTS.keys())
def test_a_file_that_is_no_study_is_one_sentence(tmp_path, content, expected):
    told = refused(tmp_path, content)
    assert told.startswith(expected), told[:300]


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path):
    assert refused(tmp_path, b"name: a\ntitle: \xff\n") == "2: this is no text in UTF-8: the byte 0xff stands here"
    assert refused(tmp_path, b"# " + b"x" * 4_000_000).startswith("1: the file has 4,000,002 bytes; a study has at most 4,000,000")


RECORDED = {
    "a trace of bytes": (b"\xd4\xb2\x14\x1b]52;c;eA==\x07\n", 'file.trace:1: "\ufffd\ufffd\\x14\\x1b]52;c;eA==\\x07" is no time'),
    "a time of many digits": (b"1\n" + b"9" * 5000 + b"\n", 'file.trace:2: "99999999999999999999" is no time'),
    "a row longer than the header": (b"time,rate\n0s,1mbit,5ms\n", "file.csv:2: the row has 3 cells, and the table 2 columns"),
    "a row shorter than the header": (b"time,rate\n0s\n", "file.csv:2: the row has 1 cells, and the table 2 columns"),
    "a header alone": (b"time,rate\n", "file.csv:1: the table has no row"),
    "a header twice": (b"time,rate,rate\n0s,1mbit,2mbit\n", "file.csv:1: the columns are time, rate, rate"),
    "a table of bytes": (b"\x1b[2J\xff,\x00\n1,2\n", "file.csv:1: the columns are \\x1b[2J\ufffd, \\x00"),
    "a cell of bytes": (b"time,rate\n0s,\x1b[2J\n", 'file.csv:2: rate: "\\x1b[2J" is no rate'),
    "more than any recording": (b"\n" * 32_000_001, "file.trace has 32,000,001 bytes; a recorded link has at most 32,000,000"),
    "a cell that is long": (b"time,rate\n0s," + b"1" * 200_000 + b"\n", "file.csv is no table: field larger than field limit"),
}


@pytest.mark.parametrize("content, expected", RECORDED.values(), ids=RECORDED.keys())
def test_a_recorded_link_that_is_none_is_one_sentence(tmp_path, content, expected):
    name = expected.split(":")[0].split(" ")[0]
    kind = "trace" if name.endswith(".trace") else "table"
    (tmp_path / name).write_bytes(content)
    told = refused(tmp_path, BASE.replace(SHAPE, f"[{{kind: {kind}, file: {name}}}]"))
    assert told.startswith(f"9: topology.links.l2.both[0]: {expected}"), told


def test_a_recorded_link_is_of_the_studys_folder_alone(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    (tmp_path / "outside.trace").write_text("1\n")
    (folder / "inside.trace").write_text("1\n")
    (folder / "link.trace").symlink_to("../outside.trace")
    (folder / "short.trace").symlink_to("inside.trace")
    leads_out = {
        "../outside.trace": '"../outside.trace" leads out of the study\'s folder',
        str(tmp_path / "outside.trace"): f'"{tmp_path}/outside.trace" leads out of the study\'s folder',
        "x/../../outside.trace": '"x/../../outside.trace" leads out of the study\'s folder',
        "link.trace": '"link.trace" is a link that leads out of the study\'s folder',
    }
    for name, sentence in leads_out.items():
        told = refused(folder, BASE.replace(SHAPE, f"[{{kind: trace, file: {name}}}]"))
        assert told.startswith(f"9: topology.links.l2.both[0]: {sentence}"), told
    written(folder, BASE.replace(SHAPE, "[{kind: trace, file: short.trace}]"))


SOUND = [
    BASE,
    BASE.replace(
        "seeds: 1\n",
        "seeds: [1, 2]\nmeasure: {window: [500ms, 2s], capture: ['a:l1']}\nconclusion: '{{ goodput_receiver_mbps where cc=reno }}'\n",
    ),
    BASE.replace(
        SHAPE, "[{kind: rate, rate: 10mbit, aqm: codel}, {kind: delay, delay: 5ms, jitter: 1ms}, {kind: loss, share: 1%}]"
    ).replace("transport: tcp", "transport: mptcp, path_manager: fullmesh, scheduler: default"),
]
# Between spaces, and what has spaces or ends of lines in it.
SCRAPS = re.split(
    " ",
    r"""[ ] { } &a *a ' " \\ ${ ${cc} {{ }} # % ~ 1e9 -1 0x10 null true .inf 1mbit 0mbit 1e308mbit 1,5ms 100% ../x [] {} 1h é""",
)
SCRAPS += [": ", "- ", "!!int ", "? ", "| ", "\n", "\t", "9" * 25, "\x00", "\x1b[2J", "\u202e", "\ud7ff"]
KINDS = ["insert", "replace", "delete", "double", "cut"]
EDITS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.floats(0, 1), st.integers(0, 30), st.sampled_from(SCRAPS)),
    min_size=1,
    max_size=4,
)


def edited(text, edits):
    for how, where, length, scrap in edits:
        at = int(where * len(text))
        taken = text[at : at + length]
        middle = {"insert": scrap + taken, "replace": scrap, "delete": "", "double": taken + taken, "cut": taken}[how]
        text = text[:at] + middle + ("" if how == "cut" else text[at + length :])
    return text


def is_a_study_or_a_sentence(file):
    """Soon, and the sentence names file and line."""
    begun = time.process_time()
    try:
        Study.load(file)
    except StudyError as error:
        for line in str(error).splitlines():
            assert re.match(rf"{re.escape(str(file))}:\d+: \S", line) or line.endswith("more mistakes are not told"), line
    assert time.process_time() - begun < 10


@seed(20260101)
@settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.sampled_from(SOUND), edits=EDITS)
def test_a_study_with_random_edits_is_a_study_or_a_sentence(tmp_path, text, edits):
    file = tmp_path / "study.yaml"
    file.write_text(edited(text, edits), encoding="utf-8")
    is_a_study_or_a_sentence(file)


@seed(20260102)
@settings(max_examples=100, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.text(max_size=200), st.text(alphabet=string.punctuation + " \n\tab1", max_size=200)))
def test_any_text_is_a_sentence(tmp_path, text):
    file = tmp_path / "study.yaml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    with pytest.raises(StudyError) as error:
        Study.load(file)
    assert str(error.value).startswith(f"{file}:")


def test_a_file_of_paths_is_read_as_a_study_is(tmp_path, polypath):
    file = tmp_path / "paths.yaml"
    file.write_text(
        "a: &a [x, x]\n" + "".join(f"{name}: &{name} [*{before}, *{before}]\n" for before, name in pairwise("abcdefghijklmnopqrstuvw"))
    )
    file.write_text(file.read_text() + "paths: {dsl: *w}\n")
    code, out, err = polypath("advise", "--file", file, "--for", "upload")
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"polypath: {re.escape(str(file))}:\d+: the file has more than 150,000 values, .*\n", err)


PLACES = {
    "a placeholder in a claim": (
        "claims: [{id: x, sentence: y, check: '${cc}'}]\n",
        '15: claims[0].check: "${cc}" stands here, and only topology, flows, duration, measure and kernel hold placeholders',
    ),
    "a placeholder as seeds": ("seeds: '${cc}'\n", '14: seeds: "${cc}" stands here, and only topology'),
    "a placeholder in a distribution": (
        "draw: {number: 2, parameters: {x: {choice: '${cc}'}}}\n",
        "15: draw.parameters.x: a distribution holds no placeholder",
    ),
    "lists to choose from": ("draw: {number: 2, parameters: {x: {choice: [[1], [2]]}}}\n", "15: draw.parameters.x.choice: "),
    "a value that is a placeholder": ("parameters: {y: '${cc}'}\n", '9: topology.links.l2.both.jitter: "${cc}" stands here still when'),
}


@pytest.mark.parametrize("text, expected", PLACES.values(), ids=PLACES.keys())
def test_placeholders_stand_in_the_set_up_alone(tmp_path, text, expected):
    base = BASE.replace("seeds: 1\n", "") if text.startswith("seeds") else BASE
    base = base.replace(SHAPE, SHAPE.replace("}", ", jitter: '${y}'}")) if "y:" in text else base
    told = refused(tmp_path, base + text)
    assert told.startswith(expected), told


VALUES = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    10**30,
    1e-9,
    1e300,
    "",
    "0ms",
    "99999h",
    "0bit",
    "400gbit",
    "0B",
    "9999TB",
    "0packets",
    "100%",
    "${cc}",
]
VALUES += [
    "${nope}",
    "10.0.0.1",
    "../x",
    [],
    {},
    [1, 2],
    ["a", "b"],
    {"a": 1},
    {"kind": "x"},
    [[["x"]]],
    "\x1b[2J",
    "é" * 70,
    "a" * 65,
    "udp",
    "5g",
]
TREES = [yaml.safe_load(text) for text in SOUND]


def ways(tree, way=()):
    """Where something stands in a tree."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield (*way, key)
        yield from ways(value, (*way, key))


@seed(20260103)
@settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tree=st.sampled_from(TREES),
    edits=st.lists(st.tuples(st.floats(0, 0.999), st.booleans(), st.sampled_from(VALUES)), min_size=1, max_size=3),
)
def test_a_study_with_other_values_in_it_is_a_study_or_a_sentence(tmp_path, tree, edits):
    tree = copy.deepcopy(tree)
    for where, removes, value in edits:
        there = list(ways(tree))
        *before, last = there[int(where * len(there))]
        inner = tree
        for key in before:
            inner = inner[key]
        if removes:
            del inner[last]
        else:
            inner[last] = copy.deepcopy(value)
    file = tmp_path / "study.yaml"
    file.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    is_a_study_or_a_sentence(file)
