"""The advisor: what people say of their paths, what is drawn and searched."""

import io
import itertools
import json
import math
import os
import re
import runpy
import shutil
import subprocess
from dataclasses import replace

import pytest
import yaml
from requirement import lacking
from rich.console import Console

from polypath import Study, plan, run
from polypath.advise import (
    AdviceError,
    Path,
    Question,
    Setting,
    Span,
    advise,
    candidates,
    commands,
    completed,
    linux_default,
    path_in_words,
    paths_in,
    paths_of_file,
    ratio,
    script,
    uplinks,
    weighted,
)
from polypath.advise._answer import Left, answer
from polypath.advise._budget import ENOUGH, Budget, budget
from polypath.advise._harm import harm
from polypath.advise._networks import drawn
from polypath.advise._ranking import ranking
from polypath.advise._score import score
from polypath.advise._search import FINALISTS, compared_in, needed, schedule, search
from polypath.advise._shared import shared
from polypath.advise._study import study
from polypath.advise._trials import Trials
from polypath.cli import _advised
from polypath.doctor import Address, Device, Facts
from polypath.engines import find
from polypath.pcap import analyse
from polypath.study import cells, scenario

# Slow links, so that a run costs little.
WORDS = ("6/2mbit 20ms", "3/1mbit 60ms jitter 10ms loss 0..0.2%")
PATHS = tuple(path_in_words(text, number) for number, text in enumerate(WORDS, start=1))


def span(low, high=None):
    return Span(low=low, high=low if high is None else high)


def asked(uses="download", paths=PATHS):
    return Question(paths=paths, weights=weighted(uses))


def test_a_path_in_words():
    path = path_in_words("50/10mbit 20ms jitter 5ms loss 0.1% queue 80ms dev wlan0 address 10.0.0.2 via 10.0.0.1", 1)
    assert (path.down, path.up, path.rtt) == (span(50e6), span(10e6), span(20e6))
    assert (path.jitter, path.loss, path.queue) == (span(5e6), span(0.001), span(80e6))
    assert (path.name, path.device, path.address, path.gateway) == ("wlan0", "wlan0", "10.0.0.2", "10.0.0.1")
    written = path_in_words("DSL: 50/10 Mbit/s 20 ms jitter 5 ms loss 0.1 %", 1)
    assert written == replace(path_in_words("50/10mbit 20ms jitter 5ms loss 0.1%", 1), name="DSL")
    assert path_in_words("dsl: 30..50 Mbit/s 20ms", 1).down == span(30e6, 50e6)
    with pytest.raises(AdviceError, match="a second name"):
        path_in_words("dsl: 50mbit 20ms name lte", 1)
    for text in (*WORDS, "30..50/8..10mbit 20ms±20% queue 30..90ms", "1gbit 3ms loss 1.5% dev eth0 address 10.0.0.2 via 10.0.0.1"):
        path = path_in_words(text, 1)
        again = path_in_words(path.text(), 1)
        assert again.down.high == pytest.approx(path.down.high) and again.rtt.low == pytest.approx(path.rtt.low)
        assert again.loss.high == pytest.approx(path.loss.high) and again.queue == path.queue and again.device == path.device
    assert isinstance(path_in_words("5mbit 20ms", 3), Path) and path_in_words("5mbit 20ms", 3).name == "path3"


SPANS = {
    "30..50mbit 20ms": ((30e6, 50e6), (30e6, 50e6)),
    "30..50/8..10mbit 20ms": ((30e6, 50e6), (8e6, 10e6)),
    "40mbit±25% 20ms": ((30e6, 50e6), (30e6, 50e6)),
    "40/10mbit±10% 20ms": ((36e6, 44e6), (9e6, 11e6)),
    "1gbit/50mbit 20ms": ((1e9, 1e9), (50e6, 50e6)),
    "40+-5mbit 20ms": ((35e6, 45e6), (35e6, 45e6)),
    "50mbit/s 20ms": ((50e6, 50e6), (50e6, 50e6)),
    "800..900kbit rtt 20ms": ((800e3, 900e3), (800e3, 900e3)),
}


@pytest.mark.parametrize("text", SPANS)
def test_ranges_say_how_uncertain_a_rate_is(text):
    path = path_in_words(text, 1)
    found = ((path.down.low, path.down.high), (path.up.low, path.up.high))
    assert found == (pytest.approx(SPANS[text][0]), pytest.approx(SPANS[text][1]))


WRONG = {
    "": "describes nothing",
    "fifty mbit": '"fifty" is no word of a path; the words are rtt, jitter, loss',
    "50/10mbit": "its round-trip time is missing",
    "20ms": "its rate is missing",
    "50/10 20ms": "the bare number 50 has no unit",
    "50/10mbit 20": "the bare number 20 has no unit",
    "50/10mbit 20ms jiter 5ms": 'did you mean "jitter"?',
    "50/10mbit 20ms jitter 50ms": "a jitter of 50ms is more than the round-trip time",
    "50/10mbit 20ms loss 5": "write per cent",
    "50/10mbit 20ms loss 60%": "the most is 50%",
    "50/10mbit 20ms loss": 'nothing stands behind "loss"; write one, like "loss 0.1%"',
    "DSL 50/10mbit 20ms": 'a name stands first, as in "dsl: ',
    "50/10mbit 20ms loss jitter 1ms": 'nothing stands behind "loss"',
    "50..30mbit 20ms": "write the smaller figure first",
    "50mbit±120% 20ms": "reaches down to nothing",
    "0mbit 20ms": "not between 100kbit and 10gbit",
    "50/10/5mbit 20ms": "no pair of rates",
    "50mbps 20ms": 'no unit "mbps"',
    "50/10mbit 20ms 30ms": "a second round-trip time",
    "50mbit 20ms queue 20s": "no length of a queue",
    "50mbit 0ms": "no round-trip time between",
    "50mbit 20ms address 300.1.1.1": "no address of IPv4",
    "50mbit 20ms address ::1": "no address of IPv4",
    "50mbit 20ms name a/b": "is no name",
    "50mbit 1..2..3ms": "is no figure",
    "50mbit 20ms outage 300ms": '`every` is missing; outages have a length and a distance, like "outage 300ms every 15s"',
    "50mbit 20ms every 15s": "`outage` is missing",
    "50mbit 20ms outage 300 every 15s": "the bare number 300 has no unit",
    "50mbit 20ms outage 3s every 2s": "an outage of 3s is none between 1ms and the time from one to the next, 2s",
    "50mbit 20ms outage 10ms every 20ms": "is not between 500ms and 10 minutes",
    "50mbit 20ms outages 300ms every 15s": 'did you mean "outage"?',
}


