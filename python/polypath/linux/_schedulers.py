"""Schedulers for kernels that Polypath does not build: whether a kernel's build of a scheduler
chooses as the simulator's does, and patches for people's own trees.
"""

from __future__ import annotations

import difflib
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from polypath import _native, customcc

from . import _source
from ._commands import run
from ._errors import KernelError
from ._kernel import folder, recipe_of
from ._link import sources, takes_schedulers
from ._recipe import TREE

# Of a kernel's tree, what patches must know.
_STOCK = ("Makefile", "include/net/mptcp.h", "net/mptcp/Kconfig", "net/mptcp/Makefile")
# Where everything goes, below the tree.
_PLACE = "net/mptcp/polypath"
_HOOK = "obj-$(CONFIG_MPTCP_POLYPATH) += polypath/\n"
_SOURCE = f'source "{_PLACE}/Kconfig"\n\n'
_KCONFIG = (
    "# SPDX-License-Identifier: GPL-2.0-only\n"
    'config MPTCP_POLYPATH\n\tbool "MPTCP: further packet schedulers"\n\thelp\n'
    "\t  Packet schedulers beside the kernel's own, each chosen with\n"
    "\t  sysctl net.mptcp.scheduler=pp_NAME for the connections of a network\n"
    "\t  namespace.\n\n\t  If unsure, say N.\n\n"
    "if MPTCP_POLYPATH\n\nendif\n"
)
_MAKEFILE = f"""\
# SPDX-License-Identifier: GPL-2.0-only
ccflags-y := -iquote $(srctree) -iquote $(srctree)/{_PLACE} -DPP_KERNEL_MPTCP
"""
# Of a commit message.
_COLUMNS = 72
_BASE = """\
mptcp: a folder for further packet schedulers

Schedulers are files of restricted C that see nothing of a kernel but what
pp_sched.h gives them; sched.c makes each an MPTCP scheduler. Nothing that
was there changes but a line in Kconfig and one in Makefile.

A scheduler is built in: mptcp_register_scheduler() is for built-in code.
"""


def check_schedulers(kernel: str, schedulers: Sequence[customcc.Algorithm], *, seed: int = 1) -> Iterator[tuple[str, int, str | None]]:
    """Compiles schedulers with a kernel's own flags, and asks that build and the simulator's in
    lockstep, on random connections: the name, how often both were asked, the first difference.
    """
    recipe = recipe_of(kernel)
    cc = sources()
    if not takes_schedulers(recipe.place / TREE, recipe.mptcp):
        raise KernelError(f"Linux {recipe.release} takes no MPTCP schedulers: take a kernel from 6.6 on")
    for scheduler in schedulers:
        with tempfile.TemporaryDirectory() as work:
            part, shared_object = Path(work, "part.o"), Path(work, "object.so")
            run(
                *recipe.compile, "-fPIC", "-mcmodel=small", "-I", cc / "include", f"-DPP_SCHED={scheduler.name}",
                f'-DPP_SCHED_FILE="{scheduler.file.resolve()}"', "-o", part, cc / "kernel" / "choose.c",
                cwd=recipe.place / TREE, purpose=f"compiling the scheduler {scheduler.name} for Linux {recipe.release}",
            )  # fmt: skip
            customcc.link(scheduler, part, shared_object)
            try:
                calls, difference = _native.compare_scheduler(str(shared_object), scheduler.name, seed)
            except ValueError as error:
                raise KernelError(str(error)) from None
            yield scheduler.name, calls, difference


def export_schedulers(
    kernel: str, schedulers: Sequence[customcc.Algorithm], out: Path, *, say: Callable[[str], None] = lambda _: None
) -> tuple[str, list[Path]]:
    """Writes patches that give a kernel these schedulers, a file `series` beside them: one patch
    with what all share, and one for each. The release they are for, and the patches.

    `kernel` is what `build` takes: a release that Debian has, a folder or a tarball.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise KernelError(f"{out} is there already, and not an empty folder; choose another one with --out")
    release, tree = _stock(kernel, say)
    patches, series = [], _series(tree, schedulers)
    for number, (message, after) in enumerate(series, 1):
        subject, _, body = message.partition("\n")
        name = f"{number:04}-{re.sub(r'[^a-z0-9]+', '-', subject.lower()).strip('-')}.patch"
        changes = "".join(_diff(path, tree.get(path, ""), text) for path, text in after.items() if tree.get(path) != text)
        head = f"From: Polypath <polypath@localhost>\nSubject: [PATCH {number}/{len(series)}] {subject}\n"
        patches.append((out / name, f"{head}{body}\n---\n{changes}-- \nPolypath {_native.version()}\n"))
        tree |= after
    out.mkdir(parents=True, exist_ok=True)
    for file, text in patches:
        file.write_text(text, encoding="utf-8")
    (out / "series").write_text("".join(f"{file.name}\n" for file, _ in patches), encoding="utf-8")
    return release, [file for file, _ in patches]


def _stock(kernel: str, say: Callable[[str], None]) -> tuple[str, dict[str, str]]:
    """A kernel's release, and its files of _STOCK."""
    source = _source.resolve(kernel, folder() / "sources", say)
    with tempfile.TemporaryDirectory() as work:
        tree = source.path
        if not tree.is_dir():
            tree = Path(work)
            say(f"reading {source.path}")
            run(
                "tar", "-C", tree, "--strip-components=1", "--wildcards", "--no-wildcards-match-slash", "-xf", source.path,
                *(f"*/{name}" for name in _STOCK), cwd=tree, purpose=f"reading {source.path}",
            )  # fmt: skip
        release = _source.release(tree)
        if not takes_schedulers(tree, "v1"):
            raise KernelError(f"Linux {release} takes no MPTCP schedulers: take a kernel from 6.6 on")
        if (tree / _PLACE).exists():
            raise KernelError(f"{tree / _PLACE} is there already: take a tree without these patches")
        return release, {name: (tree / name).read_text(encoding="utf-8") for name in _STOCK}


