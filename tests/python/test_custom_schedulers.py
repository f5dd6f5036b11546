"""Custom schedulers."""

import subprocess

import pytest
from study_data import written

from polypath import StudyError, _native, customcc, linux, run
from polypath.customcc import CustomCcError
from polypath.linux import KernelError

STUDY = """
name: own
topology:
  nodes: {client: , server: {sysctl: {net.ipv4.tcp_rmem: 4096 131072 400000}}}
  links:
    lte: {ends: [client, server], both: {rate: 5mbit, delay: 60ms, queue: 60packets}}
    wifi: {ends: [client, server], both: {rate: 20mbit, delay: 10ms, queue: 60packets, loss: 0.2%}}
matrix: {scheduler: [NAMES]}
flows:
  bulk: {client: client, server: server, transport: mptcp, scheduler: "${scheduler}"}
duration: 3s
measure: {series: null}
baselines: null
"""
PICK = "\treturn pp_pick_fastest(c, choice);"
pytestmark = pytest.mark.usefixtures("own_cache")


def study(folder, *names):
    return written(folder, STUDY.replace("NAMES", ", ".join(names)))


def begun(folder, name, body=PICK):
    """One that works, but for another body of its hook."""
    file = customcc.new(name, folder, kind="sched")
    text = file.read_text()
    assert PICK in text
    file.write_text(text.replace(PICK, body))
    return file


def test_a_copy_of_any_is_that_one_under_another_name(tmp_path):
    names = [name for name, _ in _native.schedulers() if name not in customcc.used()]
    for number, name in enumerate(names):
        customcc.new(f"tss_z{number}", tmp_path / "mine", kind="sched", begin_from=name)
    assert len(customcc.use(tmp_path / "mine")) == len(names) == 12
    copies = [f"tss_z{number}" for number in range(len(names))]
    runs = run(study(tmp_path, *names, *copies), out=tmp_path / "results").runs.set_index("scheduler")
    columns = ["goodput_receiver_mbps", "data_segments_sent", "retransmissions"]
    for name, copy in zip(names, copies, strict=True):
        assert runs.loc[name, columns].tolist() == runs.loc[copy, columns].tolist(), name
    assert runs["goodput_receiver_mbps"].nunique() > 5


def test_a_copy_names_nothing_after_the_other(tmp_path):
    text = customcc.new("tss_x", tmp_path, kind="sched", begin_from="blest").read_text()
    assert "tss_x, begun from blest of Polypath" in text and '.what = "my own, begun from blest"' in text
    assert "blest_" not in text and "BLEST_" not in text and "TSS_X_LAMBDA" in text


def test_the_command_line_begins_one_and_runs_it(polypath, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY.replace("NAMES", "tss_a, minrtt"))
    code, out, _ = polypath("sched", "new", "tss_a", "--into", "mine")
    assert code == 0 and "write `scheduler: tss_a` in a study, then: polypath run STUDY --cc-path mine" in out
    code, out, _ = polypath("run", ".", "--cc-path", "mine", "--no-report")
    assert (code, "tss_a" in out) == (0, True)
    assert "my own, begun from minrtt" in polypath("list", "schedulers", "--cc-path", "mine")[1]


REFUSALS = {
    "a name with a hyphen": (("new", "my-own"), 'polypath sched new: "my-own" is no name of an algorithm'),
    "a long name": (("new", "thirteen_char"), 'polypath sched new: "thirteen_char" has 13 letters, and a kernel takes 12'),
    "a name that is ours": (("new", "blest"), "Polypath has a scheduler blest already"),
    "a file that is there": (("new", "there", "--into", "full"), "full/there.c is there already"),
    "one that is not there": (("new", "tss_f", "--from", "blist"), 'there is no scheduler "blist" to begin from; there are arrival,'),
    "a congestion control": (("new", "tss_f", "--from", "cubic"), 'there is no scheduler "cubic" to begin from'),
    "a check of nothing": (("check", "blist"), 'there is no scheduler "blist" (did you mean blest?); there are arrival, backup,'),
    "a folder without one": (("check", "--cc-path", "cc"), "cc holds no scheduler, only congestion controls; `polypath sched new NAME"),
    "a kernel that was not built": (("check", "--kernel", "6.99"), 'there is no kernel "6.99"'),
    "patches into a full folder": (("export", "--out", "full"), "full is there already, and not an empty folder"),
    "patches for no tree": (("export", "--out", "new", "--kernel", "full"), "full does not hold the sources of a Linux kernel"),
}


