"""Which results this user computed on this machine: a ledger in the cache folder, which no results
folder can bring along.

It proves no result right. It says whose word a result is: what is not in it came with the study,
from another machine, or was edited since.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import sys
from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

_ENTRY = 16

Files: TypeAlias = "Mapping[str, bytes | pa.Buffer]"


def note(key: str, files: Files) -> None:
    """These files of this run were made here. Where nothing can be written nothing is noted: no run
    fails of it.
    """
    with contextlib.suppress(OSError, RuntimeError):
        # One write at the end of a file is whole, however many processes write. Hosts that share a
        # home have a file each.
        file = _folder() / socket.gethostname()
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            ledger = os.open(file, how, 0o600)
        except FileNotFoundError:
            file.parent.mkdir(parents=True, exist_ok=True)
            ledger = os.open(file, how, 0o600)
        try:
            os.write(ledger, _entry(key, files))
        finally:
            os.close(ledger)


def ledgers() -> list[Path]:
    """The files of the ledger, each of which only grows."""
    return sorted(_folder().iterdir())


class Computed:
    """The ledger as it is when it is first asked."""

    def has(self, key: str, files: Files) -> bool:
        """Whether these files of this run were made here, to the byte."""
        heads, entries = self._sorted
        wanted = _entry(key, files)
        head = int.from_bytes(wanted[:8], sys.byteorder)
        at = bisect_left(heads, head)
        while at < len(heads) and heads[at] == head:
            if entries[_ENTRY * at : _ENTRY * (at + 1)] == wanted:
                return True
            at += 1
        return False

    @cached_property
    def _sorted(self) -> tuple[memoryview, memoryview]:
        """The first half of each entry, which sorts faster than the whole; and the entries."""
        # Who asks where the ledgers are needs no numbers.
        import numpy as np

        content = b""
        with contextlib.suppress(OSError, RuntimeError):
            content = b"".join(_whole(file.read_bytes()) for file in ledgers())
        entries = np.frombuffer(content, dtype="V16")
        heads = np.ascontiguousarray(entries.view(np.uint64).reshape(-1, 2)[:, 0])
        order = np.argsort(heads, kind="stable")
        return heads[order].data, memoryview(entries[order].tobytes())


def _whole(content: bytes) -> bytes:
    # A disk that was full may have cut the last entry.
    return content[: len(content) - len(content) % _ENTRY]


def _entry(key: str, files: Files) -> bytes:
    entry = hashlib.sha256(key.encode())
    for name in sorted(files):
        entry.update(f"\0{name}\0{len(files[name])}\0".encode())
        entry.update(files[name])
    return entry.digest()[:_ENTRY]


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polypath" / "computed"
