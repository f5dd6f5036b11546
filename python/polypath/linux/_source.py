"""Where a kernel's sources come from: a Debian package, a person's folder or tarball. They are
copied, never changed in place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ._commands import apt_get, install, run
from ._errors import KernelError
from ._suites import Package, Suites

_DEBIAN = Path("/usr/src")

# What no part of our kernels is made of; half of the time and most of the space of unpacking.
# Kconfig files stay, since others name them.
_ARCHITECTURES = (
    "alpha arc arm arm64 c6x csky h8300 hexagon ia64 loongarch m68k microblaze mips nds32 nios2 openrisc parisc powerpc riscv s390 sh "
    "sparc unicore32 xtensa"
)
_DRIVERS = (
    "gpu media infiniband scsi staging net/ethernet net/wireless usb iio crypto video accel hwmon clk pinctrl mmc mtd phy thunderbolt md"
)
_UNUSED = (
    ".git",
    "*/Documentation/[!K]*",
    *(f"*/arch/{name}/*.{kind}" for name in _ARCHITECTURES.split() for kind in ("[chS]", "dts", "dtsi", "tbl")),
    *(f"*/drivers/{name}/*.[ch]" for name in _DRIVERS.split()),
    "*/sound/*.[ch]",
    "*/tools/testing",
    "*/tools/perf",
)
# What an earlier build in a person's folder left.
_BUILT = ("*.o", "*.a", "*.ko", ".*.cmd", "./.config*", "./vmlinux*", "./linux", "*/include/generated", "./include/config", "*.mod.c")


class Source(NamedTuple):
    """Sources of a kernel."""

    # What the kernel is to be called; "" = by its release.
    name: str
    # Folder or tarball.
    path: Path
    # Hash of the contents.
    identity: str


def resolve(wanted: str, sources_cache: Path, say: Callable[[str], None]) -> Source:
    """The sources that `wanted` means: "6.12" and the like are Debian's, everything else a folder
    or a tarball.
    """
    path = Path(wanted).expanduser()
    if re.fullmatch(r"\d+\.\d+", wanted) and not path.exists():
        tarball = _debian(wanted, sources_cache, say)
        return Source(wanted, tarball, _file_hash(tarball))
    if path.is_dir():
        if not (path / "Makefile").exists() or not (path / "arch" / "um").is_dir():
            raise KernelError(f"{path} does not hold the sources of a Linux kernel: it has no Makefile or no arch/um")
        return Source("", path.resolve(), _folder_hash(path))
    if path.is_file():
        return Source("", path.resolve(), _file_hash(path))
    raise KernelError(f"{wanted} is neither a release such as 6.12 nor a folder or tarball with the sources of a kernel")


def lacks_files(wrong: KernelError) -> bool:
    """Whether a compilation may have failed for want of what `unpack` leaves out."""
    return re.search(r"No rule to make target|No such file or directory", str(wrong)) is not None


def unpack(source: Source, tree: Path, *, whole: bool = False) -> None:
    """Puts the sources into the folder `tree`. Where they were put before, files whose contents are
    the same keep their time.

    What no part of our kernels is made of is left out, unless they are wanted whole, or were once.
    """
    stamp = tree.with_suffix(".json")
    before = json.loads(stamp.read_text(encoding="utf-8")) if stamp.exists() else {}
    more = whole and not before.get("whole")
    whole = whole or bool(before.get("whole"))
    excluded = [f"--exclude={pattern}" for pattern in (_UNUSED[:1] if whole else _UNUSED)]
    if before.get("identity") != source.identity or more:
        stamp.unlink(missing_ok=True)
        files: dict[str, list[int]] = {}
        if source.path.is_dir():
            excluded += [f"--exclude={pattern}" for pattern in _BUILT]
            files = _files(source.path, excluded)
        if files and before.get("files"):
            _update(source.path, tree, before["files"], files)
        elif more and before.get("identity") == source.identity:
            # What was compiled of the others stays.
            _copy(source.path, tree, ["--skip-old-files", *excluded])
        else:
            shutil.rmtree(tree, ignore_errors=True)
            tree.mkdir()
            _copy(source.path, tree, excluded)
        # Written last: an interrupted copy begins anew.
        stamp.write_text(json.dumps({"identity": source.identity, "files": files, "whole": whole}), encoding="utf-8")
    if not (tree / "arch" / "um" / "Kconfig").exists():
        raise KernelError(f"{source.path} does not hold the sources of a Linux kernel: it has no arch/um")


def _copy(path: Path, tree: Path, excluded: list[str]) -> None:
    if path.is_file():
        run("tar", "-C", tree, "--strip-components=1", *excluded, "-xf", path, cwd=tree, purpose=f"unpacking {path}")
    else:
        pipe = 'from=$1; to=$2; shift 2; tar -C "$from" "$@" -cf - . | tar -C "$to" -xf -'
        run("sh", "-c", pipe, "sh", path, tree, *excluded, cwd=tree, purpose=f"copying {path}")


def _files(path: Path, excluded: list[str]) -> dict[str, list[int]]:
    """Size, time and permissions of each file that is copied. tar chooses them, and reads none where nothing is
    written.
    """
    listed = run("tar", "-C", path, "--quoting-style=literal", *excluded, "-cvf", "/dev/null", ".", cwd=path, purpose=f"listing {path}")
    names = [name for name in listed.splitlines() if not name.endswith("/")]
    return {name: [(status := (path / name).lstat()).st_size, status.st_mtime_ns, status.st_mode] for name in names}


def _update(path: Path, tree: Path, before: Mapping[str, list[int]], now: Mapping[str, list[int]]) -> None:
    """Writes what changed, so that make compiles no more than that."""
    for name in before.keys() - now.keys():
        (tree / name).unlink(missing_ok=True)
    for name, status in now.items():
        if before.get(name) == status:
            continue
        theirs, ours = path / name, tree / name
        ours.parent.mkdir(parents=True, exist_ok=True)
        # A checkout back to what was there before changes times alone.
        if theirs.is_symlink() or not ours.is_file() or ours.is_symlink() or theirs.read_bytes() != ours.read_bytes():
            ours.unlink(missing_ok=True)
            shutil.copy(theirs, ours, follow_symlinks=False)
        elif theirs.stat().st_mode != ours.stat().st_mode:
            shutil.copymode(theirs, ours)


def release(tree: Path) -> str:
    """VERSION.PATCHLEVEL.SUBLEVEL with what follows, as the Makefile says."""
    head = (tree / "Makefile").read_text(errors="replace")[:2000]
    parts = {key: value.strip() for key, value in re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)\s*=(.*)$", head, re.MULTILINE)}
    if not parts.get("VERSION", "").isdigit() or not parts.get("PATCHLEVEL", "").isdigit():
        raise KernelError(f"{tree}/Makefile does not say which release of Linux this is")
    version = f"{parts['VERSION']}.{parts['PATCHLEVEL']}.{parts.get('SUBLEVEL') or 0}{parts.get('EXTRAVERSION', '')}"
    if (int(parts["VERSION"]), int(parts["PATCHLEVEL"])) < (5, 4):
        raise KernelError(f"Linux {version} is too old: virtual time came with 5.4, so take a release from 5.4 on")
    return version


def _debian(version: str, sources_cache: Path, say: Callable[[str], None]) -> Path:
    """The tarball of Debian's package linux-source-<version>; installed as root, unpacked into our
    cache otherwise, and where it is in another suite.
    """
    package = f"linux-source-{version}"
    for folder in (_DEBIAN, sources_cache):
        tarballs = sorted(folder.glob(f"{package}.tar.*"))
        if tarballs:
            return tarballs[0]
    root = os.geteuid() == 0
    cwd = Path("/")
    purpose = f"getting the Debian package {package} (or give a folder or tarball with the sources)"
    search = ("apt-cache", "search", "--names-only", f"^{package}$")
    # Lists that are there answer at once; new ones are fetched for what they do not name.
    known = run(*search, cwd=cwd, purpose=purpose).strip()
    if not known and (fresh := Suites(sources_cache / "suites").fresh()) is not None:
        _check_release(version, fresh)
    say(f"getting the Debian package {package}")
    if root:
        apt_get("update", purpose=purpose, say=say)
    if not known and not run(*search, cwd=cwd, purpose=purpose).strip():
        _from_another_suite(version, sources_cache, say)
    elif root:
        install(package, purpose=purpose, say=say)
    else:
        sources_cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=sources_cache, prefix=".") as name:
            work = Path(name)
            apt_get("download", package, purpose=purpose, say=say, cwd=work)
            (deb,) = work.glob("*.deb")
            _keep_tarball(deb, sources_cache)
    tarballs = [file for folder in (_DEBIAN, sources_cache) for file in sorted(folder.glob(f"{package}.tar.*"))]
    if not tarballs:
        raise KernelError(f"the Debian package {package} holds no tarball of the sources: give a folder or tarball with them")
    return tarballs[0]


def _check_release(version: str, packages: Sequence[Package]) -> Package:
    match = next((package for package in packages if package.release == version), None)
    if match is None:
        raise KernelError(
            f"neither this system's package sources nor Debian's other suites have Linux {version} (they have "
            f"{', '.join(package.release for package in packages)}): choose one of these, or give a folder or tarball with the sources"
        )
    return match


def _from_another_suite(version: str, sources_cache: Path, say: Callable[[str], None]) -> None:
    """Gets what this machine's package sources do not have out of another of Debian's suites."""
    suites = Suites(sources_cache / "suites")
    package = _check_release(version, suites.packages(say))
    say(f"Debian's {package.suite} has {package.name} {package.version}: fetching {package.bytes / 1e6:.0f} MB; nothing is installed")
    with tempfile.TemporaryDirectory(dir=sources_cache, prefix=".") as name:
        _keep_tarball(suites.fetch(package, Path(name)), sources_cache)


def _keep_tarball(deb: Path, sources_cache: Path) -> None:
    run("dpkg-deb", "-x", deb, deb.parent / "x", cwd=deb.parent, purpose=f"unpacking {deb.name}")
    for file in (deb.parent / "x" / "usr" / "src").glob("linux-source-*.tar.*"):
        file.rename(sources_cache / file.name)


def available(sources_cache: Path, say: Callable[[str], None]) -> list[tuple[Package, bool]]:
    """What `resolve` finds by release, and whether its sources are here."""
    packages = Suites(sources_cache / "suites").packages(say)
    return [(package, any(list(folder.glob(f"{package.name}.tar.*")) for folder in (_DEBIAN, sources_cache))) for package in packages]


def _file_hash(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _folder_hash(folder: Path) -> str:
    """Of names, sizes, times and permissions: reading everything would take longer than building."""
    digest = hashlib.sha256(str(folder.resolve()).encode())
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(files):
            status = (Path(parent) / name).lstat()
            # Of scripts: whether they can be started.
            if name.endswith((".c", ".h", ".S", ".sh", ".pl", ".py")) or name.startswith(("Kconfig", "Makefile", "Kbuild")):
                digest.update(f"{parent}/{name}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_mode}\0".encode())
    return digest.hexdigest()
