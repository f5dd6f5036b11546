"""One word for the content of files: what can change a result is part of a run's key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from polypath import planner, sockets


def fingerprint(files: Iterable[Path]) -> str:
    """Of the files' names and content, in their order."""
    seen = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        seen.update(f"{file.name} {len(content)}\n".encode() + content)
    return seen.hexdigest()[:16]


def sources(*names: str) -> list[Path]:
    """What makes the plan of a run on a kernel, what reads its records, and these modules of this
    package.
    """
    here = Path(__file__).parent
    return [
        *sorted(Path(planner.__file__).parent.glob("*.py")),
        Path(sockets.__file__).parent / "_info.py",
        *(here / f"{name}.py" for name in (*names, "_measure", "_naming", "_records", "_traffic", "_tunnels")),
    ]