@pytest.mark.parametrize("text", WRONG)
def test_a_path_that_says_nothing_sensible_is_one_sentence(text):
    with pytest.raises(AdviceError) as error:
        path_in_words(text, 1)
    assert WRONG[text] in str(error.value)
    assert "\n" not in str(error.value)


def test_uses_have_weights():
    assert weighted("download=2, call=1,web") == {"download": 0.5, "call": 0.25, "web": 0.25}
    for text, sentence in {
        "donwload": 'did you mean "download"?',
        "download,download": "stands there twice",
        "download=0": "write a number above 0",
        "call=much": "write a number above 0",
        "download=nan": "write a number above 0",
        "": "names no use",
        "download,,call": "names no use",
    }.items():
        with pytest.raises(AdviceError, match="--for") as error:
            weighted(text)
        assert sentence in str(error.value)


def test_networks_lie_within_what_is_known_and_depend_on_their_number_alone():
    path = path_in_words("30..50/8..10mbit 15..30ms jitter 5ms loss 0..1% queue 20..80ms", 1)
    networks = [drawn((path,), number)[0] for number in range(1, 200)]
    assert all(30e6 <= each.down <= 50e6 and 8e6 <= each.up <= 10e6 and 7.49e6 <= each.delay <= 15e6 for each in networks)
    assert all(0 <= each.loss <= 0.01 and 0.019 < int(each.down_queue) * 12112 / int(each.down) < 0.081 for each in networks)
    assert len({each.down for each in networks}) > 190
    # A line that is slow one way is slow the other way.
    assert all((each.down - 30e6) / 20e6 == pytest.approx((each.up - 8e6) / 2e6, abs=0.01) for each in networks)
    assert drawn((path, PATHS[0]), 7)[0] == drawn((path,), 7)[0]
    assert str(drawn(PATHS, 1)[1].loss) == "0.0044%"


def test_scores_and_harm_are_ratios_network_by_network():
    weights = {"download": 0.5, "call": 0.5}
    one, other = {"download": 40.0, "call": 20.0}, {"download": 10.0, "call": 10.0}
    # Four times the goodput and twice the delay: sqrt(4 / 2).
    assert math.exp(score(one, weights) - score(other, weights)) == pytest.approx(math.sqrt(2))
    scaled = [{"download": each["download"] / 7, "call": each["call"] / 3} for each in (one, other)]
    assert score(scaled[0], weights) - score(scaled[1], weights) == pytest.approx(score(one, weights) - score(other, weights))
    found = ratio([1.0, 2.0, 3.0], [0.9, 1.9, 2.9])
    assert found.mean == pytest.approx(math.exp(0.1)) and found.low == pytest.approx(found.high)
    wide = ratio([1.0, 3.0], [1.2, 2.7])
    assert wide.low < 1 < wide.high
    assert ratio([1.0], [2.0]).high == math.inf
    found = harm([{1: 5.0, 2: 8.0}, {1: 3.0, 2: 8.0}], [{1: 10.0, 2: 8.0}, {1: 10.0, 2: 8.0}])
    assert found.by_path == pytest.approx((0.6, 0.0)) and found.worst == pytest.approx(0.6)


def test_of_equals_the_one_that_changes_least_is_the_advice_and_ties_are_told():
    default, bbr = Setting(paths="all", cc="cubic"), Setting(paths="all", cc="bbr")
    lia, blest = Setting(paths="all", cc="lia"), Setting(paths="all", cc="bbr", scheduler="blest")
    rows = {default: (5, 5, 5), bbr: (9.95, 10.1, 9.9), lia: (10.2, 9.8, 10.05), blest: (12, 12.1, 11.9)}
    figures = {each.name: [{"download": float(value)} for value in values] for each, values in rows.items()}
    no_harm = harm([{1: 1.0}], [{1: 1.0}])
    found = ranking(list(rows), default, figures, {"download": 1.0}, {each.name: no_harm for each in rows})
    assert found.best.setting == blest
    # What needs another kernel is not advised; lia ties with bbr and asks for more.
    assert found.advice.setting == bbr and found.stock.setting == bbr
    assert not found.advice.ties and found.default.of_best.high < 1


