"""Packs: thousands of finished runs in one file, for studies of so many runs that a folder each
would be too many.

A pack is an archive of SQLite's (`sqlite3 -A` lists and unpacks it): files called KEY/NAME, each
compressed. One process writes it, and no other process reads it before it is whole; then it gets
its name and never changes. So nothing is locked, and processes on several hosts may share the
folder whatever their file system does about locks.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import socket
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from polypath.study import StudyError

from ._keys import Keys

RECORD = "run.json"
# A pack that has so much is whole: some 20,000 runs without series.
_MOST_BYTES = 64 << 20
# Packs that are open for reading.
_MOST_OPEN = 16
# Records have some kilobytes: of a page with 4 kB half would stay empty.
_PAGE = 32_768
_TABLE = "CREATE TABLE sqlar (name TEXT PRIMARY KEY, mode INT, mtime INT, sz INT, data BLOB)"
# A plain file that its owner may write.
_MODE = 0o100644
_LEVEL = 6
# What a process writes, until it is whole. Nothing else in a folder of runs ends so.
ASIDE = ":pack"

# What this process writes now, in any folder, and a number for each.
_written: set[Path] = set()
_numbers = itertools.count()


class Packs:
    """The packs of one folder: all that are whole, and the one that this object writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        # The pack of each run, and the number of the one that is written.
        self._files: list[Path] = []
        self._where: Keys | None = None
        self._own: _Writer | None = None
        self._open: OrderedDict[int, sqlite3.Connection] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        with self._lock:
            return bytes.fromhex(key) in self._index()

    def __len__(self) -> int:
        return len(self._index())

    def size(self) -> int:
        """Bytes of all that are whole."""
        return sum(file.stat().st_size for file in _whole(self._folder))

    def put(self, key: str, files: Mapping[str, bytes | pa.Buffer]) -> None:
        """Keeps the files of a finished run."""
        # The long part, outside of the lock.
        rows = [_row(f"{key}/{name}", bytes(content)) for name, content in files.items()]
        with self._lock:
            index = self._index()
            if self._own is None:
                self._own = _Writer(self._folder)
                # Its name follows when it is whole.
                self._files.append(self._own.file)
            self._own.add(rows)
            index.add(bytes.fromhex(key), len(self._files) - 1)
            if self._own.size >= _MOST_BYTES:
                self.close()

    def read(self, key: str, name: str) -> bytes | None:
        """A file of a finished run; None if it is in no pack or has no such file."""
        with self._lock:
            number = self._index().get(bytes.fromhex(key))
            if number is None:
                return None
            is_open = self._own is not None and self._files[number] == self._own.file
            connection = self._own.connection if is_open and self._own is not None else self._reader(number)
            with _naming(self._files[number]):
                row = connection.execute("SELECT sz, data FROM sqlar WHERE name = ?", (f"{key}/{name}",)).fetchone()
        return None if row is None else _content(*row)

    def close(self) -> None:
        """Makes whole what this object has written."""
        with self._lock:
            if self._own is not None:
                self._files[-1] = self._own.finish()
                self._own = None

    def forget(self) -> None:
        """Others have written packs: what is there is looked up anew."""
        with self._lock:
            self.close()
            self._where = None
            self._open.clear()

    def _index(self) -> Keys:
        with self._lock:
            if self._where is None:
                self._files = _whole(self._folder)
                keys = Keys()
                for number, file in enumerate(self._files):
                    for key in _keys(self._reader(number), file):
                        keys.add(key, number)
                self._where = keys
            return self._where

    def _reader(self, number: int) -> sqlite3.Connection:
        if number not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            with _naming(self._files[number]):
                self._open[number] = _connected(self._files[number], "mode=ro&immutable=1")
        self._open.move_to_end(number)
        return self._open[number]


