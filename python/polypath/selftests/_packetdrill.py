"""Google's packetdrill, a program that a person has built, and folders of its scripts: each script
with each family of addresses is a test of its own.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from polypath import linux
from polypath.engines import run_packetdrill
from polypath.study import unknown

from ._errors import SelftestError
from ._run import PATH, Job, Record, run_job
from ._suite import PLAYER, SCRIPT, Suite, Test, packed
from ._table import Row, rows

# Raise it when scripts are called otherwise.
_CALLED = 1
_IPV4 = ("--local_ip=192.168.0.1", "--gateway_ip=192.168.0.1", "--netmask_ip=255.255.0.0", "--remote_ip=192.0.2.1")
_IPV6 = ("--mtu=1520", "--local_ip=fd3d:0a0b:17d6::1", "--gateway_ip=fd3d:0a0b:17d6:8888::1", "--remote_ip=fd3d:fa7b:d17d::1")
_OPTION_LEVEL = {"4": ("SOL_IP", "IP_RECVERR"), "6": ("SOL_IPV6", "IPV6_RECVERR"), "mapped": ("SOL_IPV6", "IPV6_RECVERR")}
# What the program is called with for each family: the addresses and names that Google's run_all.py
# and the kernel's ksft_runner.sh give, on which expected cookies depend.
_ADDRESSES = {
    "4": ("--ip_version=ipv4", *_IPV4, "-D", "TFO_COOKIE=3021b9d889017eeb", "-D", "CODE=host_unreachable"),
    "6": ("--ip_version=ipv6", *_IPV6, "-D", "TFO_COOKIE=c1d1e9742a47a9bc"),
    "mapped": ("--ip_version=ipv4-mapped-ipv6", *_IPV4, "-D", "TFO_COOKIE=3021b9d889017eeb", "-D", "CODE=host_unreachable"),
}
FAMILIES = tuple(_ADDRESSES)
# Where the program lies beside the folders of an archive.
_AT = f".polypath/{PLAYER}"
# A line by which a script sets an address itself. The program would take ours instead.
_SETS = re.compile(r"^--(?:local|remote)_ip=(\S+)", re.MULTILINE)
# A file that a script names by its place from the script's folder.
_NAMED = re.compile(r"\.{1,2}/[\w./+-]+")
# Looks at the kernel's struct tcp_info, as every script with a line in Python does.
_PROBE = """\
0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 %{ assert tcpi_state == TCP_LISTEN }%
"""
# Where a script went wrong.
_PLACE = re.compile(r"\.pkt:\d+: ")
_MISFIT = re.compile(r"assertion .*tcp_info\b.* failed")


@dataclass(frozen=True)
class Script(Test):
    """A packetdrill script with one family of addresses, which is its `part`."""

    # Its folder, as people call it.
    folder: str = ""
    # Whether it sets addresses itself.
    own: bool = False
    # As Google's run_all.py; most take less than a second.
    patience_s: ClassVar[float] = 180.0

    @property
    def name(self) -> str:
        """As people call it: "close/close-on-syn-sent:4"."""
        return f"{self.folder}/{self.file.removesuffix(SCRIPT)}:{self.part}"

    @property
    def command(self) -> tuple[str, ...]:
        """Plays it in a network namespace of its own."""
        level, kind = _OPTION_LEVEL[self.part]
        names = ("-D", f"CMSG_LEVEL_IP={level}", "-D", f"CMSG_TYPE_RECVERR={kind}")
        player = os.path.relpath(_AT, self.suite.name)
        alone = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        addresses = [word for word in _ADDRESSES[self.part] if not self.own or word not in (*_IPV4, *_IPV6)]
        return (*alone, f"./{player}", "--send_omit_free", *addresses, *names, self.file)


def player_of(path: Path | None) -> Path:
    """The program: `path`, or where a machine would find it. Raises `SelftestError` if there is
    none.
    """
    if path is None:
        there = [folder / PLAYER for folder in PATH if (folder / PLAYER).is_file()]
        if not there:
            raise SelftestError(
                f"say with --packetdrill where the program {PLAYER} is: no Debian package has it, so build its sources (google/packetdrill)"
            )
        return there[0]
    if not path.is_file() or not os.access(path, os.X_OK):
        inside = path / PLAYER
        raise SelftestError(f"--packetdrill: {path} is no program" + (f"; you mean {inside}?" if inside.is_file() else ""))
    return path


def families_of(text: str) -> list[str]:
    """The families that "4,6" means. Raises `SelftestError` if it means none."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in FAMILIES:
            raise SelftestError(f"--family: {unknown('family', name, list(FAMILIES))}")
    return list(dict.fromkeys(names))


