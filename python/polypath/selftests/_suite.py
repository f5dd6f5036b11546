"""The tests of a kernel's sources: which there are, which a person means, and the archive that a
machine gets of a folder of them.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import re
import shlex
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from polypath import programs
from polypath.study import unknown

from ._errors import SelftestError

# Below tools/testing/selftests; a name without it is looked for there.
NET = "net"
# Variables of a folder's Makefile: tests, programs that are tests, programs and files that tests
# use.
_VARIABLES = ("TEST_PROGS", "TEST_GEN_PROGS", "TEST_GEN_FILES", "TEST_FILES", "TEST_INCLUDES", "TEST_PROGS_EXTENDED")
# A packetdrill script: a test that the folder's RUNNER runs.
SCRIPT, RUNNER, PLAYER = ".pkt", "ksft_runner.sh", "packetdrill"
_HELPERS = ("TEST_GEN_PROGS", "TEST_GEN_FILES")
_ASSIGNED = re.compile(r"^\s*(\w+)\s*(?::=|\+=|\?=|=)\s*(.*)$")
_LIBRARIES = re.compile(r"^\$\(OUTPUT\)/(\S+?)\s*:\s*(?:LDLIBS|LDFLAGS)\s*\+?=\s*(.*)$")
_PARTS = re.compile(r"^all_tests_sorted=\((.*?)^\)", re.MULTILINE | re.DOTALL)
# Of a compiler's message.
_LONGEST = 200


@dataclass(frozen=True)
class Suite:
    """A folder of tests, such as net/mptcp, ready to run."""

    # "net/mptcp"
    name: str
    # The programs that are run, as files of the folder.
    tests: tuple[str, ...]
    # Helper programs that could not be compiled, and why.
    missing: Mapping[str, str] = field(hash=False)
    # The archive with all that the tests use, and its hash.
    archive: Path
    key: str


@dataclass(frozen=True)
class Test:
    """One test of a suite."""

    suite: Suite
    file: str
    # Of a test that takes its parts as options: the option's letter.
    part: str = ""
    # Seconds of processor time after which its machine hangs: virtual time stands still for a test
    # that polls memory.
    patience_s: ClassVar[float] = 1800.0

    @property
    def name(self) -> str:
        """As people call it: "mptcp/simult_flows", "net/fib_tests", "mptcp/mptcp_join:f"."""
        return _name(self.suite.name, self.file, self.part)

    @property
    def command(self) -> tuple[str, ...]:
        """What runs it, in its folder: as tools/testing/selftests/kselftest/runner.sh would, with
        its part.
        """
        if self.file.endswith(SCRIPT):
            return (f"./{RUNNER}", f"./{self.file}")
        return (f"./{self.file}", *([f"-{self.part}"] if self.part else []))


def short(path: str) -> str:
    """The name of a test by its file below tools/testing/selftests."""
    path = path.removesuffix(".sh").removesuffix(SCRIPT)
    return path.removeprefix(f"{NET}/") if path.count("/") > 1 else path


def _name(folder: str, file: str, part: str) -> str:
    return short(f"{folder}/{file}") + (f":{part}" if part else "")


def names(root: Path, wanted: Sequence[str]) -> list[str]:
    """The names of the tests that `find` would find; nothing is made ready."""
    return [_name(*test) for test in _wanted(root, wanted)]


def find(root: Path, wanted: Sequence[str], say: Callable[[str], None] = lambda _: None) -> list[Test]:
    """The tests that these names mean: "mptcp/simult_flows", "mptcp" for a whole folder, patterns
    such as "net/fib_*".

    A test with parts is one test a part, so that they run beside each other; "mptcp/mptcp_join:f"
    is one of them.

    `root` is the folder tools/testing/selftests. Their suites are made ready: programs compiled,
    archives written.
    """
    tests = _wanted(root, wanted)
    suites = {folder: _ready(root, folder, say) for folder in dict.fromkeys(folder for folder, _, _ in tests)}
    return [Test(suites[folder], file, part) for folder, file, part in tests]


def _wanted(root: Path, wanted: Sequence[str]) -> list[tuple[str, str, str]]:
    """The folder, file and part of each test that these names mean, once."""
    tests: dict[tuple[str, str, str], None] = {}
    for word in wanted:
        name, _, part = word.partition(":")
        for folder, file in _meant(root, name):
            tests |= dict.fromkeys((folder, file, each) for each in _parts_meant(root / folder / file, part, word))
    return list(tests)


def _parts_meant(file: Path, part: str, word: str) -> list[str]:
    there = parts_of(file)
    if not part:
        return there or [""]
    if part not in there:
        whole = word.removesuffix(f":{part}")
        raise SelftestError(
            unknown("test", word, [f"{whole}:{part_name}" for part_name in there]) if there else f"{whole} has no parts: leave :{part} out"
        )
    return [part]


def parts_of(file: Path) -> list[str]:
    """The parts of a test that lists them with their options, as mptcp_join.sh does; none
    otherwise. Each needs nothing of the others.
    """
    text = file.read_text(encoding="utf-8", errors="replace") if file.suffix == ".sh" else ""
    listed = _PARTS.search(text)
    return re.findall(r"^\s*(\w)@\w+$", listed[1], re.MULTILINE) if listed else []


def _meant(root: Path, word: str) -> list[tuple[str, str]]:
    bare = word.strip("/").removesuffix(".sh").removesuffix(SCRIPT)
    path = bare if bare == NET or bare.startswith(f"{NET}/") else f"{NET}/{bare}"
    if (root / path / "Makefile").is_file():
        return [(path, file) for file in tests_of(root / path)]
    folder, _, name = path.rpartition("/")
    if not (root / folder / "Makefile").is_file():
        names = sorted(short(f"{makefile.parent.relative_to(root)}") for makefile in (root / NET).rglob("Makefile"))
        raise SelftestError(unknown("folder of tests", word, names))
    there = tests_of(root / folder)
    matching = [(folder, file) for file in there if fnmatch.fnmatchcase(file.removesuffix(".sh").removesuffix(SCRIPT), name)]
    if not matching:
        raise SelftestError(unknown("test", word, [short(f"{folder}/{file}") for file in there]))
    return matching


def tests_of(folder: Path) -> list[str]:
    """The tests of a folder, in its Makefile's order."""
    variables = _makefile(folder)
    scripts = [file for file in variables["TEST_PROGS"] if (folder / file).is_file()]
    return list(dict.fromkeys([*scripts, *variables["TEST_GEN_PROGS"]]))


