"""The first packet in which two engines part: names, places, times, and what senders knew."""

import dataclasses

import pyarrow as pa
import pytest
from study_data import one_link

from polypath.engines import SimEngine, diverge
from polypath.engines._diverge import Divergence, Passing, describe_divergence, first_difference, last_before, named
from polypath.pcap import Listed
from polypath.study import load, runs

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 5000)
SAME = [
    Passing(0.0, "a:l", "10.0.0.1 > 10.0.0.2 S 0:0(0) win 64240 <mss 1460>"),
    Passing(0.01, "b:l", "10.0.0.1 > 10.0.0.2 S 0:0(0) win 64240 <mss 1460>"),
    Passing(0.01, "b:l", "10.0.0.2 > 10.0.0.1 S. 0:0(0) ack 1 win 65160 <mss 1460>"),
    Passing(0.02, "a:l", "10.0.0.2 > 10.0.0.1 P. 1:101(100) ack 1 win 502 <dss dack8=1 dsn8=1 ssn=1 dll=100 nocs, sack 1:2>"),
]


def changed(number, **fields):
    return [*SAME[:number], dataclasses.replace(SAME[number], **fields), *SAME[number + 1 :]]


@pytest.mark.parametrize(
    ("linux", "ignore", "found"),
    [
        (SAME, (), None),
        (changed(2, at=0.010_09), (), None),
        (changed(2, at=0.0102), (), ("b:l", 1)),
        (changed(3, text=SAME[3].text.replace("win 502", "win 501")), (), ("a:l", 1)),
        (changed(3, text=SAME[3].text.replace("win 502", "win 501")), ("win",), None),
        (changed(3, text=SAME[3].text.replace("P.", ".")), ("psh",), None),
        (changed(3, text=SAME[3].text.replace("dll=100", "dll=900")), ("win", "psh"), ("a:l", 1)),
        (changed(3, text=SAME[3].text.replace("dll=100", "dll=900")), ("dss",), None),
        (changed(3, text=SAME[3].text.replace("sack 1:2", "sack 1:3")), ("dss",), ("a:l", 1)),
        (SAME[:3], (), ("a:l", 1)),
        # Of two the one that passes first.
        (changed(1, text="another")[:3], (), ("b:l", 0)),
    ],
)
def test_the_first_segment_that_differs_is_found(linux, ignore, found):
    assert first_difference(SAME, linux, tolerance_s=0.0001, ignore=ignore) == found


def test_ports_are_no_difference_and_what_senders_knew_before_is_told():
    def listed(port, start):
        return [
            Listed(start, 0, (CLIENT[0], port), SERVER, "S 0:0(0)"),
            Listed(start + 10**9, 0, SERVER, (CLIENT[0], port), "S. 0:0(0) ack 1"),
            Listed(start + 10**9, 0, (CLIENT[0], port + 1), SERVER, "S 0:0(0)"),
        ]

    ours = named(listed(40000, 0), ["a:l"])
    assert ours == named(listed(32768, 17 * 10**17), ["a:l"])
    assert [one.text for one in ours][1:] == ["10.0.0.2 > 10.0.0.1 S. 0:0(0) ack 1", "10.0.0.1 > 10.0.0.2 #2 S 0:0(0)"]
    series = pa.table({"time_ns": [0, 1, 2, 2], "flow": [0, 0, 0, 1], "subflow": [0, 0, 0, 0], "cwnd": [10, 11, 12, 7], "mss": [1] * 4})
    assert last_before(series, 1) == {(0, 0): {"cwnd": 11}}
    one = Divergence("a:l", SAME[0], None, 0, (SAME[:1], []), ({(0, 0): {"cwnd": 11}}, {(0, 0): {"cwnd": 12}}))
    text = describe_divergence(one, ["f"])
    assert "nothing more" in text
    assert "what the sender of f, subflow 0, knew before" in text
    assert any(line.split() == ["cwnd", "11", "12", "*"] for line in text.splitlines())


FLOW = "transport: tcp, cc: reno, app: {kind: transfer, size: 300kB}"
STUDY = one_link("one", "{rate: 20mbit, delay: 10ms, queue: QUEUEpackets}", FLOW, duration="5s")


def scenario(tmp_path, queue):
    file = tmp_path / f"{queue}.yaml"
    file.write_text(STUDY.replace("QUEUE", str(queue)))
    return next(iter(runs(load(file), engine="sim", version="1"))).scenario


def test_two_runs_part_where_a_queue_overflows(tmp_path):
    engines = (SimEngine(), SimEngine())
    wide = scenario(tmp_path, 500)
    assert diverge(engines, (wide, wide), tolerance_s=0) is None
    found = diverge(engines, (wide, scenario(tmp_path, 20)), tolerance_s=0)
    assert found is not None
    assert found.place == "b:l"
    assert found.same > 10
    assert found.at > 0.01
    assert found.state[0] == found.state[1] != {}
    assert [one[5].text for one in found.around] == [found.sim.text, found.linux.text]
    assert max(len(one) for one in found.around) == 10


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{study}", "--ignore", "window"], '--ignore: a segment has no part "window"; there are win, dss, psh'),
        (["{study}", "--only", "cc=cubic"], "cc"),
    ],
)
def test_the_command_says_what_is_wrong(polypath, tmp_path, arguments, sentence):
    study = tmp_path / "one.yaml"
    study.write_text(STUDY.replace("QUEUE", "50"))
    code, _, err = polypath("diverge", *(argument.format(study=study) for argument in arguments))
    assert (code, sentence in err) == (2, True)
