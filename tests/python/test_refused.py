"""What no engine can use is refused when a study is loaded."""

import itertools
import re

import pytest
import yaml
from fake_engine import FakeEngine
from wrong_inputs import BASE, FLOW, SHAPE, WRONG, changed

from polypath import Study, StudyError, Time, customcc, run
from polypath.engines import ENGINES, HostEngine, LinuxEngine, SimEngine, check, notes
from polypath.planner import build
from polypath.results import check_claims, plan
from polypath.study import cells, drawing_algorithms, load_setup, same_for_all_seeds, scenario


def write(folder, text):
    file = folder / "study.yaml"
    file.write_text(text)
    return file


def test_the_study_that_is_changed_is_sound(tmp_path):
    study = Study.load(write(tmp_path, BASE))
    assert check(SimEngine(), study) == []
    assert len(plan(study, engine=SimEngine(), out=tmp_path).runs) == 2


# All of them load the study first, so each mistake goes to one of them.
COMMANDS = [*(("run", "--dry-run", "--engine", engine) for engine in ("sim", "linux", "host")), ("run",), ("show",), ("compare",)]


@pytest.mark.parametrize("command, wrong", zip(itertools.cycle(COMMANDS), WRONG), ids=WRONG)
def test_every_command_and_engine_says_the_same(tmp_path, polypath, monkeypatch, command, wrong):
    # None gets as far as asking for a kernel or for root.
    for engine in (LinuxEngine, HostEngine):
        monkeypatch.setattr(engine, "left_out", lambda *_: pytest.fail("an engine was asked"))
    changes, expected = WRONG[wrong]
    file = write(tmp_path, changed(changes))
    code, out, err = polypath(*command, file)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"polypath: {file}:{expected}")


# What counts in some cell, or for some engine, is no mistake.
ALLOWED = {
    "a scheduler of those cells that have one": (
        ("transport: tcp", 'transport: "${t}", scheduler: roundrobin'),
        ("{cc: [cubic, reno]}", "{cc: [cubic], t: [tcp, mptcp]}"),
    ),
    "cells without effect that are left out": (
        ("transport: tcp", 'transport: "${t}", scheduler: "${s}"'),
        ("{cc: [cubic, reno]}", "{cc: [cubic], t: [tcp, mptcp], s: [default, roundrobin]}\nexclude: [{t: tcp, s: roundrobin}]"),
    ),
    "as many weights as subflows": (
        ("transport: tcp", "transport: mptcp, path_manager: {kind: ndiffports, subflows: 2}, scheduler: 'weighted 3:1'"),
    ),
    "a link that is cut and joined": ((SHAPE, "{rate: 10mbit, changes: [{at: 500ms, up: false}, {at: 1s, up: true}]}"),),
    "two changes at once": ((SHAPE, "{rate: 10mbit, delay: 5ms, changes: [{at: 1s, rate: 5mbit}, {at: 1s, delay: 9ms}]}"),),
    "a path without a rate for a flow that has one": (
        (SHAPE, "{delay: 5ms}"),
        ("transport: tcp", "transport: tcp, app: {kind: constant, rate: 1mbit}"),
    ),
    "as much jitter as delay": ((SHAPE, "{rate: 10mbit, delay: 5ms, jitter: 5ms}"),),
    "a queue of one packet": ((SHAPE, "{rate: 10mbit, queue: 1514B}"),),
    "a setting of a router that routers have": (("{router: true}", "{router: true, sysctl: {net.ipv4.ip_forward: 1}}"),),
    "a setting that only a kernel knows": (("    a:\n", "    a: {sysctl: {net.ipv4.tcp_fastopen: 1}}\n"),),
    "a value that only a kernel knows": (("    a:\n", "    a: {sysctl: {net.ipv4.tcp_recovery: 0}}\n"),),
    "the fastest rate": ((SHAPE, "{rate: 400gbit, delay: 5ms}"),),
}


