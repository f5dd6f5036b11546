"""The command line."""

import errno
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from fake_engine import FakeEngine
from rich.console import Console
from study_data import STUDY, changed

from polypath import Results
from polypath.analysis import Verdict
from polypath.cli._init import templates
from polypath.cli._report import open_results
from polypath.engines import ENGINES
from polypath.report import claim_results, material


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(ENGINES, "fake", FakeEngine)
    return tmp_path


def write(folder, text=STUDY):
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(text)
    return folder


MISTAKES = {
    "a path that is no study": (
        ("run", "./nowhere"),
        "nowhere is no study: there is no such file or folder; `polypath list studies` shows",
    ),
    "a name that is no study": (
        ("run", "smal"),
        '"smal" is no study: there is no such file or folder, nor one of this name in studies; did you mean "small"?',
    ),
    "a folder without a study": (("run", "empty"), "empty is no study: there is no study.yaml in it; `polypath init NAME` writes one"),
    "a file that is no study": (("run", "notes.txt"), "notes.txt is no study file: its name does not end in .yaml"),
    "weights that are none": (
        ("run", "weights"),
        'weights/study.yaml:15: flows.bulk.scheduler: weights are up to 32 whole numbers from 1 to 100, like "weighted 3:1"; here they',
    ),
    "weights of a scheduler without": (
        ("run", "unweighted"),
        'unweighted/study.yaml:15: flows.bulk.scheduler: a scheduler is a name alone, but "weighted" may have weights, like "weighted 3:1"',
    ),
    "an unknown algorithm of the baselines": (
        ("run", "baseline"),
        'baseline/study.yaml:22: baselines.cc: there is no congestion control "quick"; did you mean "cubic"?',
    ),
    "two studies of one name": (("run", "studies/small", "again"), 'two studies are called "small": studies/small and again; rename one'),
    "a report on nothing": (("report", "empty"), "empty holds no results: there is no runs.parquet in it"),
    "a list of nothing": (("list", "schedulres"), 'there is no list "schedulres"; did you mean "schedulers"?'),
    "an unknown template": (("init", "mine", "--template", "wifi"), 'there is no template "wifi"; did you mean "wifi-lte"?'),
    "a study that is there already": (("init", "again"), "again/study.yaml is there already; choose another name or remove it"),
    "a name that is none": (("init", "my study"), 'my study/study.yaml:3: name: "my study" is no name'),
    "a file in the way": (("init", "notes.txt"), "notes.txt is a file, so no study can be made there"),
    "an unknown case": (("bench", "fast"), 'there is no case "fast"'),
    "a claim about no parameter": (
        ("run", "claim-where"),
        'claim-where/study.yaml:21: claims[0].where.ratte: there is no parameter or column "ratte"; did you mean "rate"?',
    ),
    "a schema where nothing can be written": (
        ("schema", "nowhere/schema.json"),
        "nowhere/schema.json: no such file or directory; choose another file or folder, or mend this one",
    ),
}


@pytest.fixture
def mistakes(tmp_path):
    write(tmp_path / "studies" / "small")
    write(tmp_path / "again")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("nothing")
    claim = (
        "claims: [{id: c, sentence: s, metric: srtt_ms, where: {ratte: 10mbit}, check: {kind: above, left: {cc: lia}, right: {cc: olia}}}]"
    )
    write(tmp_path / "claim-where", changed(("seeds: 2", f"seeds: 2\n{claim}")))
    write(tmp_path / "weights", changed(('cc: "${cc}"}', 'cc: "${cc}", scheduler: "weighted 3:0"}')))
    write(tmp_path / "unweighted", changed(('cc: "${cc}"}', 'cc: "${cc}", scheduler: "blest 3:1"}')))
    write(tmp_path / "baseline", changed(("seeds: 2", "seeds: 2\nbaselines:\n  cc: quick")))


