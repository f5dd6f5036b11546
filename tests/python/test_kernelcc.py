"""The package around polypath-cc, with a stand-in for the program."""

from pathlib import Path

import pytest

from polypath import customcc, kernelcc
from polypath.customcc import Algorithm
from polypath.kernelcc import KernelCcError, _program

STATUS = """{"release": "6.12.1", "algorithms": [
  {"name": "lia", "kernel_name": "pp_lia", "coupled": true}, {"name": "reno", "kernel_name": "pp_reno", "coupled": false}],
 "loaded": [{"name": "pp_lia", "how": "loaded", "users": 3, "this_build": false, "allowed": true,
   "sockets": [{"namespace": "namespace lab", "sockets": 2, "default": true}]}],
 "own": [{"name": "cubic", "allowed": false, "sockets": []}], "default": "cubic", "mptcp": false}"""


@pytest.fixture
def say(tmp_path, monkeypatch):
    """Makes a program out of shell commands."""

    def make(script):
        program = tmp_path / "polypath-cc"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setattr(_program, "PROGRAM", program)

    return make


def test_the_program_s_refusal_or_absence_is_the_whole_message(monkeypatch, polypath, tmp_path, say):
    monkeypatch.setattr(_program, "PROGRAM", tmp_path / "polypath-cc")
    code, out, err = polypath("cc", "status")
    assert (code, out) == (2, "")
    assert "make setup-all" in err
    assert len(err.splitlines()) == 1
    say("echo 'polypath-cc: this kernel is too small' >&2; exit 2")
    for words in (["load", "lia"], ["unload", "lia"], ["status"], ["check"]):
        assert polypath("cc", *words) == (2, "", "polypath: this kernel is too small\n")
    with pytest.raises(KernelCcError, match=r"^this kernel is too small$"), kernelcc.ensure(["lia"]):
        pass
    say("echo 'lia: different windows: call 3'; exit 1")
    assert polypath("cc", "check", "lia") == (1, "lia: different windows: call 3\n", "")


def test_status_is_a_table_and_a_coupled_one_tells_of_mptcp(say, monkeypatch, polypath):
    say(f"cat <<'END'\n{STATUS}\nEND")
    code, out, _ = polypath("cc", "status")
    assert code == 0
    for part in ("pp_lia", "another build", "2 sockets in namespace lab, default of namespace lab", "the kernel", "can be loaded: reno"):
        assert part in out
    assert kernelcc.Status.model_validate_json(polypath("cc", "status", "--json")[1]) == kernelcc.status()
    say(f"case $1 in load) echo loaded pp_lia;; status) cat <<'END'\n{STATUS}\nEND\nesac")
    code, out, _ = polypath("cc", "load", "lia")
    assert code == 0
    assert "loaded pp_lia" in out
    assert "net.mptcp.enabled=1" in out


def test_one_of_ones_own_is_handed_over_with_its_files(say, monkeypatch, polypath, tmp_path):
    answers = f"load) echo loaded pp_mine;; status) cat <<'END'\n{STATUS}\nEND\n;; check) echo mine: same;;"
    say(f'echo "$@" >>{tmp_path}/words\ncase $1 in {answers} esac')
    monkeypatch.setattr(customcc, "use", lambda folder: [own] if folder == tmp_path else [])
    own = Algorithm(name="mine", file=tmp_path / "mine.c", hash="0")
    monkeypatch.setattr(customcc, "used", lambda: {"mine": own})
    monkeypatch.setattr(customcc, "object_for", lambda own: Path("/a") / own.name)
    monkeypatch.setattr(customcc, "bpf_objects_for", lambda own: (Path("/b"), Path("/c")))
    assert polypath("cc", "load", "--cc-path", str(tmp_path), "pp_mine", "lia")[1].startswith("loaded pp_mine; choose it with")
    assert polypath("cc", "check", "--cc-path", str(tmp_path)) == (0, "mine: same\n", "")
    loaded, _, checked = (tmp_path / "words").read_text().splitlines()
    assert loaded == "load --own=mine=/a/mine=/b=/c pp_mine lia"
    assert checked == "check --own=mine=/a/mine=/b=/c --seed 1 mine"


def test_ensure_holds_until_its_end(say, tmp_path):
    say(f'echo pp_lia pp_reno; cat >/dev/null; echo "$@" >{tmp_path}/ended')
    with kernelcc.ensure(["lia", "pp_reno", "lia"]) as names:
        assert names == {"lia": "pp_lia", "reno": "pp_reno"}
        assert not (tmp_path / "ended").exists()
    assert (tmp_path / "ended").read_text() == "hold lia reno\n"
    with kernelcc.ensure([]) as nothing:
        assert nothing == {}