def scripts_of(path: Path, families: Sequence[str], player: Path, archives: Path) -> list[Script]:
    """The scripts below a folder, or one script, each with each of these families. What they use is
    packed into `archives`.

    A script whose name ends with v4 or v6 is for that family alone, and so is one that sets addresses
    itself.
    """
    top, files = _files_of(path)
    scripts = []
    for folder in dict.fromkeys(file.parent for file in files):
        here = [file for file in files if file.parent == folder]
        texts = {file.name: file.read_text(encoding="utf-8", errors="replace") for file in here}
        suite = _suite(folder, texts, player, archives)
        name = str(folder.relative_to(top)) if folder != top else top.resolve().name
        for file, text in texts.items():
            sets = _SETS.findall(text)
            scripts += [Script(suite, file, family, name, bool(sets)) for family in families if _is_for(file, sets, family)]
    if not scripts:
        raise SelftestError(f"{path} holds no scripts for the families {', '.join(families)}: add others with --family")
    return scripts


def _files_of(path: Path) -> tuple[Path, list[Path]]:
    """The folder by which scripts are called, and their files."""
    if not path.exists():
        raise SelftestError(f"there is no folder and no script {path}")
    files = sorted(path.rglob(f"*{SCRIPT}")) if path.is_dir() else [path]
    if not files or any(file.suffix != SCRIPT for file in files):
        raise SelftestError(f"{path} holds no scripts for packetdrill: their names end with {SCRIPT}")
    return path if path.is_dir() else path.parent, files


@dataclass(frozen=True)
class Played:
    """What came of a script on the simulator's endpoint."""

    # As people call it: "close/close-on-syn-sent".
    name: str
    outcome: Literal["passed", "failed", "refused"]
    # Where it failed, or what the endpoint cannot do.
    reason: str = ""


def play_on_endpoint(paths: Sequence[Path], player: Path, workers: int) -> list[Played]:
    """Plays scripts over IPv4 on the simulator's endpoint, unchanged. One that asks for what the
    endpoint cannot do is refused, also where it passes.
    """
    found: dict[Path, str] = {}
    for path in paths:
        top, files = _files_of(path)
        for file in files:
            folder = str(file.parent.relative_to(top)) if file.parent != top else top.resolve().name
            found[file] = f"{folder}/{file.stem}"

    def play(file: Path) -> Played:
        sets = _SETS.findall(file.read_text(encoding="utf-8", errors="replace"))
        if not _is_for(file.name, sets, "4"):
            return Played(found[file], "refused", "IPv6")
        level, kind = _OPTION_LEVEL["4"]
        names = ("-D", f"CMSG_LEVEL_IP={level}", "-D", f"CMSG_TYPE_RECVERR={kind}")
        addresses = [word for word in _ADDRESSES["4"] if not sets or word not in _IPV4]
        status, log, refused = run_packetdrill(player, file, ["--send_omit_free", *addresses, *names])
        if refused:
            return Played(found[file], "refused", refused[0])
        return Played(found[file], "failed", fault_of(log)) if status else Played(found[file], "passed")

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(play, found))


def _is_for(file: str, sets: Sequence[str], family: str) -> bool:
    if any((":" in address) != (family == "6") for address in sets):
        return False
    return not file.removesuffix(SCRIPT).endswith("v4" if family == "6" else "v6")


def _suite(folder: Path, texts: Mapping[str, str], player: Path, archives: Path) -> Suite:
    """A folder, with what its scripts name elsewhere: the files beside what is named come too."""
    folder = folder.resolve()
    named = {word for text in texts.values() for word in _NAMED.findall(text)}
    beside = {Path(os.path.normpath(folder / word)).parent for word in named if (folder / word).is_file()}
    root = Path(os.path.commonpath([folder.parent, *beside]))
    files = {str(file.relative_to(root)): file for at in (folder, *beside) for file in at.iterdir()}
    content = packed({**files, _AT: player})
    key = hashlib.sha256(bytes([_CALLED]) + content).hexdigest()
    archive = archives / f"{key}.tar"
    archive.write_bytes(content)
    return Suite(str(folder.relative_to(root)), tuple(texts), {}, archive, key)


def check_player(player: Path, kernel: linux.Kernel) -> None:
    """Plays a script of four lines. Raises `SelftestError` if the program is not packetdrill, or
    one that needs another kernel.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "probe"
        folder.mkdir()
        (folder / f"probe{SCRIPT}").write_text(_PROBE, encoding="ascii")
        (script,) = scripts_of(folder, ["4"], player, Path(name))
        status, log = run_job(Job(script, 1), kernel=kernel.file)
    if _MISFIT.search(log):
        raise SelftestError(
            f"{player} is newer than Linux {kernel.release}, whose struct tcp_info lacks fields that it reads: build packetdrill at a "
            "commit of that kernel's time"
        )
    if status:
        raise SelftestError(f"{player} plays no script in the machine, so it is no packetdrill that works there: {fault_of(log)}")


def fault_of(log: str) -> str:
    """What a run that failed said of it: where in the script, or its last words."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if _PLACE.search(line)), lines[-1] if lines else "it said nothing")


def script_rows(records: Sequence[Record]) -> list[Row]:
    """A row a script and family, below its folder."""
    table = []
    for row in rows(records):
        folder, _, script = row.test.rpartition("/")
        table.append(replace(row, test=folder, subtest=script))
    return table