def test_ties_go_to_what_is_left_beside_others_then_to_who_harms_least_then_to_the_smaller_change():
    """Vegas and BBR tied, and beside another TCP Vegas kept 2 of 8 Mbit/s."""
    vegas, bbr = (Setting(paths="all", cc=cc, shaped=True) for cc in ("vegas", "bbr"))
    default, reno = Setting(paths="all", cc="cubic"), Setting(paths="all", cc="reno", shaped=True)
    rows = {vegas: (10.0, 9.9, 10.1), bbr: (9.95, 10.0, 9.97), reno: (10.0, 10.02, 9.9), default: (5.0, 5.1, 4.9)}
    figures = {each.name: [{"upload": value} for value in values] for each, values in rows.items()}

    def chosen(beside, harms):
        alone = [{1: 1.0}]
        lost = {each.name: harm([{1: 1.0 - harms.get(each, 0.0)}], alone) for each in rows}
        told = {each.name: {"upload": beside.get(each, 8.0)} for each in rows}
        return ranking(list(rows), default, figures, {"upload": 1.0}, lost, told)

    found = chosen({vegas: 2.0, reno: 5.0}, {})
    assert found.advice.setting == found.stock.setting == bbr
    assert {place.setting for place in found.equals} == {vegas, reno}
    # What is left is roughly alike: who takes least from others.
    assert chosen({vegas: 7.8}, {bbr: 0.4, vegas: 0.4}).advice.setting == reno
    # All alike: the smaller change, and of equal ones the better score.
    assert chosen({}, {bbr: 0.02}).advice.setting == vegas


def test_what_keeps_more_beside_others_is_named_where_the_advice_keeps_little():
    """Over clean lines Vegas is best, and beside another TCP it has half of what BBR has."""
    vegas, bbr, reno, bbr3 = (Setting(paths="all", cc=cc, shaped=True) for cc in ("vegas", "bbr", "reno", "bbr3"))
    default = Setting(paths="all", cc="cubic")
    rows = {vegas: (10.0, 9.9, 10.1), bbr3: (9.4, 9.3, 9.5), default: (5.0, 5.1, 4.9)}
    figures = {each.name: [{"upload": value} for value in values] for each, values in rows.items()}
    lost = dict.fromkeys(figures, harm([{1: 1.0}], [{1: 1.0}]))
    weights = {"upload": 1.0}

    def named(kept, others=()):
        beside = {each.name: {"upload": value} for each, value in kept.items()}
        found = ranking(list(rows), default, figures, weights, lost, beside)
        assert found.advice.setting == vegas
        told = shared(found, figures, others, beside, weights)
        return told and told.setting, answer(
            asked("upload"), found, beside, 3, lambda setting, name, where: f"{beside[setting.name][name]}", told
        )

    left_over = [Left(setting=each, of_advice=ratio([0.0] * 3, [loss] * 3), networks=3) for each, loss in ((bbr, 0.07), (reno, 0.2))]
    setting, told = named({vegas: 4.5, bbr3: 6.0, default: 6.6, bbr: 9.2, reno: 20.0}, left_over)
    assert setting == bbr
    sentence = "beside a TCP connection of somebody else on each path it is upload 9.2 Mbit/s, the advice upload 4.5 Mbit/s; without them"
    assert any(sentence in each and each.startswith("Where others use these paths, too, take all-bbr-fq_codel:") for each in told)
    # Without BBR it is what needs a module; what is far from the best without others is not named.
    assert named({vegas: 4.5, bbr3: 6.0, default: 6.6})[0] == bbr3
    assert named({vegas: 5.5, bbr3: 6.0, default: 6.6})[0] is None


def test_a_tunnel_stands_beside_mptcp_and_is_never_the_advice():
    default, tunnel = Setting(paths="all", cc="cubic"), Setting(paths="all", cc="bbr", tunnel="earliest")
    figures = {
        default.name: [{"download": each} for each in (5.0, 5.1, 4.9)],
        tunnel.name: [{"download": each} for each in (10.0, 10.3, 9.7)],
    }
    no_harm = harm([{1: 1.0}], [{1: 1.0}])
    found = ranking([default, tunnel], default, figures, {"download": 1.0}, dict.fromkeys(figures, no_harm))
    assert (found.best.setting, found.advice.setting, found.tunnel.setting) == (tunnel, default, tunnel)
    assert found.tunnel_of_advice.low > 1.9
    told = answer(asked(), found, {}, 3, lambda setting, name, where: "5.0")
    assert "tunnel-earliest-bbr, it is 2.00 times as good (95 %:" in told[-1] and told[-1].endswith("take the tunnel.")


def test_a_tunnel_adds_no_path_to_mptcp():
    # An address of a tunnel is one more address of the host, and a full mesh would use it.
    question = asked("download,call")
    tunnel = Setting(paths="all", cc="cubic", tunnel="earliest")
    both = Trials(question)
    both.run([linux_default(PATHS), tunnel], range(1, 2))
    alone = Trials(question)
    alone.run([linux_default(PATHS)], range(1, 2))
    assert list(both.figures(linux_default(PATHS), [1])) == list(alone.figures(linux_default(PATHS), [1]))
    made = study(question, [tunnel], [1])
    assert [path.weight for path in made.topology.tunnels["tunnel"].paths] == [2, 1]


def test_what_is_left_out_carries_nothing():
    three = (*PATHS, path_in_words("2/1mbit 300ms", 3))
    question = asked("download", three)
    trials = Trials(question)
    most = {
        each.paths: each
        for each in candidates(three)
        if each.cc == "cubic" and not each.shaped and each.tunnel is None and each.scheduler == "default" and each.buffer is None
    }
    trials.run(list(most.values()), range(1, 2))
    goodput = {paths: next(iter(trials.figures(each, [1])))["download"] for paths, each in most.items()}
    rates = {path.name: path.down.high / 1e6 for path in three}
    for paths, value in goodput.items():
        assert value < sum(rates[name] for name in (rates if paths == "all" else paths.split("+")))
    # 6 + 3 against 6 + 2: which one is left out is seen.
    assert goodput["path1+path2"] > max(goodput["path1+path3"], rates["path1"])
    some = most["path1+path3"]
    text = script(question, some, "host")
    assert "$ADDRESS1" in text and "$ADDRESS3" in text and "$ADDRESS2" not in text


