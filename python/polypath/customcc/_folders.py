"""Where things are: the project's folder cc/, and what was compiled."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ._errors import CustomCcError

# What a file may be, and the word for it; the folder of cc/ that has ours.
KINDS = {"cc": "congestion control", "sched": "scheduler"}
FOLDERS = {"cc": "algs", "sched": "sched"}
# The kernel's names have 15 letters, and three are "pp_".
LONGEST = 12
# No compiler takes so long.
_LEFT_BEHIND_S = 3600
_WORK = ".compiling-"


def sources() -> Path:
    """The folder cc/, with the headers and what makes an algorithm part of a kernel: the project's,
    or the wheel's copy of it.
    """
    package = Path(__file__).resolve().parents[1]
    named = os.environ.get("POLYPATH_CC")
    places = [Path(named)] if named else [package.parents[1] / "cc", package / "cc"]
    for folder in places:
        if (folder / "kernel" / "glue.c").exists():
            return folder
    raise CustomCcError(
        f"the sources of the algorithms are not at {places[-1]}: install Polypath's wheel, run it from a clone of its repository, "
        "or name the folder cc of one in POLYPATH_CC"
    )


def cache() -> Path:
    """Where objects are kept."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polypath" / "own"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder beside the objects, for the length of the block. Those that killed processes left
    are removed, too.
    """
    parent = cache()
    for left in parent.glob(f"{_WORK}*"):
        # Another process may remove it at the same time.
        with suppress(OSError):
            if left.stat().st_mtime < time.time() - _LEFT_BEHIND_S:
                shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=parent, prefix=_WORK) as folder:
        yield Path(folder)


def checked_name(name: str, subject: str) -> str:
    """The name, if it is one; `subject` is what has it."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise CustomCcError(f'{subject}: "{name}" is no name of an algorithm; write small letters, digits and _, a letter first')
    if len(name) > LONGEST:
        raise CustomCcError(f'{subject}: "{name}" has {len(name)} letters, and a kernel takes {LONGEST}; choose a shorter name')
    return name
