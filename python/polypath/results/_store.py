"""The store of finished runs: a folder a run, named by the run's key, written aside and moved into
place in one step; or packs of many.

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
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from polypath.study import key_of
from polypath.sweep import is_name, is_sealed, parquet_writer

from ._computed import Computed
from ._keys import Keys
from ._packs import ASIDE, RECORD, Packs, finish_killed, is_pack, prefix

# Folders whose sizes are looked at for a mean.
_FOLDERS = 50
# Rows of a table's file; a table with more is a folder of several.
_MOST_ROWS = 500_000
# These files.
_PARTS = "part-*.parquet"


# What a run wrote; what was found in its captures is made of them again.
_SERIES = ("subflows", "links")
_FILES = (RECORD, *(f"{name}.parquet" for name in _SERIES))
# Samples of a series beside those that its interval gives: of kernels, which sample when they
# please.
_MORE_ROWS = 4
# How often a kernel's sockets are looked at where a study asks for no series.
_SAMPLED_NS = 100_000_000
# Bytes of series that are remembered as they were written.
_MOST_REMEMBERED = 64 << 20
# Folders that a sentence names.
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A finished run as it lies in the store. What is asked of it raises an error where it was
    damaged.
    """

    key: str
    files: Mapping[str, bytes] = field(repr=False)
    # Whether it is as it was written; None of one that has no hash.
    sealed: bool | None
    # Whether this user computed it here, to the byte.
    ours: bool
    # Series that this process wrote into these files.
    remembered: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)

    @cached_property
    def record(self) -> dict[str, Any]:
        """Engine, version, scenario and outcome."""
        content = self.files[RECORD]
        if self.sealed is None and not content.startswith(b'{"key": '):
            raise ValueError("it does not begin as a record does")
        record: dict[str, Any] = json.loads(content)
        return record

    @cached_property
    def scenario(self) -> dict[str, Any]:
        """What it simulated. Where no hash says that it is whole, its key does; that of custom
        algorithms cannot.
        """
        scenario: dict[str, Any] = self.record["scenario"]
        if not self.sealed and key_of(self.record["engine"], self.record["version"], scenario) != self.key:
            raise ValueError("it is of another scenario than its key")
        return scenario

    @property
    def untrusted(self) -> bool:
        """Whether it ran in real time and was too late."""
        return bool((self.record["outcome"].get("late") or {}).get("untrusted"))

    def series(self, name: str) -> pa.Table | None:
        """The series `subflows` or `links`; None if it has none."""
        content = self.files.get(f"{name}.parquet")
        if content is None:
            return None
        if name in self.remembered:
            return self.remembered[name]
        # Of a thousand small files, looking at each as a data set would take most of the time.
        file = pq.ParquetFile(pa.BufferReader(content))
        # Equal rows take no room in a file, and all of it in memory.
        if file.metadata.num_rows > self._most_rows(name):
            raise ValueError(f"{name}.parquet holds {file.metadata.num_rows} rows, more than a run of its length has")
        return file.read(use_threads=False)

    def _most_rows(self, name: str) -> int:
        scenario = self.scenario
        of = 2 * len(scenario["links"]) if name == "links" else sum(len(flow["subflows"]) for flow in self.record["outcome"]["flows"])
        samples = scenario["duration_ns"] // (scenario["series_interval_ns"] or _SAMPLED_NS) + 2
        return int(_MORE_ROWS * of * samples)