def test_outages_come_again_and_cost_what_they_cut():
    path = path_in_words("starlink: 6/2mbit 40ms jitter 10ms outage 300ms every 2s", 1)
    assert (path.outage, path.every, path.jitter) == (span(300e6), span(2e9), span(10e6))
    assert path_in_words(path.text(), 1) == replace(path, name="path1") and "outage 300ms every 2s" in path.text()
    ranges = path_in_words("6mbit 40ms outage 100..300ms every 2..4s", 1)
    lines = [drawn((ranges,), number)[0] for number in range(1, 100)]
    assert all(100e6 <= each.outage <= 300e6 and 2e9 <= each.every <= 4e9 and 0 <= each.begins < each.every for each in lines)
    assert len({each.begins for each in lines}) > 90
    question = asked("download", (path,))
    made = scenario(cells(study(question, [linux_default((path,))], [1]))[0].setup, 1)
    (chain,) = (each["a_to_b"] for each in made["links"] if each["name"] == "starlink")
    spans = next(element for element in chain if element["kind"] == "down")["spans_ns"]
    begins = int(drawn((path,), 1)[0].begins)
    assert len(spans) == question.seconds[1] / 2
    # The last one is longer than the run.
    expected = [[begins + number * 2 * 10**9, begins + number * 2 * 10**9 + 300 * 10**6] for number in range(len(spans))]
    assert spans[:-1] == expected[:-1] and spans[-1] == [expected[-1][0], question.seconds[1] * 10**9 - 1]
    # The whole window counts: an outage of each period lies in it.
    assert question.seconds[1] - question.seconds[0] >= 8
    rare = asked("download", (path_in_words("6mbit 40ms outage 300ms every 15s", 1),))
    assert rare.seconds[1] - rare.seconds[0] == 15
    words = "6mbit 20ms queue 50ms"
    lossless, cut = (Trials(asked("download", (path_in_words(f"{words}{more}", 1),))) for more in ("", " outage 1s every 4s"))
    for trials in (lossless, cut):
        trials.run([linux_default(trials.question.paths)], range(1, 2))
    before, after = (next(iter(trials.figures(linux_default(trials.question.paths), [1])))["download"] for trials in (lossless, cut))
    # A quarter of the time nothing passes, and what comes back has to begin anew.
    assert 0.4 * before < after < 0.78 * before


def test_the_candidates_begin_with_linux_differ_and_can_be_loaded(polypath):
    settings = candidates(PATHS)
    assert settings[0] == linux_default(PATHS) == Setting(paths="all", cc="cubic")
    assert len({each.name for each in settings}) == len(settings) == 64
    assert {each.needs for each in settings} == {"stock", "ours", "other", "tunnel"}
    assert {each.tunnel for each in settings} == {None, "earliest", "turns", "flows"}
    # Of several lines one may be left out.
    three = (*PATHS, path_in_words("2/1mbit 300ms", 3))
    assert {each.paths for each in candidates(three)} == {
        *("all", "path1", "path2", "path3"),
        *("path2+path3", "path1+path3", "path1+path2"),
    }
    # Buffers are a question only where Linux's own are too small.
    far = candidates((path_in_words("500mbit 100ms", 1),))
    assert {each.buffer for each in far} == {None, 64 << 20}
    assert {each.paths for each in candidates(PATHS[:1])} == {"path1"}
    assert {each.tunnel for each in candidates(PATHS[:1])} == {None}
    ours = {each.cc for each in candidates(PATHS) if each.needs == "ours"}
    assert ours <= {algorithm.name for algorithm in find("sim").algorithms()}
    # The words of the command, without the root that it asks for.
    assert polypath("cc", "load", "--help")[0] == 0
    assert all(f"polypath cc load {cc}" in script(asked(), Setting(paths="all", cc=cc), "server") for cc in ours)


AMPLE = Budget(runs=5000, written="5000runs")


def test_a_search_keeps_within_its_budget_and_one_that_is_too_small_says_what_is_needed():
    count = len(candidates(PATHS))
    every = [budget(text, lambda: 80) for text in ("340runs", "700runs", "2min", "1h")]
    assert [each.runs for each in every] == [340, 700, 4800, 144_000]
    assert all(schedule(allowed, count, 2).runs <= allowed.runs for allowed in every)
    # A larger budget begins with more networks: half of the settings leave after the first round.
    begins = [schedule(allowed, count, 2).rounds[0][1] for allowed in every]
    assert begins == sorted(begins) and (begins[0], begins[-2:]) == (1, [4, 4]) and 1 < begins[1] < 4
    assert schedule(AMPLE, 10, 2).rounds == ((10, 16),)
    rounds = schedule(AMPLE, count, 2).rounds
    assert rounds[0][0] == count and all(later[0] < earlier[0] and later[1] >= earlier[1] for earlier, later in itertools.pairwise(rounds))
    for text in ("1s", "20runs"):
        with pytest.raises(AdviceError, match=rf"a budget of {text} allows \d+ runs, .* give at least --budget \d+") as error:
            schedule(budget(text, lambda: 40), count, 2)
        least = str(error.value).rpartition(" ")[2]
        assert schedule(budget(least, lambda: 40), count, 2).final == 4
    for text, sentence in {"soon": '"soon" is no time', "10": "the bare number 10 has no unit", "0runs": "allows 0 runs"}.items():
        with pytest.raises(AdviceError, match=sentence):
            schedule(budget(text, lambda: 80), count, 2)


def test_without_a_budget_a_fast_machine_stops_when_it_is_enough_and_a_slow_one_in_time():
    assert [budget(None, lambda rate=rate: rate).runs for rate in (1000, 5)] == [ENOUGH, 300]


