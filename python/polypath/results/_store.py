"""The store of finished runs: a folder a run, named by the run's key, written aside and moved into place in one step; or packs of many.

So what is there is whole, whatever killed the program, and a run that is there never runs again.
"""

from __future__ import annotations

import errno
import glob
import itertools
import json
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from polypath.sweep import parquet_writer

from ._packs import ASIDE, RECORD, Packs, finish_killed, is_pack, prefix

# Folders whose sizes are looked at for a mean.
_FOLDERS = 50


class Store:
    """Finished runs below one folder. A run has a folder, or is in a pack; a folder counts before a pack."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packs = Packs(folder)

    def __contains__(self, key: str) -> bool:
        return key in self._packs or (self.folder / key).is_dir()

    def __len__(self) -> int:
        return len(self._packs) + sum(1 for _ in self._folders())

    def put(self, key: str, files: Mapping[str, bytes | pa.Buffer], *, replace: bool = False, packed: bool = False) -> None:
        """Keeps the files of a finished run in a folder, or `packed`; with `replace`, a folder in place of what is there.

        What is packed no other process sees before `close`.
        """
        if packed and not replace:
            self._packs.put(key, files)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = self.folder / f"{prefix()}{os.getpid()}:{threading.get_ident()}:{key}"
        aside.mkdir()
        for name, content in files.items():
            _write(aside / name, content)
        if replace and (self.folder / key).is_dir():
            before = aside.with_name(f"{aside.name}-before")
            (self.folder / key).rename(before)
            shutil.rmtree(before)
        try:
            aside.rename(self.folder / key)
        except OSError:
            # Another process finished the same run first; equal keys have equal results.
            shutil.rmtree(aside)
            if not (self.folder / key).is_dir():
                raise

    def close(self) -> None:
        """What was packed is there for other processes, too."""
        self._packs.close()

    def record(self, key: str) -> dict[str, Any]:
        """Engine, version, scenario and outcome of a finished run."""
        content = self.read(key, RECORD)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder / key / RECORD))
        record: dict[str, Any] = json.loads(content)
        return record

    def untrusted(self, key: str) -> bool:
        """Whether a finished run in real time was too late."""
        return bool(self.record(key)["outcome"].get("late", {}).get("untrusted"))

    def series(self, key: str, name: str) -> pa.Table | None:
        """The series `subflows` or `links` of a finished run; None if it has none."""
        content = self.read(key, f"{name}.parquet")
        # Of a thousand small files, looking at each as a data set would take most of the time.
        return None if content is None else pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)

    def read(self, key: str, name: str) -> bytes | None:
        """A file of a finished run; None if it has no such file."""
        try:
            return (self.folder / key / name).read_bytes()
        except FileNotFoundError:
            return self._packs.read(key, name)

    def add(self, key: str, name: str, content: bytes) -> None:
        """Adds a file to a finished run that has a folder."""
        replace_file(self.folder / key / name, content)

    def mean_bytes(self) -> float | None:
        """What a finished run takes on the disk; None before there is one."""
        if len(self._packs):
            return self._packs.size() / len(self._packs)
        sizes = [sum(file.stat().st_size for file in folder.iterdir()) for folder in itertools.islice(self._folders(), _FOLDERS)]
        return sum(sizes) / len(sizes) if sizes else None

    def clean(self) -> bool:
        """Removes the unfinished runs of processes of this host that were killed, and makes their packs whole; those of processes that live
        are left alone.

        Of other hosts that share the folder nobody here knows. Says whether runs came to light.
        """
        if not self.folder.is_dir():
            return False
        found = False
        for aside in sorted(self.folder.glob(f"{glob.escape(prefix())}*")):
            process = int(aside.name.rsplit(":", 3)[1])
            if process != os.getpid() and lives(process):
                continue
            if aside.is_dir():
                shutil.rmtree(aside, ignore_errors=True)
            elif aside.name.endswith(ASIDE):
                found |= finish_killed(aside)
        self._packs.forget()
        return found

    def _folders(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (each for each in self.folder.iterdir() if not each.name.startswith(".") and not is_pack(each.name))


def replace_file(file: Path, content: bytes) -> None:
    """Puts a file in place of another in one step."""
    with _aside(file) as aside:
        _write(aside, content)


class TableFiles:
    """The tables of a folder, written part by part and put in place of the old ones at the end, the runs last: where they are, all is.

    Use it as a context: nothing is replaced if it ends with an error.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, pq.ParquetWriter] = {}

    def add(self, made: Mapping[str, pa.Table]) -> None:
        """Another part of each table."""
        for name, table in made.items():
            with _naming(self._aside(name)):
                if name not in self._open:
                    self._open[name] = parquet_writer(self._aside(name), table.schema)
                elif not table.num_rows:
                    continue
                self._open[name].write_table(table.replace_schema_metadata(None))

    def __enter__(self) -> TableFiles:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        names = sorted(self._open, key=lambda name: name == "runs")
        try:
            for name in names:
                with _naming(self._aside(name)):
                    self._open[name].close()
            for name in names if kind is None else ():
                with self._aside(name).open("rb") as stream:
                    os.fsync(stream.fileno())
                self._aside(name).replace(self._folder / f"{name}.parquet")
        finally:
            for name in names:
                self._aside(name).unlink(missing_ok=True)

    def _aside(self, name: str) -> Path:
        return self._folder / f".{name}.parquet.{os.getpid()}"


@contextmanager
def _aside(file: Path) -> Iterator[Path]:
    """Where to write a file that is to take the place of another; nothing is left if it cannot be written."""
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield aside
        aside.replace(file)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def _write(file: Path, content: bytes | pa.Buffer) -> None:
    with _naming(file), file.open("wb") as stream:
        stream.write(content)
        stream.flush()
        # Moving a folder into place says that its files are whole, after a power cut as well.
        os.fsync(stream.fileno())


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Writing, unlike opening, names no file where it fails."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(file)) from None


def lives(process: int) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