class Store:
    """Finished runs below one folder. A run has a folder, or is in a pack; a folder counts before a
    pack.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packs = Packs(folder)
        # Why runs cannot be read, by key: they count as not there.
        self.damaged: dict[str, str] = {}
        # Those that were looked at, with 1 for one that was not computed here, and how many those
        # are.
        self._looked = Keys()
        self._foreign = 0
        # Those that were changed since they were written.
        self._changed: dict[str, None] = {}
        # Not computed here, and yet their rows could be made.
        self.read_before = Keys()
        self._computed = Computed()
        # What this process wrote, as files and as tables: to read a small file of Parquet takes
        # longer than all the rest of a run's rows.
        self._remembered: dict[str, dict[str, tuple[bytes | pa.Buffer, pa.Table]]] = {}
        self._remembered_bytes = 0
        # What runs simulated whose rows were made, for who asks next.
        self.scenarios: dict[str, dict[str, Any]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._packs or (self.folder / key).exists()

    def __len__(self) -> int:
        return len(self._packs) + sum(1 for _ in self._folders())

    def put(self, key: str, files: Mapping[str, bytes | pa.Buffer], *, replace: bool = False, packed: bool = False) -> None:
        """Keeps the files of a finished run in a folder, or `packed`; with `replace`, a folder in
        place of what is there.

        What is packed no other process sees before `close`.
        """
        # They may come from another machine.
        if foreign := [name for name in files if not is_name(name)]:
            raise ValueError(f"a run has no file {foreign[0]!r}")
        if packed and not replace:
            self._packs.put(key, files)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = self.folder / f"{prefix()}{os.getpid()}:{threading.get_ident()}:{key}"
        aside.mkdir()
        for name, content in files.items():
            _write(aside / name, content)
        if replace and (self.folder / key).exists():
            before = aside.with_name(f"{aside.name}-before")
            (self.folder / key).rename(before)
            _remove(before)
        self.damaged.pop(key, None)
        self._changed.pop(key, None)
        try:
            aside.rename(self.folder / key)
        except OSError:
            # Another process finished the same run first; equal keys have equal results.
            shutil.rmtree(aside)
            if not (self.folder / key).is_dir():
                raise

    def remember(self, key: str, files: Mapping[str, bytes | pa.Buffer], series: Mapping[str, pa.Table]) -> None:
        """These series were written into these files of a run, and will be asked for soon."""
        known = {name: (files[f"{name}.parquet"], table) for name, table in series.items() if f"{name}.parquet" in files}
        self._remembered_bytes += sum(len(content) + table.get_total_buffer_size() for content, table in known.values())
        if self._remembered_bytes <= _MOST_REMEMBERED:
            self._remembered[key] = known

    def close(self) -> None:
        """What was packed is there for other processes, too."""
        self._packs.close()

    def look(self, key: str) -> Kept | None:
        """A finished run; None where there is none, or one of which no file can be read."""
        if key in self.damaged:
            return None
        packed = key in self._packs
        try:
            # Most runs have one file, and to ask for one that is not there takes longer than to list.
            names = _FILES if packed else {file.name for file in (self.folder / key).iterdir()}
            contents = {name: self.read(key, name) for name in _FILES if name in names}
        except FileNotFoundError:
            return None
        except PermissionError:
            raise
        except (OSError, zlib.error) as error:
            self.damaged[key] = str(error)
            return None
        files = {name: content for name, content in contents.items() if content is not None}
        if RECORD not in files:
            self.damaged[key] = f"it has no {RECORD}"
            return None
        kept = Kept(
            key=key,
            files=files,
            sealed=is_sealed(files[RECORD], {name: content for name, content in files.items() if name != RECORD}),
            ours=self._computed.has(key, files),
            remembered={
                name: table for name, (content, table) in self._remembered.get(key, {}).items() if files.get(f"{name}.parquet") == content
            },
        )
        digest, foreign = bytes.fromhex(key), int(not kept.ours)
        self._foreign += foreign - (self._looked.get(digest) or 0)
        self._looked.add(digest, foreign)
        if kept.sealed is False:
            self._changed[key] = None
        return kept

    def unreadable(self) -> list[str]:
        """Which of the runs that were looked at cannot be read."""
        if not self.damaged:
            return []
        one = len(self.damaged) == 1
        why = f" ({next(iter(self.damaged.values()))})" if one else ""
        counts, them = ("it counts", "it") if one else ("they count", "them")
        sentence = f"{self._folders_of(self.damaged)} cannot be read{why}: {counts} as not there, and `polypath run` runs {them} again"
        return [sentence]

    def cautions(self) -> list[str]:
        """What a person must know of the runs that were looked at before he believes them, a
        sentence each.
        """
        sentences = []
        changed = [key for key in self._changed if key not in self.damaged]
        if changed:
            was = "was changed after it was" if len(changed) == 1 else "were changed after they were"
            sentences.append(
                f"{self._folders_of(changed)} {was} written: the hash in run.json does not fit; delete what nobody can explain, "
                "and run the study again"
            )
        foreign = self._foreign - sum(self._looked.get(bytes.fromhex(key)) or 0 for key in self.damaged)
        if foreign:
            were, they = ("was", "it") if foreign == 1 else ("were", "they")
            sentences.append(
                f"{foreign} of {len(self._looked)} results {were} not computed here: {they} came with the study, or from another machine; "
                "`polypath run STUDY --verify all` runs such results again and compares"
            )
        return sentences

    def _folders_of(self, keys: Collection[str]) -> str:
        named = ", ".join(str(self.folder / key) for key in list(keys)[:_NAMED])
        return named if len(keys) <= _NAMED else f"{named} and {len(keys) - _NAMED} more runs"

    def record(self, key: str) -> dict[str, Any]:
        """Engine, version, scenario and outcome of a finished run."""
        content = self.read(key, RECORD)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.folder / key / RECORD))
        record: dict[str, Any] = json.loads(content)
        return record

    def read(self, key: str, name: str) -> bytes | None:
        """A file of a finished run; None if it has no such file."""
        try:
            return (self.folder / key / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
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
        """Removes the unfinished runs of processes of this host that were killed, and makes their
        packs whole; those of processes that live are left alone.

        Runs in flight on other hosts that share the folder are not known here. Says whether runs
        came to light.
        """
        if not self.folder.is_dir():
            return False
        removed = False
        for aside in sorted(self.folder.glob(f"{glob.escape(prefix())}*")):
            process = int(aside.name.rsplit(":", 3)[1])
            if process != os.getpid() and lives(process):
                continue
            if aside.is_dir():
                shutil.rmtree(aside, ignore_errors=True)
            elif aside.name.endswith(ASIDE):
                removed |= finish_killed(aside)
        self._packs.forget()
        return removed

    def _folders(self) -> Iterator[Path]:
        if self.folder.is_dir():
            yield from (folder for folder in self.folder.iterdir() if not folder.name.startswith(".") and not is_pack(folder.name))


def replace_file(file: Path, content: bytes) -> None:
    """Puts a file in place of another in one step."""
    with _naming(file), _aside(file) as aside:
        _write(aside, content)


class TableFiles:
    """The tables of a folder, written part by part and put in place of the old ones at the end, the
    runs last: where they are, all is.

    Use it as a context: nothing is replaced if it ends with an error.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, _Table] = {}

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Another part of each table."""
        for name, table in tables.items():
            if name not in self._tables:
                self._tables[name] = _Table(self._folder / f"{name}.parquet", table.schema)
            elif not table.num_rows:
                continue
            self._tables[name].add(table)

    def __enter__(self) -> TableFiles:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        every = [self._tables[name] for name in sorted(self._tables, key=lambda name: name == "runs")]
        try:
            for table in every:
                table.close()
            for table in every if kind is None else ():
                table.put_in_place()
        finally:
            for table in every:
                table.forget()


class _Table:
    """One table: a file, or a folder of several where one would have too many rows."""

    def __init__(self, file: Path, schema: pa.Schema) -> None:
        self._file = file
        self._schema = schema
        self._aside = file.with_name(f".{file.name}.{os.getpid()}")
        self._aside.mkdir(exist_ok=True)
        self._parts: list[Path] = []
        self._rows = 0
        self._writer = self._next()

    def add(self, table: pa.Table) -> None:
        if self._rows >= _MOST_ROWS:
            # What Parquet keeps of each row group until a file ends would be gigabytes in the end.
            self.close()
            self._writer = self._next()
        with _naming(self._parts[-1]):
            self._writer.write_table(table.replace_schema_metadata(None))
        self._rows += table.num_rows

    def close(self) -> None:
        with _naming(self._parts[-1]):
            self._writer.close()

    def put_in_place(self) -> None:
        for part in self._parts:
            with part.open("rb") as stream:
                os.fsync(stream.fileno())
        before = self._aside.with_name(f"{self._aside.name}-before")
        if self._file.is_dir() and any(not part.match(_PARTS) for part in self._file.iterdir()):
            # Somebody else's.
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(self._file))
        if self._file.is_dir() or (len(self._parts) > 1 and self._file.exists()):
            # A folder replaces nothing, and nothing replaces a folder.
            self._file.rename(before)
        (self._aside if len(self._parts) > 1 else self._parts[0]).replace(self._file)
        _remove(before)

    def forget(self) -> None:
        _remove(self._aside)

    def _next(self) -> pq.ParquetWriter:
        self._parts.append(self._aside / f"part-{len(self._parts):05}.parquet")
        self._rows = 0
        with _naming(self._parts[-1]):
            return parquet_writer(self._parts[-1], self._schema)


def table_files(folder: Path, name: str) -> list[Path]:
    """The files of a table in the order of its rows; none where there is no such table."""
    file = folder / f"{name}.parquet"
    if file.is_dir():
        return sorted(file.glob(_PARTS))
    return [file] if file.is_file() else []


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _aside(file: Path) -> Iterator[Path]:
    """Where to write a file that is to take the place of another; nothing is left if it cannot be
    written.
    """
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