def _makefile(folder: Path) -> dict[str, list[str]]:
    """The words of the variables that we know. Of what functions of make would compute, only
    packetdrill's scripts: $(wildcard *.pkt).
    """
    text = (folder / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    values: dict[str, list[str]] = {name: [] for name in _VARIABLES}
    for line in text.splitlines():
        match = _ASSIGNED.match(line.partition("#")[0].rstrip())
        if match and match[1] in values:
            if match[1] == "TEST_PROGS" and match[2].strip() == f"$(wildcard *{SCRIPT})":
                values[match[1]] += sorted(file.name for file in folder.glob(f"*{SCRIPT}"))
            values[match[1]] += [word for word in match[2].split() if not re.search(r"[$()%]", word)]
    return values


def _ready(root: Path, name: str, say: Callable[[str], None]) -> Suite:
    folder = root / name
    archive = root / f"{name.replace('/', '-')}.tar"
    about = archive.with_suffix(".json")
    if not about.is_file():
        missing = _compile(root, folder, say)
        content = _archive(root, folder)
        archive.write_bytes(content)
        # Written last: what is there is whole.
        about.write_text(json.dumps({"missing": missing, "key": hashlib.sha256(content).hexdigest()}), encoding="utf-8")
    about_before = json.loads(about.read_text(encoding="utf-8"))
    return Suite(name, tuple(tests_of(folder)), about_before["missing"], archive, about_before["key"])


def _compile(root: Path, folder: Path, say: Callable[[str], None]) -> dict[str, str]:
    """Compiles the folder's programs, statically; those that cannot be, with the compiler's first
    error.
    """
    variables = _makefile(folder)
    names = list(dict.fromkeys(name for kind in _HELPERS for name in variables[kind] if not name.endswith(".o")))
    libraries: dict[str, list[str]] = {}
    for line in (folder / "Makefile").read_text(encoding="utf-8").splitlines():
        match = _LIBRARIES.match(line)
        if match:
            libraries.setdefault(match[1], []).extend(word for word in shlex.split(match[2]) if word.startswith("-l"))
    sources = root.parents[2]
    # tools/include stands in for what only the kernel has, behind the system's own headers (the
    # Makefile of 7.x asks for it).
    includes: list[str | Path] = ["-I", root, "-isystem", sources / "include/uapi", "-idirafter", sources / "tools/include"]
    missing = {}
    for count, name in enumerate(names, 1):
        source = folder / f"{name}.c"
        if not source.is_file():
            missing[name] = f"{folder.name} has no {name}.c"
            continue
        say(f"compiling the programs of {folder.relative_to(root)}: {count} of {len(names)}")
        words: list[str | Path] = [
            "-O2",
            "-s",
            "-static",
            "-w",
            "-D_GNU_SOURCE=",
            *includes,
            "-o",
            folder / name,
            source,
            *libraries.get(name, []),
        ]
        done = programs.run("gcc", *words, cwd=folder)
        if done.returncode:
            wrong = [line for line in done.stderr.splitlines() if "error" in line or "cannot find" in line]
            first = (wrong or done.stderr.splitlines() or ["gcc failed"])[0]
            missing[name] = first.replace(f"{folder}/", "").replace(f"{sources}/", "")[:_LONGEST]
    return missing


def _archive(root: Path, folder: Path) -> bytes:
    """All that tests of a folder may open, in an order of its own and with no trace of who unpacked
    it when.
    """
    wanted = {file for file in folder.iterdir() if file.suffix not in (".c", ".o", ".h")}
    for above in folder.relative_to(root).parents:
        wanted |= set((root / above).glob("*.sh"))
    for library in (root / "kselftest", root / "lib", root / NET / "lib", root / NET / "forwarding"):
        wanted |= {file for file in library.rglob("*") if file.suffix in (".sh", ".py", ".pl")} if library.is_dir() else set()
    wanted |= {folder / file for file in _makefile(folder)["TEST_INCLUDES"]}
    resolved = {path.resolve() for path in wanted}
    return packed({str(file.relative_to(root.resolve())): file for file in resolved})


def packed(files: Mapping[str, Path]) -> bytes:
    """An archive of these files under these names; what is no file is left out."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, file in sorted(files.items(), key=lambda item: Path(item[0])):
            if file.is_file():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = file.stat().st_size, 0o755
                with file.open("rb") as content:
                    tar.addfile(entry, content)
    return memory.getvalue()
