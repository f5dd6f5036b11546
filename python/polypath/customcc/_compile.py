"""Compiles a person's algorithms and schedulers for the simulator and makes them known."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from polypath import _native, programs

from ._errors import CustomCcError
from ._folders import FOLDERS, cache, checked_name, sources, work_folder
from ._source import check_preprocessed, check_text

# Lines of the compiler's words that a person is shown.
_SHOWN = 12
_ABI = "polypath-abi.c"
# Integers only, and what a kernel's build would not take.
_STRICT = ("-Werror=implicit-function-declaration", "-Werror=vla", "-Werror=return-type", "-Werror=uninitialized", "-mgeneral-regs-only")
# Nothing of the system is included, and a word that was put together is no _Pragma.
_HOW = ("-fPIC", "-O2", "-std=gnu11", "-nostdinc", "-U_Pragma", "-Wall", "-Wextra")
# Nothing of a compiler's that runs when an object is loaded.
_LINK = ("-shared", "-nostdlib", "-nostartfiles", "-Wl,-z,noexecstack", "-Wl,-z,nopack-relative-relocs")
_BEGIN = "`polypath cc new NAME --into {0}` begins a congestion control there, `polypath sched new` a scheduler"


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """An algorithm that a person wrote."""

    name: str
    # Of KINDS.
    kind: str = "cc"
    file: Path
    # Of the file, the headers beside it and ours: equal ones, equal results.
    hash: str


_used: dict[str, Algorithm] = {}


def used() -> dict[str, Algorithm]:
    """What this process may use, by name."""
    return dict(_used)


def use(folder: str | Path) -> list[Algorithm]:
    """Compiles every algorithm of a folder (NAME.c is NAME) and makes it known to this process;
    raises `CustomCcError`.
    """
    source = Path(folder)
    if source.is_file():
        raise CustomCcError(f"{folder} is a file; name the folder that it lies in: --cc-path {source.parent}")
    if not source.is_dir():
        raise CustomCcError(f"{folder} is no folder; {_BEGIN.format(folder)}")
    files = sorted(source.glob("*.c"))
    if not files:
        raise CustomCcError(f"{folder} holds no algorithm, that is no file NAME.c; {_BEGIN.format(folder)}")
    algorithms = [_algorithm(file) for file in files]
    for algorithm in algorithms:
        _make_known(algorithm)
    return algorithms


def use_file(file: str | Path) -> Algorithm:
    """The same of one file, whatever else its folder holds."""
    source = Path(file)
    if not source.is_file():
        raise CustomCcError(f"there is no file {file}; `polypath cc new NAME --into FOLDER` begins an algorithm")
    algorithm = _algorithm(source)
    _make_known(algorithm)
    return algorithm


def _make_known(algorithm: Algorithm) -> None:
    if _used.get(algorithm.name) == algorithm:
        return
    shared_object = object_for(algorithm)
    try:
        add = _native.add_scheduler if algorithm.kind == "sched" else _native.add_algorithm
        add(str(shared_object), algorithm.name)
    except ValueError as error:
        # The object's own path means nothing to a person.
        raise CustomCcError(f"{algorithm.file}: {str(error).partition('.so: ')[2] or error}") from None
    _used[algorithm.name] = algorithm


def use_sent(name: str, digest: str, files: Mapping[str, str]) -> Algorithm:
    """Makes an algorithm known whose files were sent by another machine; raises `CustomCcError`.

    They stay beside their object, since a kernel is linked from them, too. Equal ones are there
    once, however many processes take them.
    """
    checked_name(name, "an algorithm that was sent")
    if not digest.isalnum() or any(Path(file).name != file for file in files):
        raise CustomCcError(f"what was sent of {name} names files outside of its folder")
    kept = cache() / f"{name}-{digest}"
    if not kept.is_dir():
        with work_folder() as folder:
            whole = folder / "files"
            whole.mkdir()
            for file, text in files.items():
                (whole / file).write_text(text, encoding="utf-8")
            # Another process may have been first.
            with suppress(OSError):
                whole.rename(kept)
    (algorithm,) = use(kept)
    return algorithm


def ours(kind: str) -> list[Algorithm]:
    """Those of Polypath that are of a kind."""
    return [_algorithm(file) for file in sorted((sources() / FOLDERS[kind]).glob("*.c"))]


def _algorithm(file: Path) -> Algorithm:
    checked_name(file.stem, str(file))
    digest = hashlib.sha256()
    project = sources()
    beside, headers = sorted(file.parent.glob("*.h")), sorted((project / "include").glob("*.h"))
    for source in [file, *beside]:
        if source.resolve().parent != file.parent.resolve():
            raise CustomCcError(f"{source} is a link that leads out of its folder; put the file itself there")
        check_text(source, {header.name for header in (*beside, *headers)})
    for source in [file, *beside, *headers]:
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode() + content)
    kind = "sched" if re.search(r"^\s*PP_SCHED_REGISTER\b", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE) else "cc"
    return Algorithm(name=file.stem, kind=kind, file=file, hash=digest.hexdigest()[:16])


def object_for(algorithm: Algorithm) -> Path:
    """The simulator's shared object, compiled if it is not there."""
    strict = [*_HOW, *_strict()]
    abi = hashlib.sha256(" ".join((_native.abi_source(), *strict, *_LINK)).encode()).hexdigest()[:8]
    shared_object = cache() / f"{algorithm.name}-{algorithm.hash}-{abi}.so"
    if shared_object.is_file():
        return shared_object
    with work_folder() as folder:
        part, work = folder / "object.o", folder / "object.so"
        include = ["-I", str(sources() / "include"), "-I", str(algorithm.file.parent)]
        how = [*strict, *include]
        check_preprocessed(_run([_compiler(), *how, "-E", str(algorithm.file)], algorithm))
        _run([_compiler(), *how, "-c", "-o", str(part), str(algorithm.file)], algorithm)
        _check_contents(algorithm, part)
        link(algorithm, part, work)
        work.replace(shared_object)
    return shared_object


