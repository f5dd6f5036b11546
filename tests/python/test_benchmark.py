"""The benchmark: its set is what it was, a score is what its page says."""

import json
import math
from dataclasses import replace

import pytest

from polypath import customcc
from polypath.benchmark import (
    FAMILIES,
    KINDS,
    QUICK,
    WHOLE,
    BenchmarkError,
    Linux,
    Record,
    _measure,
    _run,
    as_json,
    built_in,
    check_linux,
    draws_of,
    families,
    figure,
    half,
    overall,
    page,
    ranking,
    ratio,
    read,
    read_folder,
    run,
    score,
    scores,
    set_hash,
    subject,
    table,
    tenth,
    worst,
    write_study,
)
from polypath.benchmark._record import MOST_BYTES, MOST_FILES
from polypath.benchmark._set import in_words
from polypath.engines import find
from polypath.report import markdown_page
from polypath.study import number_of_cells, runs

NAMES = {kind: [family.name for family in families(kind)] for kind in KINDS}


def record(value=0.5, *, kind="scheduler", name="minrtt", draws=8, only=None, **more):
    """Every figure is `value`, or what it says of family and draw."""
    of = value if callable(value) else lambda family, draw: value
    wanted = [draw for draw in range(1, draws + 1) if only in (None, half(draw))]
    figures = {family: {draw: of(family, draw) for draw in wanted} for family in NAMES[kind]}
    return Record(kind=kind, name=name, source=None, polypath="0.1.0", draws=draws, only=only, figures=figures, **more)


# The set.


def test_the_set_is_what_it_was(tmp_path):
    # Who changes a network, or a trace, makes another set: another file with another number.
    assert set_hash() == "0b0516b99e7aff05"
    study = write_study("cc", "cubic", 4, tmp_path)
    assert {*study.all_experiments} == {family.experiment for family in FAMILIES}
    assert number_of_cells(study) == 4 * 14
    assert study.name == "benchmark-1-cc-cubic"
    assert [word.split()[0] for word in in_words(study, "one-path", 1).split(", ")] == [
        "mobile_rate",
        "mobile_delay",
        "mobile_jitter",
        "mobile_loss",
        "mobile_queue",
    ]
    assert "small_queue" in in_words(study, "small-buffers", 1) and "mobile_queue" not in in_words(study, "small-buffers", 1)


def test_a_scheduler_runs_where_it_decides_something_and_draws_stay(tmp_path):
    study = write_study("scheduler", "blest", 4, tmp_path)
    chosen = list(runs(study, engine="sim", version="any"))
    assert {flow["transport"] for run in chosen for flow in run.scenario["flows"]} == {"mptcp"}
    assert {run.parameters["scheduler"] for run in chosen} == {"blest"}
    assert len(NAMES["scheduler"]) == 9 and len(NAMES["cc"]) == 15
    few, more = (write_study("cc", "cubic", draws, tmp_path / str(draws)) for draws in (4, 6))
    first, second = ({run.key for run in runs(study, engine="sim", version="any")} for study in (few, more))
    assert len(first) == 56 and first < second


def test_halves_and_budgets():
    draws = range(1, 201)
    assert [half(draw) for draw in (1, 2, 199, 200)] == ["open", "test", "open", "test"]
    assert len(tenth(draws)) == 20 and sum(half(draw) == "test" for draw in tenth(draws)) == 10
    assert draws_of("40draws") == 40 and draws_of("10min") > QUICK and draws_of("100h") == WHOLE
    for text, said in {"1draws": "an interval needs two in each half", "soon": '"soon" is no time', "-4draws": "is no time"}.items():
        with pytest.raises(BenchmarkError, match=said):
            draws_of(text)


# The score.