@pytest.mark.usefixtures("mistakes")
@pytest.mark.parametrize("arguments, sentence", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_sentence_and_exit_code_2(polypath, arguments, sentence):
    engine = ["--engine", "fake"] if arguments[0] == "run" and "--engine" not in arguments else []
    code, out, err = polypath(*arguments, *engine)
    assert (code, out) == (2, "")
    assert err.startswith(f"polypath: {sentence}")
    assert err.count("\n") == 1


def test_a_full_disk_is_one_sentence(polypath):
    # This device is always full.
    full = "polypath: no space left on device: make room, or choose another folder; what is finished is kept\n"
    assert polypath("schema", "/dev/full") == (2, "", full)


def test_what_a_full_disk_takes_half_is_taken_away(polypath, tmp_path, monkeypatch):
    (tmp_path / "path.csv").write_text("before")
    (tmp_path / "up.txt").write_text("".join(f"[  5]   {at}.00-{at + 1}.00   sec  1.25 MBytes  5.00 Mbits/sec\n" for at in range(2)))

    def full(descriptor):
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = polypath("trace", "up.txt", "--out", "path.csv")
    assert (code, err) == (2, "polypath: path.csv: file too large: make room, or choose another folder; what is finished is kept\n")
    assert (tmp_path / "path.csv").read_text() == "before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["path.csv", "up.txt"]


@pytest.mark.usefixtures("mistakes")
@pytest.mark.parametrize("columns", ["", " , "])
def test_columns_that_name_none_are_refused(polypath, columns):
    code, out, err = polypath("run", "small", "--engine", "fake", "--columns", columns)
    assert (code, out) == (2, "")
    assert err == f'polypath: --columns "{columns}" names no column; `polypath list columns` shows all of them\n'


def test_a_column_named_twice_is_shown_once(polypath, tmp_path):
    write(tmp_path / "small")
    assert polypath("run", "small", "--engine", "fake", "--no-report", "--out", "r")[0] == 0
    once, twice = (polypath("show", "r/small", "--columns", names) for names in ("srtt_ms", "srtt_ms,srtt_ms"))
    assert once[0] == 0
    assert once == twice


@pytest.mark.usefixtures("mistakes")
@pytest.mark.parametrize("command, more", [("run", "; what is finished is kept, and the same command goes on from there"), ("show", "")])
def test_an_interrupt_says_what_is_kept_where_something_is(polypath, monkeypatch, command, more):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("polypath.cli._studies.path", interrupt)
    # It leaves without waiting for threads, which would end this process.
    monkeypatch.setattr("os._exit", sys.exit)
    assert polypath(command, "small") == (130, "", f"polypath: interrupted{more}\n")


def test_two_studies_of_one_name_in_one_results_folder(polypath, tmp_path):
    for folder in ("a", "b"):
        write(tmp_path / folder)
    assert polypath("run", "a", "--engine", "fake", "--no-report")[0] == 0
    for more in ((), ("--dry-run",)):
        code, out, err = polypath("run", "b", "--engine", "fake", "--no-report", *more)
        # Nothing before it says that anything runs.
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith('polypath: two studies are called "small"')
        assert "--out" in err
    # Whose results they are is said, not shown, where this one is looked at.
    for command in ("show", "report", "status"):
        code, out, err = polypath(command, "b")
        assert code == 2 and err.startswith('polypath: two studies are called "small"'), (command, out, err)
        assert "goodput" not in out and "report:" not in out
        assert polypath(command, "a")[0] == 0


def test_results_are_found_beside_their_study_and_by_its_name(polypath, tmp_path):
    for folder in ("studies/here", "there"):
        write(tmp_path / folder)
    (tmp_path / "mine.yaml").write_text(STUDY)
    assert polypath("run", "there", "--engine", "fake", "--no-report", "--out", "there/results")[0] == 0
    assert polypath("report", "there") == (0, "report: there/results/small/report.html\n", "")
    code, out, err = polypath("report", "mine.yaml")
    assert (code, out) == (2, "")
    assert "results/small holds no results" in err
    for mine in (("mine.yaml",), ("studies/here", "studies/here/study.yaml")):
        polypath("run", mine[0], "--engine", "fake", "--no-report")
        for name in (*mine, "small", "results/small"):
            assert polypath("report", name) == (0, "report: results/small/report.html\n", "")
            for command in ("show", "status"):
                assert polypath(command, name)[0] == 0, (command, name)
        shutil.rmtree("results/small")


def test_all_commands_know_a_study_and_its_results_by_the_same_names(polypath, tmp_path):
    write(tmp_path / "studies/here")
    assert polypath("run", "here", "--engine", "fake", "--no-report", "--out", "studies/here/results")[0] == 0
    (tmp_path / "apart.yaml").write_text(STUDY.replace("name: small", "name: apart"))
    assert polypath("run", "apart", "--engine", "fake", "--no-report")[0] == 0
    where = {
        "studies/here/results/small": ("here", "studies/here", "studies/here/study.yaml", "studies/here/results/small"),
        "results/apart": ("apart", "apart.yaml", "results/apart"),
    }
    for folder, names in where.items():
        for name in names:
            assert open_results(name).folder == Path(folder)
            assert polypath("status", name) == (0, f"nothing runs whose results go to {folder}\n", "")
            assert f"results go to {folder}" in polypath("run", name, "--engine", "fake", "--dry-run")[1]
            assert "limited by" in polypath("show", name)[1]


def test_run_writes_a_report(polypath, tmp_path):
    write(tmp_path / "small")
    code, out, _ = polypath("run", "small", "--engine", "fake", "--only", "cc=lia", "--only", "rate=20mbit")
    assert code == 0
    assert "report: results/small/report.html" in out
    page = (tmp_path / "results/small/report.html").read_text()
    assert "Does it work?" in page
    assert polypath("report", "small") == (0, "report: results/small/report.html\n", "")


def test_run_tells_what_it_did_and_a_dry_run_does_nothing(polypath, tmp_path):
    write(tmp_path / "small")
    code, out, _ = polypath("run", "small", "--engine", "fake", "--dry-run")
    assert code == 0
    assert "24 runs, 16 of them different, 16 to run; results go to results/small" in out
    assert not (tmp_path / "results").exists()
    write(tmp_path / "studies" / "small")
    code, out, err = polypath("run", "small", "--engine", "fake", "--no-report")
    assert code == 0
    assert "small: 8 runs and 8 of TCP alone on fake" in err
    assert "limited by" in out
    assert "results/small/runs.parquet" in out
    code, _, err = polypath("run", "small", "--engine", "fake", "--no-report")
    seeds, head, spent = err.splitlines()
    assert seeds.startswith("small: seeds change nothing here, since nothing is drawn at random")
    assert (code, head) == (0, "small: 8 runs and 8 of TCP alone on fake, 16 of them finished earlier")
    assert re.fullmatch(r"small: runs and tables \d+\.\d s, summary \d+\.\d s", spent)


def test_show_tells_of_a_study_and_of_results(polypath, tmp_path):
    write(tmp_path / "small")
    code, out, _ = polypath("show", "small")
    assert out.splitlines()[:2] == ["small", "Does it work?"]
    assert code == 0
    for word in ("Does it work?", "10.9.0.2", "rate 50mbit", "cc: lia, olia; rate: 20mbit, 10mbit"):
        assert word in out
    polypath("run", "small", "--engine", "fake", "--no-report")
    code, out, _ = polypath("show", "results/small")
    assert (code, "limited by" in out) == (0, True)


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("cc", "olia"),
        ("schedulers", "roundrobin"),
        ("schedulers", "Ferlin"),
        ("path-managers", "ndiffports"),
        ("mtu-searches", "quic-go"),
        ("elements", "Gilbert-Elliott"),
        ("engines", "virtual time"),
        ("kernels", "Linux 6.1.192"),
        ("templates", "wifi-lte"),
    ],
)
def test_list(polypath, what, word):
    code, out, _ = polypath("list", what)
    assert (code, word in out) == (0, True)