def link(algorithm: Algorithm, part: Path, target: Path) -> None:
    """Makes a shared object that `_native` takes of a compiled file; another file beside it is
    written, which says what headers it is of.
    """
    abi_file = part.with_name(_ABI)
    abi_file.write_text('#include "pp_cc.h"\n' + _native.abi_source(), encoding="ascii")
    include = ["-I", str(sources() / "include")]
    _run([_compiler(), *_HOW, *_strict(), *include, *_LINK, "-o", str(target), str(part), str(abi_file)], algorithm)


def _strict() -> list[str]:
    machine = platform.machine()
    return [flag for flag in _STRICT if flag != "-mgeneral-regs-only" or machine in ("x86_64", "aarch64")]


def _compiler() -> str:
    named = os.environ.get("CC", "").split()
    compiler = shutil.which(named[0]) if named else next(filter(None, map(programs.find, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise CustomCcError(f"the C compiler {named[0]} of the variable CC is missing: name another" if named else programs.lacks("cc"))
    return compiler


def _run(command: list[str], algorithm: Algorithm) -> str:
    done = programs.run(Path(command[0]), *command[1:])
    if done.returncode:
        raise CustomCcError(complaint(algorithm, done.stderr))
    return done.stdout


def complaint(algorithm: Algorithm, said: str, how: str = "") -> str:
    """The compiler's first error as a sentence with its line, and its words below; `how`: what it
    was to become.
    """
    compile_ = f"compile {how}".strip()
    pattern = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<what>.*)$", re.MULTILINE)
    errors = list(pattern.finditer(said))
    if not errors:
        return f"{algorithm.file} does not {compile_}:\n{said.strip()}"
    first = errors[0]
    if Path(first["file"]).name == _ABI:
        return f"the headers in {sources() / 'include'} are not those that the simulator was built with: run `make setup` there first"
    words = "\n".join(said[first.start() :].strip().splitlines()[:_SHOWN])
    # A macro's error is in our header; the line that matters is the one that used the macro.
    used_at = re.search(rf"^{re.escape(str(algorithm.file))}:(\d+):", said[first.start() :], re.MULTILINE)
    line = f"{algorithm.file}:{used_at[1]}" if used_at else f"{first['file']}:{first['line']}"
    more = f" (the first of {len(errors)} errors)" if len(errors) > 1 else ""
    reason = _FLOATING if _NO_FLOATING.search(first["what"]) else first["what"]
    return f"{line}: it does not {compile_}: {reason}{more}\n{words}"


# What gcc and clang say of a floating-point number where its registers may not be used: x86-64 and
# aarch64.
_NO_FLOATING = re.compile(r"\bSSE\d? .*disabled|general-regs-only")
_FLOATING = "it computes with a floating-point number, which no kernel does; scale an integer, as in `window * 717 / 1024` for 0.7"


def _check_contents(algorithm: Algorithm, part: Path) -> None:
    """All flows share a variable outside of the state, and all runs of a process; a kernel has no C
    library; and nothing runs by itself.
    """
    variables, used, runs_by_itself = _native.object_contents(part.read_bytes())
    for name in runs_by_itself:
        sentence = f"it has code that runs when it is loaded, before any hook is called ({name}): take it out"
        raise CustomCcError(f"{algorithm.file}{_line(algorithm, name)}: {sentence}")
    for name in variables:
        # A number behind its name is the compiler's, for one inside of a function.
        bare = name.partition(".")[0]
        keep = "keep it in the state, to which c->priv points, or make it const"
        sentence = f"the variable {bare} outlives a call, and all flows would share it: {keep}"
        raise CustomCcError(f"{algorithm.file}{_line(algorithm, bare)}: {sentence}")
    for name in used:
        sentence = f"it uses {name}, which no kernel has; an algorithm has pp_math.h and what it defines itself"
        raise CustomCcError(f"{algorithm.file}{_line(algorithm, name)}: {sentence}")


def _line(algorithm: Algorithm, name: str) -> str:
    """Where a name is declared in the file, or else stands first."""
    lines = algorithm.file.read_text(encoding="utf-8", errors="replace").splitlines()
    for pattern in (rf"\s*[A-Za-z_][\w\s*]*[\s*]{re.escape(name)}\s*[=;,[]", rf".*\b{re.escape(name)}\b"):
        for number, text in enumerate(lines, 1):
            if re.match(pattern, text):
                return f":{number}"
    return ""