def test_a_machine_that_became_slower_has_fewer_runs_left_than_were_counted():
    allowed = budget("2min", lambda: 10)
    assert allowed.runs == 600
    # At the speed that was measured, or four fifths of it, the number of runs decides.
    assert [allowed.left(300, spent) for spent in (30, 37)] == [300, 300]
    assert allowed.left(300, 60) == 150
    assert [allowed.left(300, spent) for spent in (120, 500)] == [0, 0]
    assert budget("600runs", lambda: 10).left(300, 500) == 300


def test_a_search_ends_with_its_time_and_says_so(tmp_path):
    # The machine becomes slower after the first runs.
    ticks = itertools.chain(range(3), itertools.count(100))
    found = advise(PATHS, "download", folder=tmp_path, budget_text="90s", clock=lambda: next(ticks))
    assert any(re.match(r"half of the budget's time was over after \d+ runs of a search of \d+", note) for note in found.notes)
    assert found.confirmation.sentence == "not confirmed on Linux: the time of the budget was over"
    assert found.networks == 4


class MadeUpTrials:
    """Trials whose scores are made up, and which count what they are asked to run."""

    def __init__(self, question, value):
        self.question, self._value, self.asked = question, value, set()

    @property
    def runs(self):
        return len(self.asked)

    def run(self, settings, networks):
        self.asked |= {(each.name, network) for each in settings for network in networks}
        return networks

    def scores(self, setting, networks):
        assert all((setting.name, network) in self.asked for network in networks)
        return [self._value(setting, network) for network in networks]


def test_a_search_finds_the_best_of_each_kind_at_little_cost():
    settings, question = candidates(PATHS), asked()
    planned = schedule(AMPLE, len(settings), 2)
    best = Setting(paths="path2", cc="bbr", shaped=True)
    # Far apart, all the same in each network but for a little.
    value = {each.name: -0.1 * number for number, each in enumerate([best, *(each for each in settings if each != best)])}
    clear = MadeUpTrials(question, lambda setting, network: value[setting.name] + 0.001 * (network % 3))
    found, _ = search(clear, settings, planned)
    assert found[0] == best and linux_default(PATHS) in found
    # The same networks for everybody; noise of each setting's own keeps more of them.
    noisy = MadeUpTrials(question, lambda setting, network: math.sin(len(setting.name) * 7 + network * 31 + len(setting.cc)))
    search(noisy, settings, planned)
    assert clear.runs < noisy.runs <= planned.searching
    # All of them in the first networks, and the eight that are kept anyway in all.
    assert clear.runs <= len(settings) * planned.rounds[0][1] + 8 * planned.searched
    trials = MadeUpTrials(question, lambda setting, network: (setting.needs == "other") + math.sin(len(setting.name) * 7 + network * 31))
    found, _ = search(trials, settings, planned)
    assert found[0].needs == "other"
    assert sum(each.needs in ("stock", "ours") for each in found) >= FINALISTS


def test_close_settings_are_compared_in_more_networks_than_clear_ones():
    apart, close = [0.5, 0.52, 0.48, 0.51], [0.01, -0.05, 0.04, -0.02]
    assert needed(apart) < 1 < 20 < needed(close)
    # A small difference is to be told, and one of nothing but chance is to be shown as small.
    assert needed([0.0] * 4) == 0 and needed([0.02, 0.03, 0.01, 0.02]) < needed([0.0, 0.01, -0.01, 0.0]) * 2
    question, (default, *others) = asked(), candidates(PATHS)
    planned = schedule(AMPLE, 56, 2)
    counts = []
    for spread in (0.0, 0.03):
        trials = MadeUpTrials(question, lambda setting, network, spread=spread: spread * (-1) ** network if setting == default else 0.0)
        searched = trials.run([*others[:4], default], range(1, planned.searched + 1))
        networks = compared_in(trials, [*others[:4], default], searched, planned.final, 1000)
        # None of them was seen by the search.
        assert networks.start == planned.searched + 1
        counts.append(len(networks))
        assert len(compared_in(trials, [*others[:4], default], searched, planned.final, 80)) <= 12
    assert counts[0] == 8 and counts[1] >= 32


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("advice")
    return advise(PATHS, "download=2,call=1", folder=folder, budget_text="360runs", on_linux=False)


def test_the_answer_is_better_than_linux_by_itself_and_says_what_it_rests_on(answered):
    found = answered.ranking
    assert found.default.setting == linux_default(PATHS)
    assert found.advice.of_default.low > 1.05
    assert found.ranks[0].of_best.mean == 1 and all(place.of_best.mean <= 1 for place in found.ranks)
    assert all(0 <= place.harm.worst < 1 for place in found.ranks)
    # The answer first, and what became of the other congestion controls.
    assert answered.answer[0].startswith(("Take ", "Set ", "Leave ", "Put "))
    assert any("beside a TCP connection of somebody else" in line for line in answered.answer) == found.advice.setting.shaped
    compared = {place.setting.cc for place in found.ranks if place.setting.needs in ("stock", "ours")}
    assert {each.setting.cc for each in answered.left} == {
        each.cc for each in candidates(PATHS) if each.needs in ("stock", "ours")
    } - compared
    assert all(each.of_advice.mean < 1 for each in answered.left)
    assert answered.settings == 64 and answered.runs <= 360
    assert answered.confirmation.sentence.startswith("not confirmed on Linux")
    assert any("lp, nv" in line for line in answered.untried)


