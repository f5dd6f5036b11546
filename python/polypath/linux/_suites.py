"""Debian's packages of kernel sources in suites that this machine does not use: asked of the mirror
that it uses, with lists of their own below our cache. The machine's apt is left as it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ._commands import run
from ._errors import KernelError

# By Debian's aliases, which outlive releases. Those that are not there are left out.
SUITES = ("oldstable-backports", "stable", "stable-backports", "testing", "unstable", "experimental")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_LISTS_KEPT_SECONDS = 24 * 3600
_PATTERN = "^linux-source-[0-9.]+$"


class Package(NamedTuple):
    """One that holds a kernel's sources."""

    # "7.3"
    release: str
    version: str
    # Where it is, by codename: "trixie-backports".
    suite: str
    # Of what would be fetched.
    bytes: int

    @property
    def name(self) -> str:
        return f"linux-source-{self.release}"


class Suites:
    """The lists of the other suites, in a folder of ours."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._env = {"APT_CONFIG": str(folder / "apt.conf")}

    def packages(self, say: Callable[[str], None]) -> list[Package]:
        """The newest package of each release, in the order of releases; what was released before a
        candidate.
        """
        self._update(say)
        names = sorted(self._run("apt-cache", "search", "--names-only", _PATTERN).split("\n"))
        names = [name.split()[0] for name in names if name]
        if not names:
            return []
        sizes = _sizes(self._run("apt-cache", "show", *names))
        found: dict[str, Package] = {}
        for line in self._run("apt-cache", "madison", *names).splitlines():
            name, version, where = (word.strip() for word in line.split("|"))
            if not where.endswith("Packages"):
                continue
            release = name.removeprefix("linux-source-")
            package = Package(release, version, where.split()[1].split("/")[0], sizes[name, version])
            # The newest comes first.
            if release not in found or ("~rc" in found[release].version and "~rc" not in version):
                found[release] = package
        return sorted(found.values(), key=lambda package: [int(part) for part in package.release.split(".")])

    def fetch(self, package: Package, into: Path) -> Path:
        """Downloads it."""
        self._run("apt-get", "download", f"{package.name}={package.version}", cwd=into)
        (deb,) = into.glob("*.deb")
        return deb

    def _update(self, say: Callable[[str], None]) -> None:
        stamp = self._folder / "updated"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < _LISTS_KEPT_SECONDS:
            return
        mirror = _mirror(
            run("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", cwd=Path("/"), purpose="asking apt for its mirror")
        )
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
        there = [suite for suite in SUITES if self._is_there(signed, mirror, suite, say)]
        if not there:
            raise KernelError(
                f"the mirror {mirror} has none of Debian's suites {', '.join(SUITES)}: give a folder or tarball with the sources"
            )
        stamp.touch()

    def _is_there(self, signed: str, mirror: str, suite: str, say: Callable[[str], None]) -> bool:
        """Takes a suite's list in; false where the mirror does not have it."""
        say(f"looking for kernels in Debian's {suite}")
        sources = self._folder / "sources.list"
        before = sources.read_text(encoding="utf-8") if sources.exists() else ""
        line = f"deb {signed}{mirror} {suite} main\n"
        sources.write_text(before + ("" if line in before else line), encoding="utf-8")
        settings = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self._folder / "lists",
            "Dir::Cache": self._folder / "cache",
            # Root's own folder is not for the user _apt.
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
        }
        (self._folder / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()), encoding="utf-8")
        try:
            self._run("apt-get", "update")
        except KernelError:
            sources.write_text(before, encoding="utf-8")
            return False
        return True

    def _run(self, *command: str, cwd: Path = Path("/")) -> str:
        return run(*command, cwd=cwd, purpose="looking into Debian's other suites", env=self._env)


def _mirror(targets: str) -> str:
    """The address of Debian's archive that this machine uses, by apt's own words."""
    for line in targets.splitlines():
        label, _, uri = line.partition(" ")
        if label == "Debian":
            return uri
    raise KernelError("apt of this machine knows no mirror of Debian: give a folder or tarball with the sources")


def _sizes(shown: str) -> dict[tuple[str, str], int]:
    """By name and version, of what apt-cache shows."""
    sizes = {}
    for stanza in shown.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Size): (.*)$", stanza, re.MULTILINE))
        if len(fields) == 3:
            sizes[fields["Package"], fields["Version"]] = int(fields["Size"])
    return sizes
