"""Custom congestion controls."""

import os
import re
import signal
import subprocess
import sys

import pytest
from study_data import written

from polypath import Results, StudyError, customcc, plan, run
from polypath.customcc import CustomCcError
from polypath.engines import find

STUDY = """
name: own
topology:
  nodes: {client: , middle: {router: true}, server: }
  links:
    first: {ends: [client, middle], both: {delay: 10ms}}
    second: {ends: [middle, server], both: {rate: 20mbit, queue: 60packets, loss: 0.1%}}
matrix: {cc: [NAME, reno]}
flows:
  bulk: {client: client, server: server, cc: "${cc}"}
duration: 5s
measure: {series: 50ms}
baselines: null
"""
pytestmark = pytest.mark.usefixtures("own_cache")


def study(tmp_path, name):
    return written(tmp_path, STUDY.replace("NAME", name))


def changed(file, *replacements):
    text = file.read_text()
    for before, after in replacements:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    return file


def test_the_skeleton_is_reno_to_the_segment(tmp_path):
    file = customcc.new("tst_a", tmp_path / "cc")
    assert file == tmp_path / "cc" / "tst_a.c"
    assert [own.name for own in customcc.use(tmp_path / "cc")] == ["tst_a"]
    series = run(study(tmp_path, "tst_a"), out=tmp_path / "results").series
    own, reno = (series[series["cc"] == cc]["cwnd"].tolist() for cc in ("tst_a", "reno"))
    assert own == reno
    assert len(set(own)) > 10


TWO_PATHS = (
    STUDY.replace("seeds", "")
    .replace(
        """    first: {ends: [client, middle], both: {delay: 10ms}}
    second: {ends: [middle, server], both: {rate: 20mbit, queue: 60packets, loss: 0.1%}}
matrix: {cc: [NAME, reno]}
flows:
  bulk: {client: client, server: server, cc: "${cc}"}
""",
        """    lte: {ends: [client, server], both: {rate: 10mbit, delay: 30ms, queue: 60packets}}
    wifi: {ends: [client, server], both: {rate: 20mbit, delay: 10ms, queue: 60packets, loss: 0.2%}}
matrix: {cc: [NAME, OTHER]}
flows:
  bulk: {client: client, server: server, transport: mptcp, cc: "${cc}"}
""",
    )
    .replace("middle: {router: true}, ", "")
)


def test_a_copy_of_any_is_that_one_under_another_name(tmp_path):
    names = sorted(file.stem for file in (customcc.sources() / "algs").glob("*.c"))
    for number, name in enumerate(names):
        customcc.new(f"tst_z{number}", tmp_path / "cc", begin_from=name)
    assert len(customcc.use(tmp_path / "cc")) == len(names) > 20
    for name in ("lia", "olia", "cubic", "bbr"):
        own = f"tst_z{names.index(name)}"
        (tmp_path / "study.yaml").write_text(TWO_PATHS.replace("NAME", own).replace("OTHER", name))
        series = run(tmp_path, out=tmp_path / name).series
        mine, theirs = (series[series["cc"] == cc]["cwnd"].tolist() for cc in (own, name))
        assert mine == theirs and len(set(mine)) > 5


def test_a_copy_names_nothing_after_the_other(tmp_path):
    text = customcc.new("tst_x", tmp_path, begin_from="newreno").read_text()
    assert "tst_x, begun from reno of Polypath" in text
    assert "reno_ssthresh" not in text and "aliases" not in text and "counterpart" not in text


def test_the_coupled_skeleton_is_reno_on_one_path_and_gentler_on_two(tmp_path):
    customcc.new("tst_y", tmp_path / "cc", coupled=True)
    customcc.use(tmp_path / "cc")
    series = run(study(tmp_path, "tst_y"), out=tmp_path / "one").series
    own, reno = (series[series["cc"] == cc]["cwnd"].tolist() for cc in ("tst_y", "reno"))
    assert own == reno
    (tmp_path / "study.yaml").write_text(TWO_PATHS.replace("NAME", "tst_y").replace("OTHER", "reno"))
    results = run(tmp_path, out=tmp_path / "two")
    windows = results.subflows.groupby("cc")["mean_cwnd"].sum()
    assert windows["tst_y"] < 0.9 * windows["reno"]