def test_lists_say_what_there_is_or_what_to_do(polypath, tmp_path):
    _, out, _ = polypath("list", "aqm")
    words = " ".join(out.split())
    for part in ("min!, max!, probability: 2%", "target: 5ms", "update: 15ms", "ecn: false"):
        assert part in words
    assert polypath("list", "studies") == (
        0,
        "studies: there are none in this folder or in ./studies; begin one with: polypath init NAME\n",
        "",
    )
    polypath("init", "mine")
    assert "mine" in polypath("list", "studies")[1]
    for folder, text in (("a", STUDY), ("b", STUDY), ("c", "name: 1\n")):
        write(tmp_path / "studies" / folder, text)
    _, out, _ = polypath("list", "studies")
    assert 'called "small" as studies/a is' in out
    assert "cannot be read" in out


def test_old_names_work_and_are_not_listed(polypath, tmp_path):
    _, out, err = polypath("schema")
    assert (json.loads(out)["title"], err) == ("Study", "polypath: `polypath schema` is now `polypath list schema`\n")
    assert polypath("list", "schema") == (0, out, "")
    assert "`polypath script` is now `polypath linux script`" in polypath("script")[2]
    _, out, _ = polypath("--help")
    places = [out.index(f"─ {panel} ─") for panel in ("Studies", "This machine", "Kernels", "Project")]
    assert places == sorted(places)
    assert not re.search(r"^│ (schema|script) ", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run",), "missing argument 'STUDY...'; `polypath run --help` shows what it takes"),
        (("run", "x", "--short=3"), "option '--short' does not take a value; `polypath --help` shows what it takes"),
        (("nope",), "no such command 'nope'; `polypath --help` shows what it takes"),
        (("linux", "selftests", "--workers", "0"), "invalid value for '--workers'"),
    ],
)
def test_wrong_words_are_one_sentence_as_any_mistake(polypath, words, sentence):
    code, out, err = polypath(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"polypath: {sentence}")


