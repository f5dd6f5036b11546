"""A working algorithm or scheduler to begin from: Reno, a coupled one, or a copy of one of Polypath's."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path

from polypath import _native

from ._errors import CustomCcError
from ._folders import FOLDERS, KINDS, checked_name, sources

_HERE = Path(__file__).parent
# Editors and clangd read it: the compiler's options, one a line.
_FLAGS = "compile_flags.txt"
# What of Linux's is the same algorithm, and what else it is called: a copy is neither.
_NOT_OF_A_COPY = re.compile(r'^\t\.(?:counterpart|aliases) = (?:"[^"]*"\s*)+,\n', re.MULTILINE)


def new(name: str, into: str | Path = ".", *, kind: str = "cc", begin_from: str | None = None, coupled: bool = False) -> Path:
    """Writes NAME.c, an algorithm that works, into a folder, which need not be there; the file.

    It is Reno; a small one that couples the subflows of a connection; or a copy of one of
    Polypath's under the new name. A scheduler (`kind="sched"`) is always a copy, by default of
    minrtt.
    """
    folder = Path(into)
    checked_name(name, f"polypath {kind} new")
    ours = _ours(kind)
    if name in ours or any(name in others for others in ours.values()):
        raise CustomCcError(f"Polypath has a {KINDS[kind]} {name} already: choose another name")
    if begin_from is not None and coupled:
        raise CustomCcError(f"--from {begin_from} is one algorithm to begin from and --coupled another; leave one out")
    if kind == "sched":
        begin_from = begin_from or "minrtt"
    file = folder / f"{name}.c"
    text = _skeleton(name, coupled=coupled) if begin_from is None else _copy(name, _built_in(begin_from, ours, kind))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        there = file if folder.is_dir() else folder
        raise CustomCcError(f"{there} is there already; choose another name or folder, or remove it") from None
    except OSError as error:
        # Half of it would be there already the next time.
        if file.parent.is_dir():
            file.unlink(missing_ok=True)
        raise CustomCcError(f"{file} cannot be written: {os.strerror(error.errno or 0)}; choose another folder with --into") from None
    flags = folder / _FLAGS
    if not flags.exists():
        flags.write_text(f"-std=gnu11\n-I{sources() / 'include'}\n", encoding="utf-8")
    return file


def _ours(kind: str) -> dict[str, list[str]]:
    """Names of those that are known, and their other names."""
    if kind == "sched":
        return {name: [] for name, _ in _native.schedulers()}
    return {algorithm[0]: algorithm[5].split() for algorithm in _native.algorithms()}


def _skeleton(name: str, *, coupled: bool) -> str:
    text = (_HERE / ("coupled.c" if coupled else "template.c")).read_text(encoding="utf-8")
    return text.replace("NAME_UPPER", name.upper()).replace("NAME", name)


def _built_in(asked: str, ours: dict[str, list[str]], kind: str) -> Path:
    """The file of the one of this name, or of which this is another name."""
    known_name = next((name for name, others in ours.items() if asked.lower() in (name, *others)), None)
    # Custom algorithms of this process are no part of the sources.
    there = {file.stem: file for file in sorted((sources() / FOLDERS[kind]).glob("*.c"))}
    if known_name is None or known_name not in there:
        raise CustomCcError(f'there is no {KINDS[kind]} "{asked}" to begin from; there are {", ".join(there)}')
    return there[known_name]


def _renamed(fresh: str, shared: set[str], match: re.Match[str]) -> str:
    return match[0] if match[0] in shared else fresh + match[1]


def _copy(name: str, file: Path) -> str:
    """The algorithm's file with its identifiers renamed; words of its essay stay."""
    of, text = file.stem, file.read_text(encoding="utf-8")
    # What headers give keeps its name: bbr shares its model with others.
    shared = {word for header in (sources() / "include").glob("*.h") for word in re.findall(r"\w+", header.read_text(encoding="utf-8"))}
    for old, fresh in ((of, name), (of.upper(), name.upper())):
        text = re.sub(rf"\b{old}(_\w+)", partial(_renamed, fresh, shared), text)
    text = re.sub(rf"(PP_(?:CC|SCHED)_(?:REGISTER|ABOUT))\({of}\)", rf"\1({name})", text)
    text = text.replace(f'.name = "{of}"', f'.name = "{name}"', 1)
    text = _NOT_OF_A_COPY.sub("", text)
    text = re.sub(r"\.(source|what) = (?:\"[^\"]*\"\s*)+,", rf'.\1 = "my own, begun from {of}",', text, count=1)
    begun = f" * {name}, begun from {of} of Polypath {_native.version()}. Say here what differs; what follows is about {of}.\n *\n"
    return text.replace("/*\n *", f"/*\n{begun} *", 1)