def test_another_source_is_another_run_and_leaves_the_others_alone(tmp_path):
    file = customcc.new("tst_b", tmp_path)
    customcc.use(tmp_path)
    mine = study(tmp_path, "tst_b")
    before = plan(mine, engine=find("sim"), out=tmp_path / "results")
    first = run(mine, out=tmp_path / "results").runs.set_index("cc")["goodput_receiver_mbps"]
    changed(file, ("BETA 512", "BETA 900"))
    customcc.use(tmp_path)
    after = plan(mine, engine=find("sim"), out=tmp_path / "results")
    assert [run.key for run in before.runs][1:] == [run.key for run in after.runs][1:]
    assert [run.parameters["cc"] for run in after.pending] == ["tst_b"]
    second = run(mine, out=tmp_path / "results").runs.set_index("cc")["goodput_receiver_mbps"]
    assert second["tst_b"] > first["tst_b"]
    assert second["reno"] == first["reno"]
    own = tmp_path / "with-a-header"
    file = customcc.new("tst_c", own)
    (own / "numbers.h").write_text("#define NUMBER 512\n")
    changed(file, ('#include "pp_math.h"', '#include "pp_math.h"\n#include "numbers.h"'), ("BETA 512", "BETA NUMBER"))
    (before,) = customcc.use(own)
    (own / "numbers.h").write_text("#define NUMBER 600\n")
    (after,) = customcc.use(own)
    assert before.hash != after.hash


MISTAKES = {
    "an undeclared name": (("* TST_D_BETA", "* TST_D_BETTA"), r"tst_d\.c:38: it does not compile: 'TST_D_BETTA' undeclared"),
    "a floating-point number": (
        ("(__u64)c->flow->cwnd * TST_D_BETA / 1024", "c->flow->cwnd * 0.7"),
        r"tst_d\.c:\d+: it does not compile: it computes with a floating-point number, which no kernel does; scale an integer",
    ),
    "a call of the C library": (
        ("\ts->losses++;", '\tint printf(const char *, ...);\n\ts->losses += printf("lost");'),
        r"tst_d\.c:\d+: it uses (printf|puts), which no kernel has",
    ),
    "too much state": (("__u32 losses;", "__u32 losses; __u64 more[11];"), r"tst_d\.c:\d+: it does not compile: .*exceeds the room"),
    "no registration": (("PP_CC_REGISTER(tst_d)", "static const struct pp_cc_ops other"), r"tst_d\.c: it has no PP_CC_REGISTER\(tst_d\)"),
    "no facts": (("PP_CC_ABOUT(tst_d)", "const struct pp_cc_about other"), r"tst_d\.c: it has no PP_CC_ABOUT\(tst_d\)"),
    "another name": (('.name = "tst_d"', '.name = "other"'), r'tst_d\.c: \.name in its ops table is "other": write "tst_d"'),
    "no reaction to loss": (("\t.ssthresh = tst_d_ssthresh,\n", ""), r"tst_d\.c: its ops table lacks the hook ssthresh"),
    "no growth": (("\t.cong_avoid = tst_d_cong_avoid,\n", ""), r"tst_d\.c: its ops table lacks the hook cong_avoid"),
    "a variable that outlives a call": (
        ("\ts->losses++;", "\tstatic int calls;\n\ts->losses += ++calls;"),
        r"tst_d\.c:36: the variable calls outlives a call, and all flows would share it: keep it in the state",
    ),
    "a variable of the file": (
        ("PP_STATE_FITS", "/* Has calls. */\n__u32 calls[2] = {1, 2};\nPP_STATE_FITS"),
        r"tst_d\.c:29: the variable calls outlives a call",
    ),
    "an unknown family": (("PP_FAMILY_LOSS", "7"), r"tst_d\.c: \.family is 7"),
}


