"""Debian's packages of kernel sources in suites that this machine does not use: asked of the mirror
that it uses, with lists of their own below our cache. The machine's apt is left as it is.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ._commands import run
from ._errors import KernelError

# By Debian's aliases, which outlive releases. Those that are not there are left out.
SUITES = ("oldstable", "oldstable-backports", "stable", "stable-backports", "testing", "unstable", "experimental")
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
        self._kept = folder / "packages.json"
        self._env = {"APT_CONFIG": str(folder / "apt.conf")}

    def packages(self, say: Callable[[str], None]) -> list[Package]:
        """The newest package of each release, in the order of releases; what was released before a
        candidate.
        """
        if (known := self.fresh()) is None:
            self._update(say)
            known = self._listed()
            # Written last: apt reads its own lists for seconds.
            self._kept.write_text(json.dumps(known), encoding="utf-8")
        return known

    def fresh(self) -> list[Package] | None:
        """The same, where they were asked for within a day."""
        if not self._kept.exists() or time.time() - self._kept.stat().st_mtime >= _LISTS_KEPT_SECONDS:
            return None
        return [Package(*each) for each in json.loads(self._kept.read_text(encoding="utf-8"))]

    def _listed(self) -> list[Package]:
        names = sorted(self._run("apt-cache", "search", "--names-only", _PATTERN).split("\n"))
        names = [name.split()[0] for name in names if name]
        if not names:
            return []
        sizes = _sizes(self._run("apt-cache", "show", *names))
        packages: dict[str, Package] = {}
        for line in self._run("apt-cache", "madison", *names).splitlines():
            name, version, where = (word.strip() for word in line.split("|"))
            if not where.endswith("Packages"):
                continue
            release = name.removeprefix("linux-source-")
            package = Package(release, version, where.split()[1].split("/")[0], sizes[name, version])
            # The newest comes first.
            if release not in packages or ("~rc" in packages[release].version and "~rc" not in version):
                packages[release] = package
        return sorted(packages.values(), key=lambda package: [int(part) for part in package.release.split(".")])

    def fetch(self, package: Package, into: Path) -> Path:
        self._run("apt-get", "download", f"{package.name}={package.version}", cwd=into)
        (deb,) = into.glob("*.deb")
        return deb

    def _update(self, say: Callable[[str], None]) -> None:
        say("looking for kernels in Debian's other suites")
        purpose = "asking apt for its mirror"
        mirror = _mirror(run("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", cwd=Path("/"), purpose=purpose))
        shutil.rmtree(self._folder, ignore_errors=True)
        for name in ("lists/partial", "cache/archives/partial"):
            (self._folder / name).mkdir(parents=True)
        # First what the aliases stand for: mirrors that keep copies are newer under codenames.
        self._configure(mirror, SUITES, packages=False)
        try:
            self._run("apt-get", "update")
        except KernelError as error:
            # A suite that the mirror lacks is left out; one out of reach is not, nor are all.
            if "Failed to fetch" in str(error) or not _codenames(self._folder / "lists"):
                raise
        suites = _codenames(self._folder / "lists")
        if not suites:
            raise KernelError(f"{mirror} has none of Debian's suites {', '.join(SUITES)}: give a folder or tarball with the sources")
        self._configure(mirror, suites, packages=True)
        self._run("apt-get", "update")

    def _configure(self, mirror: str, suites: Sequence[str], *, packages: bool) -> None:
        signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
        lines = "".join(f"deb {signed}{mirror} {suite} main\n" for suite in suites)
        (self._folder / "sources.list").write_text(lines, encoding="utf-8")
        settings = {
            "Dir::Etc::SourceList": self._folder / "sources.list",
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": self._folder / "lists",
            "Dir::Cache": self._folder / "cache",
            # Root's own folder is not for the user _apt.
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
            "APT::Update::Error-Mode": "any",
            "Acquire::IndexTargets::deb::Packages::DefaultEnabled": str(packages).lower(),
            **{f"Acquire::IndexTargets::deb::{kind}::DefaultEnabled": "false" for kind in ("DEP-11", "Contents-deb")},
        }
        (self._folder / "apt.conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()), encoding="utf-8")

    def _run(self, *command: str, cwd: Path = Path("/")) -> str:
        return run(*command, cwd=cwd, purpose="looking into Debian's other suites", env=self._env)


def _mirror(targets: str) -> str:
    """The address of Debian's archive that this machine uses, by apt's own words."""
    for line in targets.splitlines():
        label, _, uri = line.partition(" ")
        if label == "Debian":
            return uri
    raise KernelError("apt of this machine knows no mirror of Debian: give a folder or tarball with the sources")


def _codenames(lists: Path) -> list[str]:
    """Of the suites whose Release files came."""
    codenames = {}
    for file in lists.glob("*_dists_*Release"):
        alias = file.name.split("_dists_")[1].rpartition("_")[0]
        codename = re.search(r"^Codename: (\S+)$", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
        # Experimental's is no name of a folder everywhere.
        codenames[alias] = codename[1] if codename and alias != "experimental" else alias
    return [codenames[suite] for suite in SUITES if suite in codenames]


def _sizes(shown: str) -> dict[tuple[str, str], int]:
    """By name and version, of what apt-cache shows."""
    sizes = {}
    for stanza in shown.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Size): (.*)$", stanza, re.MULTILINE))
        if len(fields) == 3:
            sizes[fields["Package"], fields["Version"]] = int(fields["Size"])
    return sizes
