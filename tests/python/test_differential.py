"""Scripts of packets on two engines: what counts as a difference, random scripts, and shrinking."""

import dataclasses

import pytest

from polypath.engines._differential import Happening, parting, record, shrink
from polypath.engines._random_scripts import random_script

SAME = [
    Happening(0.0, 3, "done", "connect(3, ..., ...) = -1 EINPROGRESS", {}),
    Happening(0.0, 4, "sent", "> S 0:0(0) win 64240", {"tcpi_rtt": 0}),
    Happening(0.1, 5, "done", "< S. 0:0(0) ack 1", {"tcpi_rtt": 100, "tcpi_snd_cwnd": 10}),
]


def changed(number, **fields):
    return [*SAME[:number], dataclasses.replace(SAME[number], **fields), *SAME[number + 1 :]]


@pytest.mark.parametrize(
    ("linux", "what", "same"),
    [
        (SAME, None, 0),
        (changed(0, text="connect(3, ..., ...) = 0"), "call", 0),
        (changed(1, text="> S 0:0(0) win 65535"), "packet", 1),
        (changed(1, at=0.000_05), None, 0),
        (changed(1, at=0.004), "time", 1),
        (changed(2, info={"tcpi_rtt": 120, "tcpi_snd_cwnd": 10}), None, 0),
        (changed(2, info={"tcpi_rtt": 121, "tcpi_snd_cwnd": 10}), "tcpi_rtt", 2),
        (changed(2, info={"tcpi_snd_cwnd": 11}), "tcpi_snd_cwnd", 2),
        (SAME[:2], "packet", 2),
    ],
)
def test_the_first_difference_is_named(linux, what, same):
    one = parting(SAME, linux, tolerance_s=0.0001)
    assert (one and one.what, one and one.same) == (what, what and same)


def test_a_script_shrinks_to_the_events_without_which_it_does_not_part():
    script = random_script(1, mptcp=False, kernel="6.12")
    needed = {script.events[3], script.events[17], script.events[18]}
    small = shrink(script, lambda tries: [needed <= set(one.events) for one in tries])
    assert (set(small.events), small.opening) == (needed, script.opening)


@pytest.mark.parametrize("mptcp", [False, True])
def test_random_scripts_repeat_by_their_seeds_and_can_all_be_played(mptcp):
    texts = [random_script(seed, mptcp=mptcp, kernel="6.12").text() for seed in range(100)]
    assert texts == [random_script(seed, mptcp=mptcp, kernel="6.12").text() for seed in range(100)]
    assert len(set(texts)) == 100
    records = record(texts, kernel="6.12")
    assert [answer for answer in records if isinstance(answer, str)] == []
    assert all(sum(one.kind == "sent" for one in answer) >= 3 for answer in records)


def test_a_script_that_cannot_be_played_is_a_sentence():
    assert record(["0 dance(3)"], kernel="6.12")[0].startswith("0.pkt:1: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "no script is given"),
        (("--differential", "none.pkt"), "there is no script none.pkt"),
        (("--seed", "1", __file__), "--seed and --out mean nothing without --random N"),
        (("--tolerance", "1", __file__), "--tolerance means nothing without"),
    ],
)
def test_the_command_says_what_is_missing(polypath, arguments, sentence):
    code, _, err = polypath("script", *arguments)
    assert (code, sentence in err) == (2, True)
