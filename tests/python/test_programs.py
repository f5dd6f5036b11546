"""What is used of the machine beside the project itself."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import ANY

import pytest

from polypath import programs
from polypath.doctor import Facts, Question, findings

ROOT = Path(__file__).resolve().parents[2]
USES = {"base", "build", "linux", "cc", "iperf3", "tests", "fresh", "selftests", "web"}
BUSY = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"


def thing(name):
    (found,) = [each for each in programs.THINGS if each.name == name]
    return found


def test_every_line_of_the_list_is_complete_and_there_once():
    names = [(each.kind, each.name) for each in programs.THINGS]
    assert len(names) == len(set(names)) > 50
    for each in programs.THINGS:
        assert each.kind in {"program", "header", "library", "module", "file"}, each
        assert each.uses <= USES, each
        assert each.uses, each
        assert each.package, each
        assert each.what_for, each
        assert each.uses == {"base"} or "base" not in each.uses, each


def test_something_missing_is_said_with_its_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.find("ping") is None
    with pytest.raises(programs.ProgramError, match=r"^ping is missing: install the Debian package iputils-ping$"):
        programs.need("ping")
    with pytest.raises(programs.ProgramError, match=r"^cargo is missing: install Rust 1\.85 or later from \S+$"):
        programs.run("cargo", "--version")
    assert thing("flex") in programs.missing("linux")
    assert programs.packages([thing("flex"), thing("cargo"), thing("ld"), thing("nm")]) == ["flex", "binutils"]
    with pytest.raises(ValueError, match=r"tac is used, and \S+/list\.tsv does not name it"):
        programs.find("tac")


def test_programs_out_of_the_path_of_ordinary_users_are_found(monkeypatch, tmp_path):
    (tmp_path / "tc").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "tc").chmod(0o755)
    monkeypatch.setattr("polypath.programs._look._SBIN", (str(tmp_path),))
    monkeypatch.setenv("PATH", "/nonexistent")
    assert programs.run("tc").stdout == "here\n"


def test_tests_and_what_they_start_find_nothing_but_what_is_listed():
    # In every Debian, and used by nobody here.
    assert Path("/usr/bin/tac").exists()
    script = "command -v tac; command -v sed; python3 -c 'import shutil; print(shutil.which(\"tac\"))'"
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert said == [str(ROOT / ".venv" / "listed" / "sed"), "None"]
    names = {each.name for each in programs.THINGS if each.kind == "program"}
    chosen = {word for variable in ("RUSTC_WRAPPER", "CC", "CLANG", "POLYPATH_ALSO") for word in os.environ.get(variable, "").split()}
    assert {link.name for link in (ROOT / ".venv" / "listed").iterdir()} <= names | chosen


def test_the_script_that_runs_before_python_finds_the_same(tmp_path):
    uses = ("build", "linux", "cc", "iperf3", "tests")
    path = str(tmp_path)
    for name in ("bash", "dirname", "cc", "python3", "make"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run([programs.DEBIAN, "missing", *uses], env={"PATH": path}, capture_output=True, text=True, check=True)
    code = f"from polypath import programs\nfor each in programs.missing(*{uses}): print(each.package, each.name)"
    same = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout == same.stdout
    assert "flex flex\n" in done.stdout
    assert not {"gcc cc", "make make"} & set(done.stdout.splitlines())


@pytest.fixture
def apt(tmp_path, monkeypatch):
    """Runs debian.sh with this apt-get: exit code, words, and its calls."""

    def run(script, *words, patience=5):
        folder, calls = tmp_path / "bin", tmp_path / "calls"
        folder.mkdir()
        calls.write_text("")
        (folder / "apt-get").write_text(f"#!/bin/sh\necho \"$*\" >>{calls}\ntimes=$(grep -c '' {calls})\n{script}\n")
        (folder / "apt-get").chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "POLYPATH_APT_PATIENCE": str(patience)}
        done = subprocess.run([programs.DEBIAN, "apt-get", *words], env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.splitlines(), calls.read_text().splitlines()

    return run


def test_a_busy_apt_get_is_waited_for_and_that_is_said_once(apt):
    script = f"[ $times -gt 2 ] || {{ echo '{BUSY}' >&2; exit 100; }}; echo noise; echo 'W: more noise' >&2"
    code, said, calls = apt(script, "install", "flex")
    assert (code, calls) == (0, ["install flex"] * 3)
    assert said == ["polypath: apt-get, process 4711, is installing packages; waiting for it, 5 s at most."]


def test_the_wait_for_apt_get_ends(apt):
    code, said, _ = apt(f"echo '{BUSY}' >&2; exit 100", "update", patience=1)
    assert code == 75
    assert len(said) == 2
    assert said[1] == "polypath: apt-get, process 4711, still installs packages after 1 s: wait until it has ended, then try again."


def test_other_failures_of_apt_get_are_its_own_words_at_once(apt):
    code, said, calls = apt("echo 'W: no index' >&2; echo 'E: Unable to locate package flax' >&2; exit 100", "install", "flax")
    assert (code, said, len(calls)) == (100, ["E: Unable to locate package flax"], 1)


def system_packages(tmp_path, lacks, apt_get, user, *words):
    """`tools/machine packages` where some programs lack and apt-get is a script."""
    folder = tmp_path / "machine"
    folder.mkdir()
    for link in (ROOT / ".venv" / "listed").iterdir():
        if link.name not in lacks and link.name not in {"apt-get", "id"}:
            (folder / link.name).symlink_to(link.readlink())
    for name, text in (("id", f"echo {user}"), ("apt-get", apt_get.format(folder=folder))):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    # The folders of programs for root are this machine's own, so it is one of what they lack.
    environment = {"PATH": str(folder), "HOME": str(tmp_path), "POLYPATH_APT_PATIENCE": "1"}
    done = subprocess.run([ROOT / "tools/machine", "packages", *words], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


ASK = "polypath: missing on this machine, by their names in Debian: make: ask its administrator to install them and run make again."
BY_HAND = "polypath: could not install the Debian package make: apt-get's words are above; install it by hand and run make again."
REST = "polypath: could not install the Debian packages flex (apt-get's words are above): what needs them says so."
RUST = r"polypath: cargo rustc missing: install Rust 1\.85 or later .* and run make again\."
NO_FLEX = "E: Unable to locate package flex"


@pytest.mark.parametrize(
    ("lacks", "apt_get", "words", "code", "out", "err"),
    [
        ({"flex"}, "exit 1", ("0",), 0, [], []),
        ({"make"}, "[ $1 = update ] || ln -s /bin/true {folder}/made", ("0",), 0, ["installing Debian packages: make"], []),
        ({"make"}, "echo 'E: Failed to fetch it' >&2; exit 100", ("0",), 1, ANY, ["E: Failed to fetch it"] * 2 + [BY_HAND]),
        # One that is not to be had keeps no other away.
        (
            *({"flex", "bc"}, f"case \"$*\" in *flex*) echo '{NO_FLEX}' >&2; exit 100 ;; esac"),
            *(("0", "linux"), 0, ["installing Debian packages: flex bc"], [NO_FLEX, REST]),
        ),
        ({"make"}, "exit 1", ("1000",), 1, [], [ASK]),
        ({"cargo", "rustc"}, "exit 1", ("0",), 1, ANY, ANY),
    ],
)
def test_what_the_build_lacks_is_installed_by_root_or_named(tmp_path, lacks, apt_get, words, code, out, err):
    found = system_packages(tmp_path, lacks, apt_get, *words)
    assert found == (code, out, err)
    assert (tmp_path / "machine" / "made").is_symlink() == ("made" in apt_get)
    assert "rustc" not in lacks or re.fullmatch(RUST, found[2][0])


def test_the_readme_asks_for_all_that_the_build_takes():
    (packages,) = re.findall(r"^ +apt-get install (.*)$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M)
    takes = set(programs.packages([each for each in programs.THINGS if "build" in each.uses]))
    # Those that others bring: gcc its assembler and linker, python3-venv its interpreter.
    assert takes - set(packages.split()) == {"binutils", "python3"}


def test_the_doctor_says_what_parts_of_polypath_lack():
    facts = Facts(release="6.12.1", mptcp="works", missing=(thing("flex"), thing("bc"), thing("iperf3")))
    found = [each for each in findings(facts, Question()) if each.id == "software"]
    assert [(each.severity, each.run) for each in found] == [("note", ("apt-get install flex bc",)), ("note", ("apt-get install iperf3",))]
    assert found[0].sentence == "polypath linux build cannot build kernels without flex (compiles kernels), bc (compiles kernels)"
    assert "iperf3 (flows with `program: iperf3`)" in found[1].sentence


def test_a_program_of_ours_that_is_missing_is_named_with_what_builds_it(monkeypatch, tmp_path):
    assert programs.not_built("polypath-tunnel") == f"the program polypath-tunnel was not built: run `make setup-all` in {ROOT}"
    monkeypatch.setattr("polypath.programs._look.__file__", str(tmp_path / "site-packages" / "polypath" / "programs" / "_look.py"))
    assert programs.not_built("polypath-tunnel") == (
        "the program polypath-tunnel is not in this installation: install a wheel that `make wheel` made, which has it"
    )


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["tunnel", "status"], "polypath.tunnel.PROGRAM"),
        (["cc", "status"], "polypath.kernelcc._program.PROGRAM"),
        (["linux", "script", "tests/scripts/tcp-handshake-active.pkt"], "polypath.engines._packets.PLAYER"),
    ],
)
def test_commands_that_make_demo_does_not_build_say_so(monkeypatch, polypath, tmp_path, words, place):
    monkeypatch.setattr(place, tmp_path / "the-program")
    monkeypatch.chdir(ROOT)
    code, _, said = polypath(*words)
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"polypath: the program the-program was not built: run `make setup-all` in {ROOT}")