def _series(tree: dict[str, str], schedulers: Sequence[customcc.Algorithm]) -> list[tuple[str, dict[str, str]]]:
    """Each patch: its message, and the files that it changes as they are then."""
    cc = sources()
    headers = {file.name: file for file in (cc / "include").glob("*.h")}
    shared = _included([cc / "kernel" / "sched.c", *(scheduler.file for scheduler in schedulers)], headers)
    build, config = _MAKEFILE, _KCONFIG
    files = {
        "net/mptcp/Makefile": _behind(tree, "net/mptcp/Makefile", "obj-$(CONFIG_MPTCP) += mptcp.o\n", _HOOK),
        "net/mptcp/Kconfig": _behind(tree, "net/mptcp/Kconfig", "", _SOURCE, before="endif\n"),
        f"{_PLACE}/Kconfig": config,
        f"{_PLACE}/Makefile": build,
        f"{_PLACE}/sched.c": (cc / "kernel" / "sched.c").read_text(encoding="utf-8"),
        **{f"{_PLACE}/{header}": headers[header].read_text(encoding="utf-8") for header in sorted(shared)},
    }
    series = [(_BASE, files)]
    for scheduler in schedulers:
        name, about = scheduler.name, dict(_native.schedulers())[scheduler.name]
        option = f"MPTCP_SCHED_{name.upper()}"
        build += f"obj-$(CONFIG_{option}) += pp_{name}.o\n"
        config = config.removesuffix("endif\n") + f'config {option}\n\tbool "{name}: {_quoted(about)}"\n\tdefault y\n\nendif\n'
        unit = f'#define PP_SCHED {name}\n#define PP_SCHED_FILE "algs/{name}.c"\n#include "sched.c"\n'
        beside = {file.name: file for file in scheduler.file.parent.glob("*.h")}
        added = {f"{_PLACE}/algs/{each}": beside[each].read_text(encoding="utf-8") for each in sorted(_included([scheduler.file], beside))}
        added |= {
            f"{_PLACE}/Kconfig": config,
            f"{_PLACE}/Makefile": build,
            f"{_PLACE}/algs/{name}.c": scheduler.file.read_text(encoding="utf-8"),
            f"{_PLACE}/pp_{name}.c": f"// SPDX-License-Identifier: GPL-2.0-only\n{unit}",
        }
        series.append((f"mptcp: the packet scheduler pp_{name}\n\n{_essay(scheduler.file) or about + '.'}\n", added))
    return series


def _essay(file: Path) -> str:
    """The comment at the head of a scheduler's file, as the body of a commit message."""
    match = re.search(r"^/\*\n(.*?)\n \*/$", file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ \* ?", "", match[1], flags=re.MULTILINE) if match else ""
    # A line of a list begins a paragraph, too.
    parts = (" ".join(part.split()) for part in re.split(r"\n\n+|\n(?=\d\. |- )", text))
    return "\n\n".join(textwrap.fill(part, _COLUMNS, break_on_hyphens=False) for part in parts)


def _included(files: Sequence[Path], headers: dict[str, Path]) -> set[str]:
    """Those of the headers that these files include, themselves or by another header."""
    included: set[str] = set()
    waiting = list(files)
    while waiting:
        text = waiting.pop().read_text(encoding="utf-8")
        fresh = {name for name in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.MULTILINE) if name in headers} - included
        included |= fresh
        waiting += [headers[name] for name in fresh]
    return included


def _behind(tree: dict[str, str], file: str, line: str, what: str, *, before: str = "") -> str:
    """A file with something behind a line of it, or before its last line."""
    text = tree[file]
    if before and text.endswith(before):
        return text.removesuffix(before) + what + before
    if line and line in text:
        return text.replace(line, line + what, 1)
    raise KernelError(f"{file} of this tree has no line `{(before or line).strip()}` where one is expected: it is no stock kernel's")


def _quoted(text: str) -> str:
    """As Kconfig wants it between quotation marks."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _diff(path: str, before: str, after: str) -> str:
    """A file's part of a patch."""
    if after and not after.endswith("\n"):
        after += "\n"
    old = f"a/{path}" if before else "/dev/null"
    head = f"diff --git a/{path} b/{path}\n" + ("" if before else "new file mode 100644\n")
    return head + "".join(difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, f"b/{path}"))
