"""The algorithms and schedulers of cc/ become part of a kernel: compiled with its own flags, linked into its
executable, once for each state of cc/.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from polypath import customcc

from . import _kallsyms
from ._commands import locked, run
from ._errors import KernelError
from ._recipe import TREE, Recipe

# Executables of earlier states of cc/ go after a day, the newest apart: a run that began with one
# goes on.
_KEPT = 3
KEPT_SECONDS = 24 * 3600
# Calls of the C library that host.c answers.
_WRAPS = tuple(f"-Wl,--wrap,{call}" for call in ("getrandom", "clock_gettime", "uname", "fopen", "fopen64", "ptrace", "waitpid"))
# Files of cc/kernel that are the host's side.
_HOST = ("host", "fault", "record", "resume")
_KERNEL = "vmlinux.o"
# What of cc/ was compiled for this kernel, by the hash of all that it is made of.
_OBJECTS = "objects"
# Files of cc/kernel that are the kernel's side, beside what makes an algorithm part of a kernel.
KERNEL_SIDE = ("around", "clock", "observe", "seed", "stub", "vary")
# What of the kernel's own they call or replace though it is private to a file of the kernel.
_PRIVATE = (
    "time_travel_time",
    "snmp_seq_show",
    "netstat_seq_show",
    "set_buf_size",
    "ddebug_exec_queries",
    "time_travel_events",
    "netem_qdisc_ops",
)
_SEEN = (*(f"--globalize-symbol={name}" for name in _PRIVATE), "--weaken-symbol=trace_clock_local")


def sources() -> Path:
    """The folder cc/."""
    try:
        return customcc.sources()
    except customcc.CustomCcError as error:
        raise KernelError(str(error)) from None


def algorithms(cc: Path) -> list[Path]:
    return sorted((cc / "algs").glob("*.c"))


def schedulers(cc: Path) -> list[Path]:
    return sorted((cc / "sched").glob("*.c"))


def takes_schedulers(tree: Path, stack: str) -> bool:
    """Whether a kernel of this tree takes MPTCP schedulers: upstream since 6.6."""
    header = tree / "include/net/mptcp.h"
    return stack == "v1" and header.exists() and "MPTCP_SCHED_NAME_MAX" in header.read_text(encoding="utf-8", errors="replace")


def glue_of(cc: Path, file: Path, kind: str) -> list[str]:
    """What compiles an algorithm ("cc") or a scheduler ("sched") into a kernel."""
    glue, word = {"cc": ("glue.c", "ALG"), "sched": ("sched.c", "SCHED")}[kind]
    return ["-I", str(cc / "include"), f"-DPP_{word}={file.stem}", f'-DPP_{word}_FILE="{file}"', str(cc / "kernel" / glue)]


def sources_hash(cc: Path) -> str:
    """Hash of everything in cc/ that becomes part of a kernel."""
    return _hash_of([*algorithms(cc), *schedulers(cc), *sorted((cc / "include").glob("*.h")), *sorted((cc / "kernel").glob("*.[ch]"))])


def _hash_of(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def link(recipe: Recipe, custom: Sequence[customcc.Algorithm] = ()) -> Path:
    """The executable of this kernel with the present algorithms and the `custom` ones, made if it
    is not there.
    """
    cc = sources()
    wanted = sources_hash(cc)
    if custom:
        # By their names, so that the order in which they were asked for makes no other kernel.
        custom = sorted(custom, key=lambda algorithm: algorithm.name)
        wanted = hashlib.sha256("\0".join([wanted, *(f"{algorithm.name} {algorithm.hash}" for algorithm in custom)]).encode()).hexdigest()
    output = recipe.place / f"linux-{wanted[:12]}"
    if _complete(output):
        return output
    with locked(recipe.place / ".lock"):
        if not _complete(output):
            _link(recipe, cc, custom, output)
            _forget(recipe.place)
    return output


def _complete(output: Path) -> bool:
    # The description is written last.
    return output.with_suffix(".json").exists() and output.exists()


def _link(recipe: Recipe, cc: Path, custom: Sequence[customcc.Algorithm], output: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix=".link-", dir=recipe.place))
    try:
        objects: list[Path] = []
        shared = _hash_of([*sorted((cc / "include").glob("*.h")), *sorted((cc / "kernel").glob("*.[ch]"))])

        def compiled(name: str, *command: str | Path, cwd: Path, purpose: str, key: str = shared) -> None:
            """Where the same was compiled before, for an executable with other parts, it is taken."""
            target, kept = work / f"{name}.o", recipe.place / _OBJECTS / f"{name}-{key[:12]}.o"
            if kept.exists():
                kept.touch()
            else:
                run(*command, "-o", target, cwd=cwd, purpose=purpose)
                kept.parent.mkdir(exist_ok=True)
                target.rename(kept)
            target.hardlink_to(kept)
            objects.append(target)

        for name in _HOST:
            source = cc / "kernel" / f"{name}.c"
            compiled(name, *recipe.compile_host, source, cwd=recipe.place, purpose=f"compiling cc/kernel/{name}.c")
        for name in KERNEL_SIDE:
            compiled(
                name, *recipe.compile, f"-fmacro-prefix-map={cc}=cc", cc / "kernel" / f"{name}.c",
                cwd=recipe.place / TREE, purpose=f"compiling cc/kernel/{name}.c for Linux {recipe.release}",
            )  # fmt: skip
        # The recipe stays as it was built.
        run("objcopy", *_SEEN, _KERNEL, work / _KERNEL, cwd=recipe.place, purpose=f"preparing Linux {recipe.release}")
        hashes = {algorithm.file.resolve(): algorithm.hash for algorithm in custom}
        named: dict[str, list[str]] = {"cc": [], "sched": []}
        for kind, file in _parts(recipe, cc, custom):
            # Paths must not become part of the executable, whose hash is part of results' keys.
            prefixes = [f"-fmacro-prefix-map={cc}=cc", *([f"-fmacro-prefix-map={file.parent}=own"] if file.parent.parent != cc else [])]
            compiled(
                f"{kind}_{file.stem}", *recipe.compile, *prefixes, *glue_of(cc, file, kind),
                cwd=recipe.place / TREE, purpose=f"compiling the {customcc.KINDS[kind]} {file.stem} for Linux {recipe.release}",
                key=hashlib.sha256(f"{shared} {hashes.get(file) or _hash_of([file])}".encode()).hexdigest(),
            )  # fmt: skip
            named[kind].append(f"pp_{file.stem}")

        def with_(further: list[Path]) -> Path:
            executable = work / "linux"
            command: list[str | Path] = []
            places: dict[str, list[str | Path]] = {"{objects}": [*objects, *further], "{output}": [executable], _KERNEL: [work / _KERNEL]}
            for word in recipe.link:
                command += places.get(word, [word])
            run(*command, *_WRAPS, cwd=recipe.place, purpose=f"linking Linux {recipe.release}")
            return executable

        target = _kallsyms.settle(recipe.kallsyms, recipe.place, work, with_, recipe.release) if recipe.kallsyms else with_([])
        run("strip", target, cwd=recipe.place, purpose=f"linking Linux {recipe.release}")
        about = {"key": hashlib.sha256(target.read_bytes()).hexdigest(), "algorithms": named["cc"], "schedulers": named["sched"]}
        target.rename(output)
        (work / "about").write_text(json.dumps(about) + "\n", encoding="utf-8")
        (work / "about").rename(output.with_suffix(".json"))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _parts(recipe: Recipe, cc: Path, custom: Sequence[customcc.Algorithm]) -> list[tuple[str, Path]]:
    """The files that this kernel takes, and of which kind they are."""
    parts = [("cc", file) for file in algorithms(cc)]
    with_schedulers = takes_schedulers(recipe.place / TREE, recipe.mptcp)
    if with_schedulers:
        parts += [("sched", file) for file in schedulers(cc)]
    for algorithm in custom:
        if algorithm.kind == "sched" and not with_schedulers:
            raise KernelError(f"Linux {recipe.release} takes no MPTCP schedulers, and {algorithm.name} is one: take a kernel from 6.6 on")
        parts.append((algorithm.kind, algorithm.file.resolve()))
    return parts


def _forget(folder: Path) -> None:
    """Removes executables that are out of date, and what killed links left."""
    about = sorted(folder.glob("linux-*.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for file in about[_KEPT:]:
        if time.time() - file.stat().st_mtime > KEPT_SECONDS:
            file.unlink()
            file.with_suffix("").unlink(missing_ok=True)
    for object_file in (folder / _OBJECTS).glob("*.o"):
        if time.time() - object_file.stat().st_mtime > KEPT_SECONDS:
            object_file.unlink()
    for left in folder.glob(".link-*"):
        # We hold the lock: no other process works there.
        shutil.rmtree(left, ignore_errors=True)