def test_the_folder_repeats_the_answer(answered, tmp_path):
    study = Study.load(answered.folder)
    # The same runs: nothing of the study is left to do where the answer's are.
    work = plan(study, out=answered.folder / "results")
    assert work.distinct > 20 and not work.pending
    answer = json.loads((answered.folder / "answer.json").read_text())
    again = run(study, out=tmp_path, only={"experiment": ["settings"], "setting": [answer["advice"]]}).runs
    place = next(each for each in answer["ranking"] if each["setting"] == answer["advice"])
    goodputs = again[again["flow"] == "download"]["goodput_receiver_mbps"]
    assert goodputs.mean() == pytest.approx(place["figures"]["download"]["value"])
    assert answer["advice"] in study.conclusion and "polypath advise --path 'path1: 6mbit/2mbit" in study.conclusion
    assert (answered.folder / "server.sh").read_text() == script(answered.question, answered.ranking.advice.setting, "server")


def test_the_same_question_has_the_same_answer_with_any_number_of_workers(tmp_path):
    answers = []
    for workers in (1, 3):
        advise(PATHS[1:], "call,web", folder=tmp_path / str(workers), budget_text="130runs", on_linux=False, workers=workers)
        answers.append((tmp_path / str(workers) / "answer.json").read_bytes())
    assert answers[0] == answers[1]


def test_another_question_may_have_the_same_folder(tmp_path):
    for uses in ("upload", "web"):
        found = advise(PATHS[:1], uses, folder=tmp_path, budget_text="130runs", on_linux=False)
        assert list(json.loads((tmp_path / "answer.json").read_text())["for"]) == [uses]
        assert {place.setting.paths for place in found.ranking.ranks} == {"path1"}


SHAPED = Setting(paths="all", cc="lia", shaped=True, buffer=16 << 20)
PLACES = (
    path_in_words("50/10mbit 20ms dev pp-adv-a address 10.201.1.2 via 10.201.1.1", 1),
    path_in_words("30..40/10mbit 60ms dev pp-adv-b address 10.201.2.2 via 10.201.2.1", 2),
)


def test_commands_name_what_is_known_and_ask_for_the_rest():
    known = [each.line for each in commands(asked("download", PLACES), SHAPED) if each.where == "host"]
    assert "ip mptcp endpoint add 10.201.1.2 dev pp-adv-a subflow" in known
    assert "tc qdisc replace dev pp-ifb2 root handle 1: tbf rate 28500kbit burst 14250 latency 50ms" in known
    assert not any("$" in line or "congestion" in line for line in known)
    server = script(asked("download", PLACES), SHAPED, "server")
    assert "polypath cc load lia\nsysctl -w net.ipv4.tcp_congestion_control=pp_lia\n" in server
    assert 'net.ipv4.tcp_rmem="4096 131072 16777216"' in server
    unknown = script(asked(), SHAPED, "host")
    assert ': "${DEV1:?network device of path1}"' in unknown and 'dev "$DEV1"' in unknown
    # Who sends decides where the congestion control is set.
    upload = [each.where for each in commands(asked("upload"), Setting(paths="all", cc="bbr")) if "congestion" in each.line]
    assert upload == ["host"]
    assert commands(asked("call", PATHS[:1]), Setting(paths="path1", cc="cubic")) == []


# What a kernel says that was built without a part.
ABSENT = ("kind is unknown", "classifier not found", "No such file or directory", "must match existing qdisc", "Operation not supported")