def test_a_group_alone_shows_its_help(polypath):
    code, out, err = polypath("linux")
    assert (code, err, "Commands" in out) == (2, "", True)


def test_json_is_all_that_is_printed_and_quiet_prints_nothing(polypath, tmp_path):
    write(tmp_path / "small")
    assert polypath("run", "small", "--engine", "fake", "--no-report", "--quiet") == (0, "", "")
    code, out, err = polypath("run", "small", "--engine", "fake", "--no-report", "--json")
    (told,) = json.loads(out)
    assert (code, err, told["study"], len(told["summary"])) == (0, "", "small", 4)
    assert json.loads(polypath("show", "results/small", "--json")[1]) == told
    shown = json.loads(polypath("show", "small", "--json")[1])
    assert (shown["number_of_cells"], shown["file"]["name"]) == (4, "small")
    assert polypath("show", "small", "-q") == (0, "", "")
    assert polypath("list", "cc", "--quiet") == (0, "", "")
    assert "olia" in {row["congestion control"] for row in json.loads(polypath("list", "cc", "--json")[1])["cc"]}
    assert json.loads(polypath("list", "kernels", "--json")[1])["kernels"]
    assert polypath("list", "nothing", "-q")[0] == 2


@pytest.mark.parametrize("template", list(templates()))
def test_a_template_runs_at_once_and_shows_what_it_teaches(polypath, tmp_path, template):
    text = templates()[template]
    # Its first line says it, and claims decide it.
    assert "It teaches that " in text.splitlines()[0]
    assert polypath("init", "mine", "--template", template)[0] == 0
    code, out, err = polypath("run", "mine", "--no-report")
    assert code == 0, err
    assert "limited by" in out
    found = claim_results(material(Results.open("results/mine")))
    assert found and all(claim.verdict is Verdict.HOLDS for claim in found), found


def test_doctor_takes_addresses_and_what_it_says_works_where_it_is_pasted(polypath):
    from polypath.cli._doctor import _inside

    assert _inside(None, "sysctl -w net.mptcp.enabled=1") == "sysctl -w net.mptcp.enabled=1"
    assert _inside("pp-phone", "ip mptcp limits set subflow 8") == "ip netns exec pp-phone ip mptcp limits set subflow 8"
    assert _inside("/run/netns/a b", "sysctl -w x=1") == "nsenter --net='/run/netns/a b' sysctl -w x=1"
    # What concerns the machine runs where it is.
    assert _inside("pp-phone", "apt-get install mptcpize") == "apt-get install mptcpize"
    assert polypath("doctor", "--to", "foo") == (2, "", "polypath: --to: foo is no IP address; write the other host's, such as 10.0.0.2\n")


def test_a_study_file_beside_is_found_by_its_name(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert polypath("init", "mine")[0] == 0
    (tmp_path / "mine" / "study.yaml").rename(tmp_path / "apart.yaml")
    code, out, err = polypath("show", "apart")
    assert (code, err) == (0, "")
    assert "Two disjoint paths" in out


def test_a_table_without_room_cuts_no_word(monkeypatch):
    from polypath.cli import _summary

    names, spare = ["distribution", "queue", "flow"], "retrans-\nmissions"

    def shown(width):
        console = Console(width=width, file=io.StringIO())
        monkeypatch.setattr(_summary, "out", console)
        table = _summary._table("t", names)
        for head in ("goodput\nMbit/s", "at best\nms", "of\npossible", spare, "limited by"):
            table.add_column(head)
        table.add_row("earliest", "100packets", "backup", "28.71 ± 2.15", "18.8", "92.6 %", "74", "tunnel's distribution")
        console.print(_summary._fitted(table, len(names), [spare]))
        return console.file.getvalue()

    wide, less, narrow, narrower, least = map(shown, (120, 92, 75, 62, 54))
    assert "tunnel's distribution" in wide and "retrans-" in wide
    # What a terminal can do without goes first; then the names share a column.
    assert "100packets" in less and "retrans-" not in less and "distribution   queue" in less
    assert "18.8" in narrow and "earliest" in narrow and "distribution   queue" not in narrow
    # Then what was best, and what was possible.
    assert "at best" not in narrower and "possible" in narrower
    assert "possible" not in least and "28.71 ± 2.15" in least and "distribution" in least
    assert "…" not in less + narrow + narrower + least
