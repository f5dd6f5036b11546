"""Where calls on one machine tell one another what goes on."""

from __future__ import annotations

from pathlib import Path
from typing import IO

_FOLDER = Path("/run/polypath")


def run_file(name: str) -> Path:
    """A file that other calls read."""
    return _FOLDER / name


def lock_file(name: str) -> IO[str]:
    """The same, opened to be locked; the first one that is needed makes the folder."""
    _FOLDER.mkdir(mode=0o755, exist_ok=True)
    return run_file(name).open("w")