@pytest.mark.parametrize("changes", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_counts_somewhere_is_no_mistake(tmp_path, changes):
    text = changed(changes)
    if "exclude" in text:
        # A study's own matrix has no `exclude`: an experiment's has.
        text = text.replace("matrix: ", "experiments:\n  one:\n    matrix: ").replace("\nexclude", "\n    exclude")
    assert cells(Study.load(write(tmp_path, text)))


UNMODELLED = {
    "a setting": ("net.ipv4.tcp_fastopen: 1", "the setting `net.ipv4.tcp_fastopen` is not modelled; modelled are net.ipv4.tcp_rmem, "),
    "a value": (
        "net.ipv4.tcp_recovery: 0",
        "`net.ipv4.tcp_recovery` is 0; modelled is 1, since there is no other loss detection than RACK",
    ),
    "a misspelled one": ("net.ipv4.tcp_rmen: 1", "the setting `net.ipv4.tcp_rmen` is not modelled; did you mean `net.ipv4.tcp_rmem`?"),
}


@pytest.mark.parametrize("setting, sentence", UNMODELLED.values(), ids=UNMODELLED.keys())
def test_what_only_the_simulator_lacks_is_refused_by_it_alone_before_anything_runs(tmp_path, polypath, setting, sentence):
    file = write(tmp_path, changed((("    a:\n", f"    a: {{sysctl: {{{setting}}}}}\n"),)))
    field = setting.split(":")[0]
    code, out, err = polypath("run", file, "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith(f"polypath: {file}:4: topology.nodes.a.sysctl.{field}: {sentence}")
    assert polypath("show", file)[0] == 0


KERNELS = (("matrix: {cc: [cubic, reno]}", 'matrix: {cc: [cubic, reno], k: ["6.6.50", "6.12"]}\nkernel: "${k}"'),)


def test_kernels_that_the_simulator_has_are_rows_of_their_own_and_others_are_not(tmp_path, polypath):
    file = write(tmp_path, changed(KERNELS))
    code, out, err = polypath("run", file, "--dry-run")
    assert (code, out) == (2, "")
    assert err == (
        f"polypath: {file}:14: kernel: the engine sim has no kernel 6.6.50, so this cell is the same run as k=6.12: "
        "choose one with --only k=6.12, or take --engine linux (in the cell cc=cubic, k=6.6.50)\n"
    )
    code, out, _ = polypath("run", file, "--dry-run", "--only", "k=6.6.50")
    assert code == 0
    assert "sim has no kernel 6.6.50 (it has 5.4-mptcp, 6.1, 6.12, 7.3); its hosts are those of 6.12 there" in out
    file = write(tmp_path, changed((("matrix: {cc: [cubic, reno]}", 'matrix: {cc: [cubic, reno], k: ["6.1", "6.12"]}\nkernel: "${k}"'),)))
    code, out, err = polypath("run", file, "--dry-run")
    assert (code, err) == (0, "")
    assert "kernel" not in out


def test_a_host_has_a_kernel_that_is_there_and_speaks_what_its_flows_do(tmp_path, polypath):
    def refused(*more, **kernels):
        pairs = tuple((f"    {name}:\n", f'    {name}: {{kernel: "{kernel}"}}\n') for name, kernel in kernels.items())
        file = write(tmp_path, changed(pairs))
        code, _, err = polypath("run", file, "--dry-run", *more)
        return code, err.removeprefix(f"polypath: {file}:").partition(" (in the cell")[0].strip()

    assert refused(a="6.1") == (0, "")
    assert refused(a="6.13") == (
        2,
        "4: topology.nodes.a.kernel: there is no kernel `6.13` in the simulator; there are 5.4-mptcp, 6.1, 6.12, 7.3",
    )
    assert refused("--engine", "linux", a="6.1")[0] == 2


def test_a_kernel_stands_in_for_the_studys_own_in_the_simulator(tmp_path):
    study = Study.load(write(tmp_path, changed((("    a:\n", '    a: {kernel: "5.4-mptcp"}\n'),))))
    made = plan(study, engine=SimEngine(), out=tmp_path, kernel="6.1")
    kernels = {tuple((node["name"], node.get("kernel")) for node in run.scenario["nodes"]) for run in made.runs}
    assert kernels == {(("a", "5.4-mptcp"), ("r", None), ("b", "6.1"))}, "a host that names one keeps its own"
    assert not {run.key for run in made.runs} & {run.key for run in plan(study, engine=SimEngine(), out=tmp_path).runs}
    with pytest.raises(StudyError, match=r'kernel "6\.13"'):
        plan(study, engine=SimEngine(), out=tmp_path, kernel="6.13")


def test_only_runs_in_real_time_are_run_again(tmp_path, polypath):
    file = write(tmp_path, BASE)
    for engine in ("sim", "linux"):
        code, out, err = polypath("run", file, "--dry-run", "--again", "--engine", engine)
        assert (code, out) == (2, "")
        assert err.startswith(f"polypath: --again repeats runs that came late in real time, and {engine} is never late")
    assert [name for name, engine in ENGINES.items() if engine.real_time] == ["host"]


def test_a_network_without_flows_is_not_held_to_a_run(tmp_path):
    text = (
        BASE.split("flows:")[0]
        .replace(SHAPE, "{delay: 5ms, changes: [{at: 60s, up: false}]}")
        .replace("    a:\n", "    a: {sysctl: {initcwnd: 9}}\n")
    )
    assert load_setup(write(tmp_path, text)).topology.links.keys() == {"l1", "l2"}
    with pytest.raises(StudyError, match=r"8: topology.links.l1.mtu: an MTU of 20 bytes at `a`; IPv4 needs at least 68"):
        load_setup(write(tmp_path, text.replace("[a, r], ", "[a, r], mtu: 20B, ")))


def test_a_large_matrix_is_checked_by_what_differs(tmp_path, monkeypatch):
    from polypath.study import _buildable

    asked = []
    real = _buildable._native.check

    class Native:
        schedulers = staticmethod(_buildable._native.schedulers)

        @staticmethod
        def check(text, simulated):
            asked.append(text)
            return real(text, simulated)

    monkeypatch.setattr(_buildable, "_native", Native)
    _buildable._wrong.cache_clear()
    rates = ", ".join(f"{rate}mbit" for rate in range(1, 11))
    changes = (
        ('cc: "${cc}"', 'cc: "${cc}", count: "${many}"'),
        ("rate: 10mbit", 'rate: "${rate}"'),
        ("{cc: [cubic, reno]}", f"{{cc: [cubic, reno, bic], many: [1, 2, 300], rate: [{rates}]}}"),
    )
    assert len(cells(Study.load(write(tmp_path, changed(changes))))) == 90
    # Neither the algorithm nor the number of connections matters; the rates do.
    assert len(asked) == 10


STILL = (("seeds: 1", "seeds: 3"),)


def still(tmp_path, *changes):
    return same_for_all_seeds(Study.load(write(tmp_path, changed((*STILL, *changes)))))


def test_seeds_that_change_nothing_are_told(tmp_path, polypath):
    file = write(tmp_path, changed(STILL))
    sentence = "seeds change nothing here, since nothing is drawn at random, so their repetitions are the same run: `start_spread: 100ms` "
    assert sentence in polypath("run", file, "--dry-run")[1]
    assert sentence in polypath("show", file)[1]
    # And it is so.
    runs = run(file, out=tmp_path / "out").runs
    assert len(runs) == 6
    assert runs.groupby("cc")["goodput_receiver_mbps"].nunique().eq(1).all()
    # In real time everything is chance; and with one seed there is nothing to say.
    assert notes(HostEngine(), Study.load(file)) == []
    assert same_for_all_seeds(Study.load(write(tmp_path, BASE))) is None
    sentence = still(tmp_path, ("[cubic, reno]", "[cubic, cdg, bbr]"))
    assert sentence is not None
    assert sentence.startswith("seeds change nothing in 1 of 3 cells, ")
    assert still(tmp_path, (SHAPE, "{rate: 10mbit, aqm: codel}")) is not None
    assert notes(FakeEngine(), Study.load(write(tmp_path, changed((("seeds: 1", 'seeds: 1\nkernel: "6.1"'),))))) == [
        "`kernel` is for the engine linux; fake runs none"
    ]


CHANCE = {
    "a start": (("transport: tcp", "transport: tcp, start_spread: 100ms"),),
    "losses": ((SHAPE, "{rate: 10mbit, loss: 1%}"),),
    "later losses": ((SHAPE, "{rate: 10mbit, changes: [{at: 1s, loss: 1%}]}"),),
    "bursts of losses": ((SHAPE, "[{kind: rate, rate: 10mbit}, {kind: burst_loss, good_to_bad: 1%, bad_to_good: 30%}]"),),
    "jitter": ((SHAPE, "{rate: 10mbit, delay: 5ms, jitter: 2ms}"),),
    "a radio": ((SHAPE, "[{kind: wireless, radio: 5g, peak: 10mbit}]"),),
    "attempts": ((SHAPE, "[{kind: rate, rate: 10mbit}, {kind: retry, share: 10%, delay: 5ms}]"),),
    "red": ((SHAPE, "{rate: 10mbit, queue: 75KB, aqm: {kind: red, min: 15KB, max: 45KB}}"),),
    "pie": ((SHAPE, "{rate: 10mbit, aqm: pie}"),),
    "dualpi2": ((SHAPE, "{rate: 10mbit, aqm: {kind: dualpi2, target: 5ms}}"),),
}


@pytest.mark.parametrize("changes", CHANCE.values(), ids=CHANCE.keys())
def test_what_is_drawn_makes_seeds_count(tmp_path, changes):
    assert still(tmp_path, *changes) is None
    runs = run(Study.load(tmp_path), out=tmp_path / "out").runs
    assert runs.groupby("cc")["goodput_receiver_mbps"].nunique().gt(1).any()


# Long enough for every algorithm to draw: two flows, as lp gives way to others.
DRAWS = """\
name: draws
topology:
  nodes: {a: , r: {router: true}, b: }
  links:
    access: {ends: [a, r], both: {delay: 5ms}}
    neck: {ends: [r, b], both: {rate: 20mbit, queue: 60packets, delay: 11ms}}
flows:
  f: {client: a, server: b, transport: tcp, cc: "${cc}"}
  rival: {client: a, server: b, transport: tcp, cc: cubic}
duration: 15s
matrix: {cc: []}
seeds: [1, 2, 3, 4, 5, 6, 7, 8]
baselines: null
measure: {series: null}
"""


def test_exactly_those_algorithms_draw_that_are_said_to(tmp_path, polypath, monkeypatch):
    own = customcc.used()  # Of other tests.
    names = [algorithm.name for algorithm in SimEngine().algorithms() if algorithm.name not in own]
    study = Study.load(write(tmp_path, DRAWS.replace("cc: []", f"cc: [{', '.join(names)}]")))
    runs = run(study, out=tmp_path / "out").runs
    differing = runs[runs["flow"] == "f"].groupby("cc")["goodput_receiver_mbps"].nunique()
    ours = {name for name in drawing_algorithms() if name not in own}
    assert set(differing[differing > 1].index) == ours
    assert {"bbr", "bbr3", "cdg", "cmpbbr", "lp", "nv"} == ours
    monkeypatch.setenv("COLUMNS", "250")
    code, out, _ = polypath("list", "cc")
    assert code == 0
    lines = {line.split()[1]: line.split("│") for line in out.splitlines() if line.startswith("│")}
    assert lines["cdg"][5].strip() == "yes"
    assert lines["cubic"][5].strip() == "no"


def test_queues_in_times_and_round_trips_are_what_they_stand_for(tmp_path):
    links = []
    for queue in ("500ms", "625000B"):
        study = Study.load(write(tmp_path, changed(((SHAPE, f"{{rate: 10mbit, queue: {queue}, delay: 5ms}}"),))))
        links.append(scenario(cells(study)[0].setup, 1)["links"])
        assert Study.model_validate(yaml.safe_load(study.to_yaml())) == study
    assert links[0] == links[1]
    assert links[0][1]["a_to_b"][0]["queue"] == {"bytes": 625_000}
    element = "[{kind: rate, rate: 8mbit, queue: 1s}]"
    study = Study.load(write(tmp_path, changed(((SHAPE, element),))))
    assert scenario(cells(study)[0].setup, 1)["links"][1]["b_to_a"][0]["queue"] == {"bytes": 1_000_000}
    assert _there(tmp_path, "{rate: 10mbit, rtt: 25ms}") == _there(tmp_path, "{rate: 10mbit, delay: 12.5ms}")
    assert _there(tmp_path, "{rate: 10mbit, queue: 50ms, aqm: codel}")[0]["queue"] == {"packets": 62_500 // 1514}
    study = Study.load(write(tmp_path, changed(((SHAPE, "{rate: 30mbit, queue: 500ms, delay: 5ms}"),))))
    limits = {each["netem"]["limit"] for each in build(scenario(cells(study)[0].setup, 1), ("cubic",)).plan["disciplines"]}
    assert 30_000_000 // 8 // 2 // (1500 + 14) == 1238
    assert 1238 in limits
    (words,) = set(LinuxEngine().otherwise(cells(study)[0]))
    assert words == "1238 full packets in the queue of l2"


def _there(tmp_path, text):
    study = Study.load(write(tmp_path, changed(((SHAPE, text),))))
    assert "file" in text or Study.model_validate(yaml.safe_load(study.to_yaml())) == study
    return scenario(cells(study)[0].setup, 1)["links"][1]["a_to_b"]


def test_outages_and_changes_come_again_at_the_end_of_each_period(tmp_path):
    spans = [[500, 600], [1100, 1200], [1700, 1800]]
    down, _ = _there(tmp_path, "{rate: 10mbit, outage: 100ms, every: 600ms}")
    assert [[ns // 1_000_000 for ns in span] for span in down["spans_ns"]] == [*spans, [2300, 2400]]
    by_changes, _ = _there(tmp_path, "{rate: 10mbit, changes: [{at: 500ms, up: false}], repeat: 600ms}")
    by_spans, _ = _there(tmp_path, "[{kind: down, spans: [[500ms, 600ms]], repeat: 600ms}, {kind: rate, rate: 10mbit}]")
    assert down == by_changes == by_spans
    changes = "changes: [{at: 300ms, rate: 5mbit}, {at: 700ms, rate: 2mbit}], repeat: 1s"
    (rate,) = _there(tmp_path, f"{{rate: 10mbit, {changes}}}")
    seen = [(change["at_ns"] // 1_000_000, change["to"] // 1_000_000) for change in rate["changes"]]
    assert seen == [(300, 5), (700, 2), (1000, 10), (1300, 5), (1700, 2)]
    (tmp_path / "link.csv").write_text("time,rate,delay\n0s,10mbit,5ms\n300ms,5mbit,5ms\n700ms,2mbit,5ms\n")
    of_table, delay = _there(tmp_path, "[{kind: table, file: link.csv, repeat: 1s}]")
    assert (of_table, {change["to"] for change in delay["changes"]}) == (rate, {5_000_000})


def test_flows_may_stand_in_experiments_alone(tmp_path):
    own = "experiments: {one: {flows: {" + FLOW.replace("${cc}", "cubic") + "}}, two: {}}"
    text = changed((("flows:\n  " + FLOW + "\n", ""), ("matrix: {cc: [cubic, reno]}", own.replace(", two: {}", ""))))
    study = Study.load(write(tmp_path, text))
    assert [cell.setup.flows["f"].cc for cell in cells(study)] == ["cubic"]
    assert study.over_starts(8, Time("1ms")).seeds == tuple(range(1, 9))
    without = changed((("flows:\n  " + FLOW + "\n", ""), ("matrix: {cc: [cubic, reno]}", own)))
    with pytest.raises(StudyError, match="the field `flows` is missing: give the study some, or the experiment `two`"):
        Study.load(write(tmp_path, without))


def test_a_column_that_is_none_is_near_those_of_its_first_word(tmp_path):
    claim = "claims: [{id: x, sentence: y, metric: NAME, check: {kind: above, left: {cc: cubic}, right: {cc: reno}}}]\n"
    for name, meant in {
        "goodputt": 'did you mean "goodput_receiver_mbps" or "goodput_sender_mbps"?',
        "Goodput": 'did you mean "goodput_receiver_mbps"?',
        "goodput_reciever_mbps": 'did you mean "goodput_receiver_mbps"?',
        "retransmission": 'did you mean "retransmissions"?',
    }.items():
        study = Study.load(write(tmp_path, BASE + claim.replace("NAME", name)))
        with pytest.raises(StudyError, match=rf"15: claims\[0\]\.metric: there is no column \"{name}\" of the runs; {re.escape(meant)}"):
            check_claims(study)


def test_a_custom_algorithm_is_asked_for_by_its_folder(tmp_path, polypath, monkeypatch, own_cache):
    monkeypatch.chdir(tmp_path)
    customcc.new("tst_shown", "mine")
    file = write(tmp_path, changed((("[cubic, reno]", "[cubic, tst_shown]"),)))
    sentence = 'there is no congestion control "tst_shown";'
    for command in ("show", "run", "compare"):
        code, out, err = polypath(command, "study.yaml")
        assert (code, out) == (2, "")
        assert sentence in err
        assert "one of your own, in a file tst_shown.c, is found by --cc-path FOLDER" in err
    for ask in (lambda: plan(file, out="results"), lambda: run(file, out="results")):
        with pytest.raises(StudyError, match="found by --cc-path FOLDER"):
            ask()
    assert len(plan(file, out="results", cc_path="mine").runs) == 2
    code, out, _ = polypath("show", "study.yaml", "--cc-path", "mine")
    assert (code, "tst_shown" in out) == (0, True)
    results = run(changed_to_short(file), out="results", cc_path="mine", only={"cc": "tst_shown"})
    assert set(results.runs["cc"]) == {"tst_shown"}


def changed_to_short(file):
    file.write_text(file.read_text().replace("duration: 2s", "duration: 200ms"))
    return file