def at_host(*lines, folder):
    """What these lines of shell say at a host with the devices of `PLACES`."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "sysctl", "unshare"))):
        lacking("host", "a network namespace needs root, ip, tc and sysctl")
    ready = ["set -e", "ip link set lo up"]
    for number, path in enumerate(PLACES, start=1):
        ready += [f"ip link add {path.device} type veth peer name peer{number}", f"ip addr add {path.address}/24 dev {path.device}"]
        ready += [f"ip link set {path.device} up", f"ip link set peer{number} up"]
    text = "\n".join([*ready, *lines])
    done = subprocess.run(["unshare", "--net", "sh", "-c", text], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "setting", [replace(SHAPED, cc="bbr"), Setting(paths="pp-adv-b", cc="reno", shaped=True)], ids=lambda each: each.name
)
def test_the_commands_are_accepted_by_the_real_tools(setting, tmp_path):
    lines = [each.line for each in commands(asked("download,upload", PLACES), setting)]
    told = [f'{{ {line}; }} 2>err || {{ echo "{number}: $(cat err)"; }}' for number, line in enumerate(lines)]
    refused = [line for line in at_host("set +e", *told, "true", folder=tmp_path).splitlines() if line.split(":")[0].isdigit()]
    wrong = [line for line in refused if not any(reason in line for reason in ABSENT)]
    assert not wrong, (wrong, lines)
    # Whatever the kernel was built without, it has MPTCP, addresses and routes.
    assert not any(lines[int(line.split(":")[0])].startswith(("ip mptcp", "ip route", "ip rule", "ip link")) for line in refused)


def test_the_script_may_be_run_again(tmp_path):
    whole = script(asked("download", PLACES), SHAPED, "host")
    # What the machine's kernel may lack is left out.
    own = [line for line in whole.splitlines() if not line.startswith(("tc ", "sysctl ", "modprobe "))]
    (tmp_path / "host.sh").write_text("\n".join(own) + "\n")
    shown = ["ip mptcp endpoint show", "ip rule show", "ip link show"]
    said = at_host("sh host.sh", "sh host.sh", *shown, folder=tmp_path)
    for path, table in zip(PLACES, (101, 102), strict=True):
        assert sum("subflow" in line and path.address in line for line in said.splitlines()) == 1
        assert said.count(f"from {path.address} lookup {table}") == 1
    # What was taken back is as it was.
    kept = "{ ip mptcp limits show; sysctl net.ipv4.tcp_rmem; }"
    taken_back = [f"{kept} >before", "sh whole.sh 2>/dev/null", "sh whole.sh undo 2>/dev/null", f"{kept} >after", "cmp before after"]
    (tmp_path / "whole.sh").write_text("\n".join(line for line in whole.splitlines() if not line.startswith("tc ")) + "\n")
    said = at_host("ip mptcp limits set subflows 1 add_addr_accepted 0", *taken_back, *shown, folder=tmp_path)
    assert "subflow" not in said and "lookup 10" not in said and "pp-ifb" not in said
    assert not list(tmp_path.glob("whole.sh.*"))
    # Each command that would fail the second time has its question.
    assert all(each.unless for each in commands(asked("download", PLACES), SHAPED) if " add " in each.line)


def device(name, address, *gateways):
    return Device(name=name, up=True, mtu=1500, addresses=(Address(address=address, prefix=24),), gateways=gateways)


HOST = Facts(release="6.12.1", mptcp="works", devices=(device("wlan0", "10.0.1.2", "10.0.1.1"), device("wwan0", "10.0.2.2", "10.0.2.1")))


def test_a_host_knows_its_devices_and_asks_for_rates():
    links = uplinks(HOST, [], {"wlan0": 100, "wwan0": -1})
    assert [(link.device, link.address, link.gateway, link.link_bps) for link in links] == [
        ("wlan0", "10.0.1.2", "10.0.1.1", 100e6),
        ("wwan0", "10.0.2.2", "10.0.2.1", None),
    ]
    with pytest.raises(AdviceError, match='no host knows the rates of its paths: add --path "DOWN/UPmbit RTT dev wlan0"'):
        completed(links, [])
    words = ["50/10mbit 20ms dev wlan0", "30/10mbit 60ms dev wwan0"]
    paths, _ = completed(links, words)
    assert [(path.name, path.address, path.gateway) for path in paths] == [
        ("wlan0", "10.0.1.2", "10.0.1.1"),
        ("wwan0", "10.0.2.2", "10.0.2.1"),
    ]
    for given, sentence in {
        ("50/10mbit 20ms",): 'names no device; write "dev" and one of wlan0, wwan0',
        ("50/10mbit 20ms dev eth7",): 'no device "eth7" leads anywhere here',
        ("50/10mbit 20ms dev wlan0",): 'add --path "DOWN/UPmbit RTT dev wwan0"',
        ("500mbit 20ms dev wlan0", words[1]): "faster than wlan0 itself",
    }.items():
        with pytest.raises(AdviceError, match=r"from-host|faster") as error:
            completed(links, given)
        assert sentence in str(error.value)
    measured = [replace(links[0], rtt=span(12e6, 25e6)), links[1]]
    assert completed(measured, ["50/10mbit dev wlan0", words[1]])[0][0].rtt == span(12e6, 25e6)
    # What was measured is not asked for, and a single figure is told as one.
    with pytest.raises(AdviceError, match=r'round-trip time 12 to 25 ms.* add --path "DOWN/UPmbit dev wlan0"'):
        completed(measured, words[1:])
    one = completed([replace(links[0], rtt=span(12e6))], ["50/10mbit dev wlan0"])
    assert one[1] == ["wlan0: round-trip time of live connections: 12 ms"]
    with pytest.raises(AdviceError, match="no device here has an address"):
        completed([], [])


CAPTURED = """
name: transfer
topology:
  nodes: {phone: , router: {router: true}, server: }
  links:
    wifi: {ends: [phone, router], both: {rate: 12mbit, queue: 60packets, delay: 10ms}}
    lte: {ends: [phone, router], both: {rate: 6mbit, queue: 60packets, delay: 30ms}}
    uplink: {ends: [router, server], both: {delay: 0ms}}