def test_a_score_is_the_geometric_mean_with_students_interval():
    assert figure(5, 10) == 0.5 and figure(11, 10) == 1 and figure(0, 10) == 0.01
    assert figure(math.nan, 10) == figure(5, 0) == figure(5, math.nan) == 0.01
    found = score([0.25, 1.0])
    assert found.mean == pytest.approx(50)
    found = score([0.2, 0.3, 0.45])
    # Logarithms that are log 1.5 apart: s = log 1.5, and t of 2 degrees of freedom is 4.3027.
    half_width = 4.302653 * math.log(1.5) / math.sqrt(3)
    assert (found.mean, found.low) == pytest.approx((30, 30 * math.exp(-half_width)))
    assert found.high == pytest.approx(30 * math.exp(half_width))
    found = score([0.9, 1.0])
    assert found.high == 100 and score([0.01, 0.5]).low == 1
    figures = {"a": {1: 0.1, 2: 0.4}, "b": {1: 0.4, 2: 0.1}}
    found = overall(figures, [1, 2])
    # Each draw's mean is 0.2: what one family has less in a network, the other has more.
    assert (found.mean, found.low, found.high) == pytest.approx((20, 20, 20))
    first = {"a": {1: 0.1, 2: 0.8, 3: 0.4}}
    second = {"a": {1: 0.05, 2: 0.4, 3: 0.2}}
    found = ratio(first, second, [1, 2, 3])
    assert (found.mean, found.low, found.high) == pytest.approx((2, 2, 2)) and found.tells_apart
    assert not ratio(first, first, [1, 2, 3]).tells_apart


@pytest.fixture(scope="module")
def of_family(tmp_path_factory):
    """The figure of a family's first network from made-up rows of its flows."""
    study = write_study("cc", "cubic", 4, tmp_path_factory.mktemp("set"))
    first = {run.experiment: run for run in reversed(list(runs(study, engine="sim", version="any")))}

    def made(name, rows):
        family = next(family for family in FAMILIES if family.name == name)
        return _measure._figure(family, rows, first[family.experiment])

    return made


@pytest.mark.parametrize(
    ("family", "row", "least"),
    [
        ("requests", {"responses": 0}, True),
        ("requests", {"responses": None}, True),
        ("requests", {"responses": 20}, False),
        ("queue", {"datagram_loss": 0.06, "delay_p95_ms": 30.0}, True),
        ("queue", {"datagram_loss": 0.01, "delay_p95_ms": 30.0}, False),
        ("video", {"goodput_receiver_mbps": 2.0, "byte_delay_p95_ms": 9.0}, True),
        ("video", {"goodput_receiver_mbps": 2.5, "byte_delay_p95_ms": 9.0}, False),
        ("bulk", {"goodput_receiver_mbps": None}, True),
        ("bulk", {"goodput_receiver_mbps": 50.0}, False),
    ],
)
def test_what_did_not_arrive_has_the_least_figure(family, row, least, of_family):
    flow = "call" if family == "queue" else "subject"
    assert (of_family(family, {flow: row}) == 0.01) is least
    assert of_family(family, {}) == 0.01


def test_what_is_slower_or_takes_more_has_a_smaller_figure(of_family):
    many, few = (of_family("requests", {"subject": {"responses": answers}}) for answers in (32, 16))
    # 20 s by 32 answers are 125 ms beside the pause, by 16 they are 750.
    assert many / few == pytest.approx(6)

    def fair(mine, theirs):
        return of_family("fair-cubic", {"subject": {"goodput_receiver_mbps": mine}, "rival": {"goodput_receiver_mbps": theirs}})

    assert fair(30.0, 10.0) == pytest.approx(fair(10.0, 30.0)) == pytest.approx(fair(10.0, 10.0))
    assert fair(10.0, 0.0) == 0.01


# Runs.


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("benchmark")
    (what,) = subject(["scheduler", "roundrobin"])
    return folder, run(what, 4, folder)


def test_the_same_bytes_with_any_number_of_workers(measured, tmp_path):
    folder, first = measured
    (what,) = subject(["scheduler", "roundrobin"])
    assert run(what, 4, tmp_path, workers=1) == first
    for name in ("scheduler-roundrobin.json", "scheduler-roundrobin.md"):
        assert (tmp_path / name).read_text().replace(str(tmp_path), "") == (folder / name).read_text().replace(str(folder), "")


