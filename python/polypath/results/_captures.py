"""Captured packets of runs: a folder a run below `captures/`, named for people and by the run's
key, moved into place in one step.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from polypath.study import Run
from polypath.sweep import is_name

FOLDER = "captures"
# Of a key: enough to tell runs of one name on several kernels apart.
_KEY = 8


def place(folder: Path, run: Run) -> Path:
    """Where the captures of a run lie: captures/main-cc=lia-seed-1-0123abcd."""
    words = re.sub(r"[^A-Za-z0-9=._+-]+", "-", run.label).strip("-")
    return folder / FOLDER / f"{words}-{run.key[:_KEY]}"


def keep_captures(folder: Path, run: Run, captures: Mapping[str, BinaryIO]) -> None:
    """Writes them, in place of any from before."""
    if not captures:
        return
    # They may come from another machine.
    if foreign := [name for name in captures if not is_name(f"captures/{name}")]:
        raise ValueError(f"a run has no capture {foreign[0]!r}")
    kept = place(folder, run)
    aside = kept.with_name(f".{kept.name}.{os.getpid()}-{threading.get_ident()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    for name, source in captures.items():
        with source, (aside / name).open("wb") as stream:
            shutil.copyfileobj(source, stream)
    shutil.rmtree(kept, ignore_errors=True)
    aside.rename(kept)


def drop_captures(folder: Path, run: Run) -> None:
    """Removes the captures of a run that is not to keep them."""
    shutil.rmtree(place(folder, run), ignore_errors=True)