@pytest.mark.parametrize("arguments, sentence", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_is_one_sentence_and_exit_code_2(polypath, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "there.c").touch()
    (tmp_path / "cc").mkdir()
    reno = (customcc.sources() / "algs/reno.c").read_text().replace('\t.counterpart = "reno",\n', "")
    (tmp_path / "cc" / "tss_cc.c").write_text(reno.replace("reno)", "tss_cc)").replace('"reno"', '"tss_cc"'))
    code, out, err = polypath("sched", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"polypath: {sentence}")
    assert err.count("\n") == 1 and "Traceback" not in err


# What stands in the hook `pick` -> what the run says.
WRONG = {
    "a loop without end": ("\tfor (;;)\n\t\tc->priv = (char *)c->priv;\n\treturn choice->subflow;", "its hook pick does not end"),
    "memory of others": ("\t*(volatile __u32 *)8 = 1;\n\treturn 0;", "its hook pick crashed (signal 11)"),
    "a subflow that is not there": ("\tchoice->subflow = 7;\n\treturn 1;", "it chose subflow 7, and the connection has"),
    "bytes of nowhere": (
        "\tchoice->from = c->queue->end + 1;\n\tchoice->bytes = 1;\n\treturn 1;",
        "choice->from is neither queue->next nor",
    ),
    "no bytes": ("\tchoice->from = c->queue->next;\n\treturn c->queue->end != choice->from;", "it chose 0 bytes: return 0 to wait"),
}


@pytest.mark.parametrize("body, sentence", WRONG.values(), ids=WRONG.keys())
def test_what_it_does_wrong_is_named_and_takes_nothing_with_it(tmp_path, body, sentence):
    name = f"tss_w{list(WRONG.values()).index((body, sentence))}"
    begun(tmp_path / "mine", name, body)
    customcc.use(tmp_path / "mine")
    with pytest.raises(StudyError) as error:
        run(study(tmp_path, name), out=tmp_path / "results")
    assert f"{name}.c: " in str(error.value) and sentence in str(error.value)


TEXTS = {
    "a variable": ("\tstatic __u32 calls;\n\n\tcalls++;\n\treturn 0;", "the variable calls outlives a call"),
    "a floating-point number": ("\treturn (__u32)(c->paths[0].cwnd * 0.7) > 3;", "it computes with a floating-point number"),
    "the C library": ("\treturn (__u32)random();", "it does not compile: implicit declaration of function"),
    "assembly": ('\t__asm__ volatile("syscall");\n\treturn 0;', "__asm__ is assembly"),
}


@pytest.mark.parametrize("body, sentence", TEXTS.values(), ids=TEXTS.keys())
def test_what_no_kernel_takes_is_refused_with_its_line(tmp_path, body, sentence):
    file = begun(tmp_path / "mine", "tss_t", body)
    with pytest.raises(CustomCcError) as error:
        customcc.use(tmp_path / "mine")
    assert str(error.value).startswith(f"{file}:") and sentence in str(error.value)


TABLES = {
    "no hook": ("\t.pick = tss_m_pick,\n", "", "its ops table lacks the hook pick"),
    "another name": ('.name = "tss_m"', '.name = "else"', '.name in its ops table is "else": write "tss_m"'),
    "no facts": ("PP_SCHED_ABOUT(tss_m)", "PP_SCHED_ABOUT(else)", "it has no PP_SCHED_ABOUT(tss_m)"),
    "a large state": ('.name = "tss_m"', '.name = "tss_m", .priv_bytes = 65', "its state has 65 bytes; at most 64 fit"),
    "a large state of subflows": ('.name = "tss_m"', '.name = "tss_m", .subflow_bytes = 17', "its state of a subflow has 17 bytes"),
    "flags of none": ('.name = "tss_m"', '.name = "tss_m", .flags = 64', ".flags in its ops table is 64, which is none of"),
}


@pytest.mark.parametrize("before, after, sentence", TABLES.values(), ids=TABLES.keys())
def test_what_its_tables_have_wrong_is_said(tmp_path, before, after, sentence):
    file = begun(tmp_path / "mine", "tss_m")
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    with pytest.raises(CustomCcError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        customcc.use(tmp_path / "mine")


def tree(folder, header="#define MPTCP_SCHED_NAME_MAX 16\n"):
    """As much of a kernel's sources as patches must know."""
    files = {
        "Makefile": "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n",
        "arch/um/Kconfig": "",
        "include/net/mptcp.h": header,
        "net/mptcp/Makefile": "# SPDX-License-Identifier: GPL-2.0\nobj-$(CONFIG_MPTCP) += mptcp.o\n\nmptcp-y := protocol.o\n",
        "net/mptcp/Kconfig": 'config MPTCP\n\tbool "MPTCP"\n\nif MPTCP\n\nendif\n',
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_patches_apply_one_after_the_other_and_bring_what_was_asked_for(polypath, tmp_path):
    begun(tmp_path / "mine", "tss_p").with_name("beside.h").write_text("/* of one's own */\n")
    file = tmp_path / "mine" / "tss_p.c"
    file.write_text(file.read_text().replace('#include "pp_choose.h"\n', '#include "pp_choose.h"\n#include "beside.h"\n'))
    stock, out = tree(tmp_path / "tree"), tmp_path / "patches"
    told = polypath("sched", "export", "blest", "tss_p", "--cc-path", tmp_path / "mine", "--kernel", stock, "--out", out)
    assert told[0] == 0 and "wrote 3 patches for Linux 6.12.1" in told[1] and "net.mptcp.scheduler=pp_blest" in told[1]
    names = (out / "series").read_text().split()
    assert sorted(names) == names == sorted(file.name for file in out.glob("*.patch"))
    # A message says how the scheduler works, in lines that mails and logs have room for.
    message = (out / names[1]).read_text().partition("---\n")[0]
    assert "\n\nIdea. What a slow subflow carries holds its place" in message
    assert max(map(len, message.splitlines())) <= 72
    for name in names:
        subprocess.run(
            ["git", "apply", out / name], cwd=stock, check=True, env={"GIT_CEILING_DIRECTORIES": str(tmp_path), "PATH": "/usr/bin:/bin"}
        )
    place = stock / "net/mptcp/polypath"
    assert (place / "algs/tss_p.c").read_bytes() == file.read_bytes()
    assert (place / "algs/blest.c").read_bytes() == (customcc.sources() / "sched/blest.c").read_bytes()
    assert {header.name for header in place.rglob("*.h")} == {"beside.h", "pp_cc.h", "pp_choose.h", "pp_env.h", "pp_math.h", "pp_sched.h"}
    assert "obj-$(CONFIG_MPTCP_SCHED_TSS_P) += pp_tss_p.o\n" in (place / "Makefile").read_text()
    assert (stock / "net/mptcp/Makefile").read_text().count("polypath/") == 1
    with pytest.raises(KernelError, match="is there already: take a tree without these patches"):
        linux.export_schedulers(str(stock), customcc.ours("sched"), tmp_path / "again")


def test_a_tree_that_takes_no_schedulers_or_is_another_is_refused(tmp_path):
    ours = customcc.ours("sched")
    with pytest.raises(KernelError, match=r"Linux 6\.12\.1 takes no MPTCP schedulers: take a kernel from 6\.6 on"):
        linux.export_schedulers(str(tree(tmp_path / "old", header="")), ours, tmp_path / "out")
    other = tree(tmp_path / "other")
    (other / "net/mptcp/Kconfig").write_text("config MPTCP\n")
    with pytest.raises(KernelError, match="net/mptcp/Kconfig of this tree has no line `endif` where one is expected"):
        linux.export_schedulers(str(other), ours, tmp_path / "out")
    assert not (tmp_path / "out").exists()