class _Writer:
    """A pack that is not whole yet."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / f"{prefix()}{os.getpid()}:{next(_numbers)}{ASIDE}"
        self.size = 0
        _written.add(self.file)
        with _naming(self.file):
            self.connection = _connected(self.file, "vfs=unix-none")
            self.connection.execute(f"PRAGMA page_size = {_PAGE}")
            _log(self.connection)
            self.connection.execute(_TABLE)

    def add(self, rows: list[tuple[str, int, int, int, bytes]]) -> None:
        # Once this returns, the run outlives the process; it outlives a power cut from the next
        # checkpoint on, some megabytes later.
        with _naming(self.file):
            self.connection.execute("BEGIN")
            try:
                self.connection.executemany("INSERT OR REPLACE INTO sqlar VALUES (?, ?, ?, ?, ?)", rows)
                self.connection.execute("COMMIT")
            except sqlite3.Error:
                self.connection.execute("ROLLBACK")
                raise
        self.size += sum(len(row[-1]) for row in rows)

    def finish(self) -> Path:
        """Gives the pack its name."""
        with _naming(self.file):
            named = _named(self.file, self.connection)
        _written.discard(self.file)
        return named


def prefix() -> str:
    """What the names of this host's unfinished runs and packs begin with; the process follows."""
    return f".unfinished-{socket.gethostname()}:"


def finish_killed(file: Path) -> bool:
    """Makes whole the pack of a process that was killed, if there are runs in it."""
    if file in _written:
        return False
    with _naming(file):
        connection = _connected(file, "vfs=unix-none")
        # SQLite reads here what the process wrote last.
        _log(connection)
        try:
            empty = not _keys(connection, file)
        except StudyError:
            # Killed before there was a table.
            empty = True
        if not empty:
            _named(file, connection)
            return True
        connection.close()
    for left in (file, file.with_name(f"{file.name}-wal")):
        left.unlink(missing_ok=True)
    return False


def is_pack(name: str) -> bool:
    return name.startswith("pack-")


def _named(file: Path, connection: sqlite3.Connection) -> Path:
    """Closes a pack and names it by its runs: two of one name have the same runs."""
    runs = hashlib.sha256(b"".join(sorted(_keys(connection, file)))).hexdigest()[:16]
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    with file.open("rb") as stream:
        os.fsync(stream.fileno())
    return file.replace(file.with_name(f"pack-{runs}.sqlar"))


def _log(connection: sqlite3.Connection) -> None:
    """Appends what is written to a log first: of a process that is killed, nothing is lost or half
    there.
    """
    # No other process opens this file, so the log needs no memory shared with others.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    # Pages of the log, some 4 MB, before they go into the file and the disk has them.
    connection.execute("PRAGMA wal_autocheckpoint = 128")


def _whole(folder: Path) -> list[Path]:
    return sorted(folder.glob("pack-*.sqlar"))


def _keys(connection: sqlite3.Connection, file: Path) -> list[bytes]:
    end = f"/{RECORD}"
    try:
        # Only the index of the names is read.
        return [
            bytes.fromhex(name.removesuffix(end))
            for (name,) in connection.execute("SELECT name FROM sqlar WHERE name LIKE ?", (f"%{end}",))
        ]
    except (sqlite3.DatabaseError, ValueError) as error:
        raise _damaged(file, error) from None


def _connected(file: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?{options}", uri=True, isolation_level=None, check_same_thread=False)


def _row(name: str, content: bytes) -> tuple[str, int, int, int, bytes]:
    small = zlib.compress(content, _LEVEL)
    # In an archive of SQLite's, what is as long as it says is not compressed.
    return name, _MODE, 0, len(content), small if len(small) < len(content) else content


def _content(size: int, data: bytes) -> bytes:
    return data if len(data) == size else zlib.decompress(data)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """SQLite's errors as those of files, which name the file."""
    try:
        yield
    except sqlite3.OperationalError as error:
        number = errno.ENOSPC if error.sqlite_errorcode == sqlite3.SQLITE_FULL else errno.EIO
        raise OSError(number, str(error), str(file)) from None
    except sqlite3.DatabaseError as error:
        raise _damaged(file, error) from None


def _damaged(file: Path, error: Exception) -> StudyError:
    return StudyError(f"{file} is no whole pack of runs ({error}): remove it, and run the study again; only its runs run once more")