def test_the_page_and_the_json_say_what_was_measured(measured, polypath, monkeypatch):
    folder, first = measured
    assert read(folder / "scheduler-roundrobin.json") == first
    monkeypatch.chdir(folder)
    words = ("--only", "experiment=outages", "--only", "draw=2", "--no-report", "--quiet")
    assert polypath("run", folder / "scheduler-roundrobin", *words)[0] == 0
    text = (folder / "scheduler-roundrobin.md").read_text()
    assert text.startswith(f"# roundrobin: {scores(first)['test']['score'][0]:.1f} (")
    assert "Place " in text and "of 12 among the built-in algorithms" in text
    page = markdown_page(text, "Benchmark")
    assert f"<h1>{text.splitlines()[0].removeprefix('# ')}</h1>" in page and page.count("<table>") == 1 and "<script" not in page
    named = [line for line in text.splitlines() if line.startswith("- `")]
    assert len(named) == 5 and all(", draw 1:" in line or ", draw 3:" in line for line in named)
    assert "polypath benchmark scheduler roundrobin --budget 4draws" in text
    _, first = measured
    kept = next(record for record in built_in("scheduler") if record.name == first.name)
    pairs = [(mine, kept.figures[name][draw]) for name, by_draw in first.figures.items() for draw, mine in by_draw.items()]
    apart = sorted(abs(math.log(mine / theirs)) for mine, theirs in pairs)
    assert apart[len(apart) // 2] < 0.02


def test_the_open_half_alone_runs_no_other(tmp_path):
    (what,) = subject(["scheduler", "default"])
    found = run(what, 4, tmp_path, only="open")
    assert {*found.figures["bulk"]} == {1, 3} and {*scores(found)} == {"open"}
    assert read(tmp_path / "scheduler-default.json") == found
    with pytest.raises(BenchmarkError, match="no result here has the test half"):
        ranking([found])


def test_a_file_of_ones_own_is_measured_and_named_by_its_hash(polypath, tmp_path, own_cache):
    customcc.new("tst_bench", tmp_path / "mine")
    (tmp_path / "mine" / "broken.c").write_text("int\n")
    code, out, err = polypath("benchmark", tmp_path / "mine" / "tst_bench.c", "--budget", "4draws", "--out", tmp_path, "--json")
    assert code == 0, err
    (told,) = json.loads(out)
    assert told == json.loads((tmp_path / "cc-tst_bench.json").read_text())
    assert told["kind"] == "cc" and len(told["source"]) == 16 and len(told["figures"]["tunnel"]) == 4
    # Reno, under another name.
    (what,) = subject(["cc", "reno"])
    assert run(what, 4, tmp_path).figures == read(tmp_path / "cc-tst_bench.json").figures


def test_the_built_in_algorithms_have_results_of_this_set():
    engine = find("sim")
    assert {record.name for record in built_in("cc")} >= {"cubic", "reno", "bbr", "lia"}
    assert {record.name for record in built_in("scheduler")} == {*engine.schedulers()}
    for kind in KINDS:
        records = built_in(kind)
        assert all(record.source is None and record.only is None and record.draws >= 20 for record in records)
        assert table(ranking(records)).count("\n") == len(records) + 1


# What somebody sends.


def written(tmp_path, change=lambda plain: plain, name="sent.json"):
    file = tmp_path / name
    plain = json.loads(as_json(record(lambda family, draw: 0.1 + draw / 10, draws=8)))
    file.write_text(json.dumps(change(plain)))
    return file


def but(**fields):
    return lambda plain: {**plain, **fields}


def with_figure(value):
    return lambda plain: {**plain, "figures": {**plain["figures"], "bulk": [value, *plain["figures"]["bulk"][1:]]}}


def test_a_result_comes_back_as_it_was(tmp_path):
    first = record(lambda family, draw: 0.1 + draw / 10, linux=Linux(kernel="6.12", figures=on_linux(0.25)))
    (tmp_path / "sent.json").write_text(as_json(first))
    assert read(tmp_path / "sent.json") == first
    # A family a line, for those who compare two files.
    assert len(as_json(first).splitlines()) < 70


def on_linux(value):
    return {name: {1: value} for name in NAMES["scheduler"] if name != "video"}


DAMAGED = {
    "a list": (lambda plain: [plain], "its fields are not"),
    "a field less": (lambda plain: {name: plain[name] for name in plain if name != "half"}, "its fields are not"),
    "a field more": (but(extra=1), "its fields are not"),
    "another set": (but(set="0" * 16), "it is of the set 1 '0000000000000000', and this is 1"),
    "another number": (but(benchmark=2), "it is of the set 2"),
    "another kind": (but(kind="queue"), "`kind` is 'queue', and there are cc, scheduler"),
    "a kind that is no text": (but(kind=["cc"]), "`kind` is"),
    "a name that steers": (but(name="\x1b[31mred"), "`name` is"),
    "a long name": (but(name="a" * 1000), "`name` is"),
    "a source that is none": (but(source="../x"), "`source` is"),
    "many draws": (but(draws=10**9), "`draws` is 1000000000, and a result has 4 to 6000"),
    "draws that are true": (but(draws=True), "`draws` is True"),
    "the test half alone": (but(half="test"), "`half` is 'test'"),
    "draws that are missing": (but(draws=10), "the family bulk does not have the 10 figures of its draws"),
    "a family less": (lambda plain: {**plain, "figures": dict(list(plain["figures"].items())[1:])}, "its families are not bulk"),
    "figures that are none": (but(figures=3), "its families are not bulk"),
    "a figure beyond": (with_figure(1.5), "the family bulk has the figure 1.5"),
    "a figure below": (with_figure(0.0), "the family bulk has the figure 0.0"),
    "a figure of many digits": (with_figure(10**400), "the family bulk has the figure 1000"),
    "a score of many digits": (
        lambda plain: {**plain, "scores": {half: dict.fromkeys(of, [10**400] * 3) for half, of in plain["scores"].items()}},
        "too large",
    ),
    "a figure that is text": (with_figure("0.5"), "the family bulk has the figure '0.5'"),
    "a figure that is true": (with_figure(True), "the family bulk has the figure True"),
    "better scores": (but(scores={"test": {"score": [99, 98, 100]}}), "its scores are not those of its figures"),
    "another figure": (with_figure(0.9), "its scores are not those of its figures"),
    "a kernel's field": (but(linux={"kernel": "6.12"}), "`linux` has other fields"),
    "a kernel's draws": (
        but(linux={"kernel": "6.12", "figures": {name: [0.5] * 3 for name in NAMES["scheduler"] if name != "video"}}),
        "the family bulk does not have the 1 figures",
    ),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_what_is_damaged_or_made_up_is_told_in_one_sentence(how, tmp_path):
    change, said = DAMAGED[how]
    file = written(tmp_path, change)
    with pytest.raises(BenchmarkError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file} is no result of this benchmark: ") and said in str(caught.value)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 400 + len(str(file))


TEXTS = {
    b"": "it is no JSON",
    b'{"benchmark": 1,\n "set": }': ":2: it is no JSON",
    b'{"benchmark": NaN}': "NaN is no figure",
    b"\xff\xfe{}": "it is no JSON",
    b"[" * 100_000: "is no result of this benchmark",
    b'{"benchmark": ' + b"9" * 5000 + b"}": "is no result of this benchmark",
    b" " * (MOST_BYTES + 1): "is longer than the 4 MB that a result may have",
}


@pytest.mark.parametrize("content", TEXTS, ids=lambda content: repr(content[:12]))
def test_bytes_that_are_no_result_are_told_in_one_sentence(content, tmp_path):
    file = tmp_path / "sent.json"
    file.write_bytes(content)
    with pytest.raises(BenchmarkError) as caught:
        read(file)
    assert TEXTS[content] in str(caught.value)


def test_a_folder_is_read_within_bounds(tmp_path):
    for number in range(MOST_FILES + 1):
        (tmp_path / f"{number}.json").touch()
    with pytest.raises(BenchmarkError, match=f"has more than {MOST_FILES} JSON files"):
        read_folder(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.json").mkdir()
    with pytest.raises(BenchmarkError, match="cannot be read: is a directory"):
        read_folder(tmp_path / "folder")


def test_places_are_by_the_test_half_and_chance_tells_nobody_apart():
    better = record(lambda family, draw: 0.5 if draw <= 8 else 0.1, name="a", draws=12)
    worse = record(0.4, name="b")
    # Tuned on the open half.
    tuned = record(lambda family, draw: 1.0 if half(draw) == "open" else 0.3, name="c")
    ranked = ranking([worse, tuned, better])
    assert ranked.draws == 8
    assert [(place.rank, place.record.name) for place in ranked.ranks] == [(1, "a"), (2, "b"), (3, "c")]
    assert ranked.ranks[1].of_best.mean == pytest.approx(0.8)
    assert ranked.ranks[2].families["bulk"] == pytest.approx(30)
    first = record(lambda family, draw: 0.4 + 0.1 * (draw % 4 == 0), name="a")
    second = record(lambda family, draw: 0.4 + 0.09 * (draw % 4 == 2), name="b")
    ranked = ranking([first, second])
    assert not ranked.ranks[1].of_best.tells_apart and "| 2 = |" in table(ranked)


def test_the_worst_networks_are_of_the_open_half_and_behind_somebody():
    mine = record(lambda family, draw: 0.1 if (family, draw) in (("loss", 3), ("loss", 4)) else 0.5)
    found = worst(mine, [record(0.4, name="a"), record(lambda family, draw: 0.8 if family == "loss" else 0.2, name="b")])
    assert (found[0].family, found[0].draw, found[0].figure, found[0].best, found[0].by) == ("loss", 3, 0.1, 0.8, "b")
    assert all(half(one.draw) == "open" for one in found)
    assert worst(mine, [])[0].by is None


def test_a_page_says_what_a_kernel_says():
    draws = {1: 0.25, 10: 0.25}
    told = Linux(kernel="6.12", figures={name: draws for name in NAMES["scheduler"] if name != "video"})
    text = page(record(0.5, draws=10, linux=told), [], lambda one: "", "again", "alone")
    assert "Linux 6.12 in 2 of the draws is told apart from the simulator in 8 of 8 families." in text
    assert "| bulk | 50.0 | 25.0 | 0.50 (0.50 to 0.50) |" in text


# The command.


def test_the_command_ranks_a_folder_among_the_built_in_algorithms(polypath, tmp_path):
    mine = replace(record(0.99, draws=20, name="mine"), source="0123456789abcdef")
    (tmp_path / "a.json").write_text(as_json(mine))
    (tmp_path / "b.json").write_text(as_json(record(0.98, draws=8, name="half", only="open")))
    code, out, err = polypath("benchmark", "--rank", tmp_path)
    assert (code, err) == (0, "")
    assert "test half of draws 1 to 20" in out and "left out: half, which has the open half alone" in out
    code, out, _ = polypath("benchmark", "--rank", tmp_path, "--json")
    told = json.loads(out)
    assert told[0]["name"] == "mine" and told[0]["rank"] == 1 and len(told) == 13


def test_several_are_a_line_each(polypath, tmp_path):
    code, out, _ = polypath("benchmark", "scheduler", "default", "minrtt", "--budget", "4draws", "--out", tmp_path)
    assert code == 0 and out.startswith("default: ") and "\nminrtt: " in out
    assert {file.name for file in tmp_path.glob("*.json")} == {"scheduler-default.json", "scheduler-minrtt.json"}


COMMAND_LINES = {
    (): "there is nothing to measure: write `cc NAME`",
    ("cc",): "which congestion control? `cc all` measures all; there are balia, bbr,",
    ("cc", "cubik"): 'there is no congestion control "cubik"; did you mean "cubic"?',
    ("cc", "newreno"): 'did you mean "reno"?',
    ("scheduler", "rr"): 'there is no scheduler "rr"; there are arrival, backup, blest,',
    ("cubic",): '"cubic" is neither cc nor scheduler nor a file NAME.c',
    ("nothere.c",): "there is no file nothere.c",
    ("bad.c",): "bad.c:2: it does not compile",
    ("bad.c", "cc"): "bad.c is measured by itself: leave cc out",
    ("cc", "cubic", "--budget", "1s"): "an interval needs two in each half",
    ("cc", "cubic", "--quick", "--budget", "1min"): "--quick is a budget of its own",
    ("cc", "cubic", "--half", "test"): "is not one of",
    ("cc", "cubic", "--rank", "."): "--rank reads what was measured",
    ("--rank", ".", "--half", "open"): "measures nothing: leave --half out",
    ("--rank", "nothere"): "nothere is no folder",
    ("--rank", "empty"): "empty holds no result",
}


@pytest.mark.parametrize("words", COMMAND_LINES, ids=lambda words: " ".join(words) or "nothing")
def test_a_mistake_is_one_sentence_before_anything_runs(words, polypath, tmp_path, monkeypatch, own_cache):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.c").write_text('#include "pp_cc.h"\nint x = y;\n')
    code, out, err = polypath("benchmark", *words)
    assert (code, out) == (2, "") and err.startswith("polypath: ") and COMMAND_LINES[words] in err
    assert not (tmp_path / "benchmark").exists()


def test_a_kernel_that_is_not_here_is_said_first(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_run.linux, "installed", list)
    with pytest.raises(BenchmarkError, match=r"the kernel 6\.12 is not here"):
        check_linux()
    code, out, err = polypath("benchmark", "cc", "cubic", "--linux", "--budget", "4draws")
    assert (code, out) == (2, "") and "polypath linux build 6.12" in err and not (tmp_path / "benchmark").exists()
