"""A working algorithm to begin from."""

from __future__ import annotations

import os
from pathlib import Path

from polypath import _native

from ._errors import CustomCcError
from ._folders import checked_name, sources

_TEMPLATE = Path(__file__).parent / "template.c"
# Editors and clangd read it: the compiler's options, one a line.
_FLAGS = "compile_flags.txt"


def new(name: str, into: str | Path = ".") -> Path:
    """Writes NAME.c, an algorithm that works, into a folder, which need not be there; the file."""
    folder = Path(into)
    checked_name(name, "polypath cc new")
    taken = {word for algorithm in _native.algorithms() for word in (algorithm[0], *algorithm[5].split())}
    if name in taken:
        raise CustomCcError(f"Polypath has a congestion control {name} already: choose another name")
    file = folder / f"{name}.c"
    text = _TEMPLATE.read_text(encoding="utf-8").replace("NAME", name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        there = file if folder.is_dir() else folder
        raise CustomCcError(f"{there} is there already; choose another name or folder, or remove it") from None
    except OSError as error:
        raise CustomCcError(f"{file} cannot be written: {os.strerror(error.errno or 0)}; choose another folder with --into") from None
    flags = folder / _FLAGS
    if not flags.exists():
        flags.write_text(f"-std=gnu11\n-I{sources() / 'include'}\n", encoding="utf-8")
    return file
