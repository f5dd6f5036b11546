"""Builds a kernel: sources, configuration and edits go in; a folder with everything that a link
needs comes out, whole or not at all.

What was compiled is kept after a failure, and where the sources are a folder: the next build
compiles what changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from polypath import customcc

from . import _config, _edits, _features, _kallsyms, _source, _tools
from ._commands import locked, run
from ._errors import KernelError
from ._kernel import Kernel, folder, is_newest, listed, of_recipe, places, settings_hash
from ._link import KEPT_SECONDS, KERNEL_SIDE, algorithms, glue_of, link, schedulers, sources, takes_schedulers
from ._recipe import FILE, FORMAT, TREE, Recipe
from ._suites import Package

# Nothing of who builds when and where may be in a kernel: the same sources and compiler give the
# same bytes.
_NEUTRAL = {
    "KBUILD_BUILD_TIMESTAMP": "Wed Jan  1 00:00:00 UTC 2025",
    "KBUILD_BUILD_USER": "polypath",
    "KBUILD_BUILD_HOST": "polypath",
    "KBUILD_BUILD_VERSION": "1",
    "LOCALVERSION": "",
    "TZ": "UTC",
}
_MAKE = ("make", "ARCH=um", "SUBARCH=x86_64")
# What a build compiles in, below folder(): for the folders of each release (6.12) and variant, so that
# two clones share what is the same in both; and for a failed build of a tarball.
_OBJECTS = ".objects-"
_OBJECTS_KEPT_SECONDS = 7 * 24 * 3600
# Whose compile command an algorithm gets.
_MODEL = "net/ipv4/tcp_cubic"


def build(
    what: str = "6.12",
    *,
    prove: Callable[[Kernel], object],
    name: str = "",
    variant: str = "",
    jobs: int | None = None,
    any_name: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Kernel:
    """Builds the kernel that `what` names: a release that Debian has, a folder or a tarball. Does
    nothing if it is there already, with `any_name` also if it is there under another name, or if
    `what` is the name of a kernel.

    `prove` boots what was built and raises `KernelError` if it is no good; only then it counts as
    built. Its `name` is otherwise the release. A `variant` is another configuration of the same
    sources; it is part of the kernel's name: "6.12-selftests".
    """
    if variant and variant not in _config.VARIANTS:
        raise KernelError(f'there is no variant "{variant}" of a kernel; there is {", ".join(_config.VARIANTS)}')
    if name and (not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name) or re.fullmatch(r"\d+\.\d+", name)):
        raise KernelError(f'a kernel cannot be called "{name}": choose letters, digits and hyphens, and no release such as 6.12')
    if os.uname().machine != "x86_64":
        raise KernelError(f"the linux engine's kernels run on x86-64 processors; this is {os.uname().machine}")
    if any_name and (recipe := listed(what, variant)):
        return of_recipe(recipe)
    _tools.require(say)
    root = folder()
    root.mkdir(parents=True, exist_ok=True)
    source = _source.resolve(what, root / "sources", say)
    source = source._replace(name=name or source.name)
    made_of = _made_of(source, variant)
    with locked(root / f".lock-{made_of[:12]}", lambda: say("another process builds this kernel; waiting for it"), remove=True):
        recipes = [Recipe.load(folder) for folder in places()]
        there = [recipe for recipe in recipes if recipe.made_of == made_of]
        # A name means the newest kernel that has it.
        there = there or [recipe for recipe in recipes if any_name and is_newest(recipe) and _is_made_of(recipe, source, variant)]
        if there:
            say(f"kernel {there[0].name} is there already")
            if not is_newest(there[0]):
                # Two folders of a release have one name, which means the one that was asked for last.
                os.utime(there[0].place / FILE)
        else:
            there = [_build(source, variant, made_of, jobs or os.cpu_count() or 1, prove, say)]
        return of_recipe(there[0])


def available(say: Callable[[str], None] = lambda _: None) -> list[tuple[Package, bool]]:
    """The releases that Debian has the sources of, and whether they are on this machine."""
    return _source.available(folder() / "sources", say)


def _made_of(source: _source.Source, variant: str) -> str:
    """Hash of what a build depends on, the compiler apart."""
    return hashlib.sha256(f"{source.name}\0{source.identity}\0{settings_hash(variant)}\0{_NEUTRAL!r}".encode()).hexdigest()


def _is_made_of(recipe: Recipe, source: _source.Source, variant: str) -> bool:
    """Whether a kernel is what these sources would give, whatever it is called."""
    given = recipe.name.removesuffix(f"-{variant}" if variant else "")
    return recipe.variant == variant and recipe.made_of in {_made_of(source._replace(name=name), variant) for name in ("", given)}


def _build(
    source: _source.Source, variant: str, made_of: str, jobs: int, prove: Callable[[Kernel], object], say: Callable[[str], None]
) -> Recipe:
    root = folder()
    which = ".".join(_source.release(source.path).split(".")[:2]) if source.path.is_dir() else source.identity
    work = root / (_OBJECTS + hashlib.sha256(f"{which}\0{variant}".encode()).hexdigest()[:12])
    with contextlib.ExitStack() as stack:
        # No other process may clean up between making a folder and locking it.
        with locked(root / ".lock"):
            _clean(root, work)
            work.mkdir(exist_ok=True)
        # Tells others' _clean that this folder is in use.
        stack.enter_context(locked(work / "lock", lambda: say("another process builds in these sources; waiting for it")))
        os.utime(work / "lock")
        tree, done = work / "source", work / "done"
        shutil.rmtree(done, ignore_errors=True)
        stack.callback(shutil.rmtree, done, ignore_errors=True)
        done.mkdir()
        say("unpacking the sources" if not tree.exists() else "taking over what changed in the sources")
        _source.unpack(source, tree)
        release = _source.release(tree)
        name = source.name or release + ("-mptcp" if _features.is_v0(tree) else "")
        name += f"-{variant}" if variant else ""
        try:
            _make(tree, release, variant, jobs, say)
        except KernelError as wrong:
            if not _source.lacks_files(wrong):
                raise
            say("it wants files that Polypath leaves out of its copy: copying everything")
            _source.unpack(source, tree, whole=True)
            _make(tree, release, variant, jobs, say)
        recipe = _harvest(tree, done, source._replace(name=name), release, variant, made_of)
        link(recipe)
        say(f"starting Linux {release}, to see that it works and repeats itself")
        prove(of_recipe(recipe))
        target = root / f"{name}-{made_of[:12]}"
        shutil.rmtree(target, ignore_errors=True)
        older = [other for other in places() if Recipe.load(other).name == name]
        done.rename(target)
        for other in older:
            # A study that began with it goes on.
            if time.time() - (other / FILE).stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(other, ignore_errors=True)
        if not source.path.is_dir():
            # A tarball does not change, so nothing is compiled a second time.
            shutil.rmtree(work, ignore_errors=True)
        return Recipe.load(target)


def _make(tree: Path, release: str, variant: str, jobs: int, say: Callable[[str], None]) -> None:
    _edits.apply(tree, release, _config.hz(variant))
    say(f"building Linux {release}")
    for name in _configure(tree, release, variant):
        where = _config.files(variant)[-1].name
        say(f"Linux {release} comes without {name.removeprefix('CONFIG_')}: it did not accept that line of {where}")
    try_algorithm(tree, release)
    _compile(tree, release, variant, jobs, say)


def try_algorithm(tree: Path, release: str) -> None:
    """Compiles one algorithm, one scheduler and the kernel's side of cc/kernel in a tree that is configured, and
    keeps nothing: what this release has otherwise shows before minutes of compilation.
    """
    run(*_MAKE, f"{_MODEL}.o", cwd=tree, purpose=f"preparing Linux {release}", env=_NEUTRAL)
    command = [*_compile_command(tree), "-fsyntax-only"]
    cc = sources()
    for kind, file in _samples(tree, cc):
        run(*command, *glue_of(cc, file, kind), cwd=tree, purpose=f"compiling the {customcc.KINDS[kind]} {file.stem} for Linux {release}")
    for name in KERNEL_SIDE:
        run(*command, cc / "kernel" / f"{name}.c", cwd=tree, purpose=f"compiling cc/kernel/{name}.c for Linux {release}")


def _samples(tree: Path, cc: Path) -> list[tuple[str, Path]]:
    """One file of each kind that a kernel of this tree takes."""
    stack = _features.mptcp(tree, (tree / ".config").read_text(encoding="utf-8"))
    return [("cc", algorithms(cc)[0]), *([("sched", schedulers(cc)[0])] if takes_schedulers(tree, stack) else [])]


def _compile_command(tree: Path) -> list[str]:
    """Compiles an algorithm or a file of cc/kernel in this tree."""
    stack = _features.mptcp(tree, (tree / ".config").read_text(encoding="utf-8"))
    extra = ("-iquote", ".", "-Wno-declaration-after-statement", "-std=gnu11")
    return [*_command_of(tree, _MODEL), *_features.defines(tree, stack), *extra]


def _clean(root: Path, but: Path) -> None:
    """Removes folders without a build for a week; `but` stays."""
    for left in root.glob(f"{_OBJECTS}*"):
        try:
            age = time.time() - (left / "lock").stat().st_mtime
            if left == but or age < _OBJECTS_KEPT_SECONDS:
                continue
            with (left / "lock").open("a") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
        except (BlockingIOError, FileNotFoundError):
            continue


def _configure(tree: Path, release: str, variant: str) -> list[str]:
    """What this release did not accept of our configuration."""
    (tree / "polypath.config").write_text(_config.fragment(variant, release), encoding="utf-8")
    environment = {**_NEUTRAL, "KCONFIG_ALLCONFIG": "polypath.config"}
    run(*_MAKE, "allnoconfig", cwd=tree, purpose=f"configuring Linux {release}", env=environment)
    return _config.check((tree / ".config").read_text(encoding="utf-8"), _config.known(tree), release, variant)


# Files that a whole build of Linux 6.12 compiles; other releases have some more or fewer.
_FILES = {"": 675, "selftests": 1230, "hz1000": 1230}
_TOLD_EVERY = 50


def _compile(tree: Path, release: str, variant: str, jobs: int, say: Callable[[str], None]) -> None:
    # What is there already is not compiled again, so how much it will be is unknown.
    total = 0 if (tree / "vmlinux.o").exists() else _FILES.get(variant, 0)
    began = time.monotonic()
    count = 0

    def on_line(line: str) -> None:
        nonlocal count
        if line.startswith("  CC "):
            count += 1
            if count % _TOLD_EVERY == 0:
                say(f"building Linux {release}: {_progress(count, total, time.monotonic() - began)}")

    run(*_MAKE, f"-j{jobs}", "linux", cwd=tree, purpose=f"building Linux {release}", env=_NEUTRAL, on_line=on_line)


def _progress(count: int, total: int, seconds: float) -> str:
    """How far a build is: files, and what is left at the pace until now."""
    if count >= total:
        return f"{count} files compiled"
    left = seconds * (total - count) / count
    return f"{count} of some {total} files compiled, {f'{left / 60:.0f} min' if left >= 90 else f'{left:.0f} s'} left"


def _harvest(tree: Path, done: Path, source: _source.Source, release: str, variant: str, made_of: str) -> Recipe:
    """Takes out of a built tree what links need: the kernel as one object, the linker's script, the
    commands, the headers.
    """
    config = (tree / ".config").read_text(encoding="utf-8")
    shutil.copy(tree / ".config", done / "config")
    stack = _features.mptcp(tree, config)
    run("strip", "--strip-debug", "-o", done / "vmlinux.o", tree / "vmlinux.o", cwd=tree, purpose=f"stripping Linux {release}")
    shutil.copy(tree / "arch/um/kernel/vmlinux.lds", done / "vmlinux.lds")
    objects = ["vmlinux.o"]
    # Since 6.2 the version's text is an object of its own, outside vmlinux.o.
    if (tree / "init/version-timestamp.o").exists():
        shutil.copy(tree / "init/version-timestamp.o", done)
        objects.append("version-timestamp.o")
    compile_ = _compile_command(tree)
    ask = "--eval=polypath-flags: ; @echo FLAGS $(CFLAGS_vmlinux)"
    said = run(*_MAKE, "-s", ask, "polypath-flags", cwd=tree, purpose="asking for the linker's flags")
    (flags,) = {line for line in said.splitlines() if line.startswith("FLAGS ")}
    recipe = Recipe(
        name=source.name,
        release=release,
        mptcp=stack,
        format=FORMAT,
        made_of=made_of,
        settings=settings_hash(variant),
        variant=variant,
        kallsyms=_kallsyms.harvest(tree, done, config),
        algorithms=tuple(_features.algorithms(tree)),
        compile=(*compile_, "-c"),
        compile_host=("gcc", "-O2", "-std=gnu11", "-Wall", "-fno-pie", "-fno-stack-protector", "-c"),
        link=(
            *("gcc", *flags.split()[1:], "-Wl,--script=vmlinux.lds", "-o", "{output}"),
            *("-Wl,--whole-archive", *objects, "{objects}", "-Wl,--no-whole-archive", "-lutil", "-lrt", "-lpthread"),
        ),
        sources=str(source.path),
        identity=source.identity,
        place=done,
    )
    _copy_headers(tree, done / TREE, compile_)
    recipe.save(done)
    return recipe


def _command_of(tree: Path, model: str) -> list[str]:
    """The command that compiled `model`, without its files."""
    folder_, base = model.rsplit("/", 1)
    line = (tree / folder_ / f".{base}.o.cmd").read_text(encoding="utf-8").splitlines()[0]
    words = shlex.split(line.split(":=", 1)[1])
    kept = []
    skip = False
    for word in words:
        if skip or word == "-c" or word.startswith(("-Wp,-MMD", "-Wp,-MD")) or word == f"{model}.c":
            skip = False
        elif word == "-o":
            skip = True
        elif word == ";":
            break
        else:
            kept.append(word.replace(base, "polypath") if word.startswith(("-DKBUILD_", "-D__KBUILD_")) else word)
    return kept


def _copy_headers(tree: Path, to: Path, command: list[str]) -> None:
    """Copies every header that the kernel's side of cc/kernel includes, and those that the command
    names.
    """
    cc = sources()
    to.mkdir()
    words = [word for kind, file in _samples(tree, cc) for word in glue_of(cc, file, kind)]
    files = [str(cc / "kernel" / f"{name}.c") for name in KERNEL_SIDE]
    rules = run(*command, "-M", *words, *files, cwd=tree, purpose="listing the headers of cc/kernel")
    for name in sorted(set(rules.replace("\\\n", " ").split())):
        if not Path(name).is_absolute() and not name.endswith(":"):
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / name, target)