@pytest.mark.parametrize("change, sentence", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_place(tmp_path, change, sentence):
    changed(customcc.new("tst_d", tmp_path), change)
    with pytest.raises(CustomCcError, match=sentence):
        customcc.use(tmp_path)
    assert "tst_d" not in customcc.used()


def test_a_table_that_never_changes_is_no_variable(tmp_path):
    table = 'static const char *const words[] = {"one", "two"};\nstatic const __u32 parts[] = {5, 6};\nPP_STATE_FITS'
    used = "\ts->losses += words[s->losses & 1][0] + parts[s->losses & 1];"
    changed(customcc.new("tst_k", tmp_path), ("PP_STATE_FITS", table), ("\ts->losses++;", used))
    assert [own.name for own in customcc.use(tmp_path)] == ["tst_k"]


GROWTH = "\t(void)ack;"
FAULTS = {
    "memory that is not there": ("tst_null", f"{GROWTH}\n\tif (f->cwnd > 20) *(volatile int *)0 = 1;", "crashed (signal 11)"),
    "a division by zero": ("tst_zero", f"{GROWTH}\n\tif (f->cwnd > 20) acked /= (__u32)c->flow->ecn_ok;", "crashed (signal "),
    "a loop without end": ("tst_loop", f"{GROWTH}\n\twhile (f->cwnd > 20) ;", "does not end: one call computed for 2 seconds"),
}


@pytest.mark.parametrize("name, line, sentence", FAULTS.values(), ids=FAULTS.keys())
def test_what_crashes_or_hangs_is_named_and_takes_nothing_with_it(polypath, tmp_path, monkeypatch, name, line, sentence):
    monkeypatch.chdir(tmp_path)
    changed(customcc.new(name, tmp_path / "mine"), (GROWTH, line))
    study(tmp_path, name)
    code, out, err = polypath("run", ".", "--cc-path", "mine", "--no-report")
    assert (code, out) == (2, "")
    (told,) = [text for text in err.splitlines() if text.startswith("polypath: ")]
    assert told.startswith(f"polypath: own: {name}.c: its hook cong_avoid ")
    assert sentence in told
    assert told.endswith(f"(in the run main, cc={name}, seed 1)")
    assert "Traceback" not in err
    assert Results.open(tmp_path / "results" / "own").runs["cc"].tolist() == ["reno"]
    with pytest.raises(StudyError, match=rf"^own: {name}\.c: its hook cong_avoid "):
        run(study(tmp_path, name), out=tmp_path / "results")


SENT = """
import os, signal, sys
from pathlib import Path
from polypath import customcc
name, digest, file = sys.argv[1:]
assert customcc.use_sent(name, digest, {f"{name}.c": Path(file).read_text()}).hash == digest
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_another_machine_sent_is_kept_once_and_a_killed_process_leaves_nothing(tmp_path, monkeypatch):
    cache, temporary = tmp_path / "cache" / "polypath" / "own", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    (mine,) = customcc.use(customcc.new("tst_s", tmp_path / "mine").parent)
    left = cache / ".compiling-of-one-that-was-killed"
    left.mkdir()
    os.utime(left, (0, 0))
    command = [sys.executable, "-c", SENT, "tst_s", mine.hash, str(mine.file)]
    workers = [subprocess.Popen(command) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [-signal.SIGKILL] * 3
    assert list(temporary.iterdir()) == []
    assert [folder.name for folder in cache.iterdir() if folder.is_dir()] == [f"tst_s-{mine.hash}"]


def test_many_at_once_are_the_same_as_one_after_the_other(tmp_path):
    customcc.new("tst_h", tmp_path)
    customcc.use(tmp_path)
    mine = written(tmp_path, STUDY.replace("NAME", "tst_y") + "seeds: 6\n")
    together, alone = (run(mine, out=tmp_path / str(workers), workers=workers) for workers in (6, 1))
    assert together.series.equals(alone.series)
    assert together.runs.equals(alone.runs)


def test_the_command_line_begins_one_runs_it_and_shows_the_compilers_words(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study(tmp_path, "tst_e")
    code, out, _ = polypath("cc", "new", "tst_e", "--into", "mine")
    assert code == 0
    assert "polypath run STUDY --cc-path mine" in out
    code, out, _ = polypath("run", ".", "--cc-path", "mine", "--no-report")
    assert (code, "tst_e" in out) == (0, True)
    assert "my own" in polypath("list", "cc", "--cc-path", "mine")[1]
    changed(tmp_path / "mine" / "tst_e.c", ("pp_undo(", "pp_undone("))
    code, out, err = polypath("run", ".", "--cc-path", "mine")
    assert (code, out) == (2, "")
    lines = err.splitlines()
    assert lines[0].startswith("polypath: mine/tst_e.c:")
    assert "pp_undone" in lines[0]
    assert "Traceback" not in err
    assert any("^" in line for line in lines)


REFUSALS = {
    "a name with a hyphen": (("cc", "new", "my-own"), 'polypath cc new: "my-own" is no name of an algorithm'),
    "a long name": (("cc", "new", "thirteen_char"), 'polypath cc new: "thirteen_char" has 13 letters, and a kernel takes 12'),
    "a name that is ours": (("cc", "new", "reno"), "Polypath has a congestion control reno already"),
    "another name of one that is ours": (("cc", "new", "hstcp"), "Polypath has a congestion control hstcp already"),
    "a file that is there": (("cc", "new", "there", "--into", "full"), "full/there.c is there already"),
    "one that is not there": (("cc", "new", "tst_w", "--from", "liaa"), 'there is no congestion control "liaa" to begin from; there are'),
    "two to begin from": (("cc", "new", "tst_w", "--from", "lia", "--coupled"), "--from lia is one algorithm to begin from and --coupled"),
    "a folder that is a file": (("cc", "new", "tst_f", "--into", "file"), "file is there already"),
    "no folder": (("run", ".", "--cc-path", "nowhere"), "nowhere is no folder; `polypath cc new NAME --into nowhere` begins"),
    "the file itself": (
        ("run", ".", "--cc-path", "full/there.c"),
        "full/there.c is a file; name the folder that it lies in: --cc-path full",
    ),
    "an empty folder": (("run", ".", "--cc-path", "empty"), "empty holds no algorithm, that is no file NAME.c"),
    "a file with such a name": (("run", ".", "--cc-path", "named"), 'named/No-Name.c: "No-Name" is no name'),
}


@pytest.mark.parametrize("arguments, sentence", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_is_one_sentence_and_exit_code_2(polypath, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    study(tmp_path, "cubic")
    for folder, file in (("full", "there.c"), ("named", "No-Name.c")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    code, out, err = polypath(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"polypath: {sentence}")
    assert err.count("\n") == 1


def test_no_compiler_says_what_to_install(tmp_path, monkeypatch):
    customcc.new("tst_f", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CustomCcError, match=r"^cc is missing: install the Debian package gcc$"):
        customcc.use(tmp_path)


def test_a_window_of_no_segment_is_told(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    polypath("cc", "new", "zero")
    file = tmp_path / "zero.c"
    text, changes = re.subn(r"pp_cong_avoid_ai\([^;]*;", "f->cwnd = 0;", file.read_text())
    assert changes
    file.write_text(text)
    (tmp_path / "z.yaml").write_text(
        "name: z\ntopology:\n  nodes: {a: , b: }\n  links: {l: {ends: [a, b], both: {rate: 20mbit, delay: 10ms}}}\n"
        "flows: {f: {client: a, server: b, transport: tcp, cc: zero}}\nduration: 5s\nmeasure: {series: 10ms}\n"
    )
    code, out, _ = polypath("run", "z.yaml", "--cc-path", ".", "--no-report")
    assert code == 0
    assert re.search(r"the congestion window of f was 0 in \d+ of \d+ samples: look at its algorithm", out)
    (tmp_path / "z.yaml").write_text((tmp_path / "z.yaml").read_text().replace("cc: zero", "cc: reno"))
    assert "congestion window of f was" not in polypath("run", "z.yaml", "--no-report")[1]