flows: {up: {client: phone, server: server, cc: cubic}}
duration: 6s
baselines: null
measure: {capture: [phone]}
"""


def test_a_capture_tells_of_its_paths(tmp_path):
    results = run(Study.model_validate(yaml.safe_load(CAPTURED)), out=tmp_path)
    paths, notes = paths_in(analyse(sorted(results.folder.glob("captures/*/*.pcapng"))))
    # Rates lie between what was seen and a quarter more; round trips are the empty path's.
    for path, rate, rtt in zip(paths, (12e6, 6e6), (20e6, 60e6), strict=True):
        assert path.up.low < rate < path.up.high
        assert rtt < path.rtt.low < 1.2 * rtt
        assert path.down.low < path.down.high == path.up.high
    assert [path.address for path in paths] == ["10.0.1.1", "10.0.2.1"]
    assert any("what was carried" in note for note in notes) and any("the server sent nothing to speak of" in note for note in notes)
    with pytest.raises(AdviceError, match="no connection of TCP or MPTCP carried data"):
        paths_in({"connections": []})


def test_a_file_has_paths_in_words_or_figures_or_is_a_study(tmp_path):
    file = tmp_path / "paths.yaml"
    file.write_text("paths:\n  dsl: 50/10mbit 20ms\n  lte: {down: 30mbit, up: 10mbit, rtt: 60ms, loss: 0.1%}\n")
    (dsl, lte), _ = paths_of_file(str(file))
    assert (dsl.name, dsl.up, lte.name, lte.down, lte.loss) == ("dsl", span(10e6), "lte", span(30e6), span(0.001))
    study = tmp_path / "study.yaml"
    study.write_text(CAPTURED.replace("rate: 6mbit, queue: 60packets, delay: 30ms", "rate: 6mbit, queue: 60packets, delay: 30ms, loss: 1%"))
    (wifi, slow), notes = paths_of_file(str(tmp_path))
    assert (wifi.name, wifi.down, wifi.rtt, slow.name, slow.up, slow.rtt) == ("wifi", span(12e6), span(20e6), "lte", span(6e6), span(60e6))
    assert slow.loss.high == pytest.approx(0.01) and wifi.queue.low == pytest.approx(60.56e6)
    assert notes == ["transfer: the paths of the flow up"]
    radio = "[{kind: rate, rate: 6mbit}, {kind: retry, share: 9%, delay: 5ms}]"
    study.write_text(CAPTURED.replace("{rate: 6mbit, queue: 60packets, delay: 30ms}", radio))
    assert paths_of_file(str(tmp_path))[1] == ["transfer: the paths of the flow up; left out: retry"]


FILES = {
    "paths: {a: 50mbit}": 'a: "50mbit": its round-trip time is missing',
    "paths: {a: {down: 5mbit}}": "a: `rtt` is missing",
    "paths: {a: {down: 5mbit, rtt: 5ms, jiter: 1ms}}": 'did you mean "jitter"?',
    "paths: {a: 5}": "5 is no path",
    'paths: {"a: b": 50mbit 20ms}': 'a: b: "a: b" is no name',
    "paths: {}": "names no paths",
    "paths: {a: 50mbit 20ms}\nfor: call": "there is no field `for` here",
    "links: 3": "names no paths",
    "{": "is no YAML",
}


@pytest.mark.parametrize("text", FILES)
def test_a_file_that_says_nothing_sensible_is_one_sentence(text, tmp_path):
    file = tmp_path / "paths.yaml"
    file.write_text(text)
    with pytest.raises(AdviceError) as error:
        paths_of_file(str(file))
    assert FILES[text] in str(error.value) and "\n" not in str(error.value)


COMMAND_LINES = {
    (): "there is no path to advise on",
    ("--path", "5mbit 20ms", "--file", "x"): "--file and --path both say what the paths are",
    ("--path", "5mbit 20ms", "--for", "gaming"): 'there is no use "gaming"',
    ("--path", "5mbit 20ms", "--for", "call"): "a call by itself asks for no setting",
    ("--path", "5mbit 20ms", "--budget", "1runs"): "give at least --budget",
    ("--path", "5mbit 20ms", "--path", "5mbit 20ms name path1"): 'two paths are called "path1"',
    ("--path", "5mbit 20ms name uplink"): 'a path cannot be called "uplink"',
    ("--path", "6/2mbit 20ms", "--out", "taken", "--no-linux"): "not a directory",
    ("--from-capture", "nothere.pcap"): "nothere.pcap: No such file",
    ("--file", "nothere.yaml"): "there is no such file",
    tuple(word for number in range(9) for word in ("--path", f"5mbit 20ms name p{number}")): "9 paths are too many; the most is 8",
}


@pytest.mark.parametrize("words", COMMAND_LINES, ids=lambda words: COMMAND_LINES[words])
def test_a_mistake_on_the_command_line_is_one_sentence(words, polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    code, out, err = polypath("advise", *words)
    assert (code, out) == (2, "") and COMMAND_LINES[words] in err and "searching" not in err
    assert list(tmp_path.iterdir()) == [tmp_path / "taken"]


def test_the_command_line_tells_and_writes_the_answer(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = polypath("advise", "--path", "6/2mbit 20ms", "--for", "call,web", "--budget", "130runs", "--no-linux", "--no-report")
    assert code == 0
    assert out.index("By the score") < out.index("needs polypath cc load") < out.index("not tried:")
    assert "Linux by itself" in out and "harm" in out and "not tried:" in out and "again: polypath run advice" in out
    code, out, _ = polypath(
        "advise", "--path", "6/2mbit 20ms", "--for", "call,web", "--budget", "130runs", "--no-linux", "--no-report", "--json"
    )
    assert json.loads(out) == json.loads((tmp_path / "advice" / "answer.json").read_text())


def test_three_paths_that_are_known_exactly_differ_by_chance_alone(tmp_path):
    paths = [path_in_words("2mbit 20ms queue 80ms", number) for number in (1, 2, 3)]
    found = advise(paths, "web,call", folder=tmp_path, budget_text="350runs", on_linux=False)
    assert len(found.ranking.ranks) >= 6 and any(line.startswith("one path left out with") for line in found.untried)


def test_a_video_call_is_datagrams_that_the_first_path_has_to_carry(tmp_path):
    with pytest.raises(AdviceError, match=r"takes 1\.6 Mbit/s both ways, and path2, the first path, may carry 1 one way"):
        advise(PATHS[1:], "videocall,web", folder=tmp_path)
    found = advise(PATHS[:1], "videocall,download", folder=tmp_path, budget_text="130runs", on_linux=False)
    outcome = found.results.runs
    calls = outcome[outcome["flow"].str.startswith("videocall-") & (outcome["experiment"] == "settings")]
    assert set(calls["flow"]) == {"videocall-up", "videocall-down"} and calls["delay_p95_ms"].gt(10).all()


def test_a_narrow_terminal_cuts_no_figure(answered, monkeypatch):
    for width in (60, 100):
        console = Console(width=width, record=True, file=io.StringIO())
        monkeypatch.setattr(_advised, "out", console, raising=False)
        _advised.tell(answered)
        shown = console.export_text()
        assert "…" not in shown
        for place in answered.ranking.ranks:
            assert place.setting.name in shown and f"{place.figures['download']:.1f}" in shown


def test_the_advice_is_near_the_best_of_an_exhaustive_search(pytestconfig):
    """The first pair of studies/advice, which has twenty."""
    truth = runpy.run_path(str(pytestconfig.rootpath / "studies" / "advice" / "truth.py"), run_name="truth")
    judged = truth["judged"](0)
    assert judged.near, (judged.found.ranking.advice.setting, judged.best, judged.of_best)
    assert judged.of_default.high >= 1
