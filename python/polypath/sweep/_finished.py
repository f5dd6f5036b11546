"""What comes back from a machine: a finished run as files by name, or one sentence on why it did
not finish.
"""

from __future__ import annotations

import hashlib
import json
import re
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from polypath.engines import Output

_CAPTURES = "captures/"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished run, as a results folder keeps it."""

    key: str
    # What stands in the run's folder: run.json, and series where it has any.
    files: Mapping[str, bytes] = field(repr=False)
    captures: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    # Seconds that it took, for the size of the next chunks.
    seconds: float = 0.0


class Fault(Enum):
    """Who must change something so that a run can finish."""

    STUDY = "study"
    ENGINE = "engine"
    # This machine alone: another one may finish the run.
    MACHINE = "machine"


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A run that did not finish."""

    key: str
    fault: Fault
    sentence: str
    machine: str = ""


DIED = "every machine that began this run died of it; the workers' logs may say why, and so may the code of an algorithm of your own"
"""Of a run that never comes back."""


_SEAL = b'{"sha256": "'
"""A record begins with the hash of what follows and of the series: damage shows. Whoever edits a
run can make a hash that fits.
"""
_HEX = 64


def files_of(key: str, engine: str, version: str, scenario: Mapping[str, Any], output: Output) -> dict[str, bytes | pa.Buffer]:
    """The files of a finished run, the same bytes on every machine."""
    record = {"key": key, "engine": engine, "version": version, "scenario": scenario, "outcome": output.outcome}
    series = {f"{name}.parquet": table for name, table in (("subflows", output.subflow_series), ("links", output.link_series))}
    files = {name: parquet(table) for name, table in series.items() if table.num_rows}
    plain = json.dumps(record).encode()
    return {"run.json": _SEAL + _digest(plain, files).encode() + b'", ' + plain[1:], **files}


def without_seal(record: bytes) -> bytes:
    """A record as it was before there was a hash in it."""
    return b"{" + record[len(_SEAL) + _HEX + 3 :] if record.startswith(_SEAL) else record


def is_sealed(record: bytes, series: Mapping[str, bytes | pa.Buffer]) -> bool | None:
    """Whether a record and its series are as they were written; None of a record from before there
    was a hash.
    """
    if not record.startswith(_SEAL):
        return None
    return record[len(_SEAL) : len(_SEAL) + _HEX].decode(errors="replace") == _digest(without_seal(record), series)


def _digest(plain: bytes, series: Mapping[str, bytes | pa.Buffer]) -> str:
    digest = hashlib.sha256(plain)
    for name in sorted(series):
        digest.update(f"\0{name}\0".encode())
        digest.update(series[name])
    return digest.hexdigest()


def parquet(table: pa.Table) -> pa.Buffer:
    """A table as the bytes of a parquet file: equal tables give equal bytes."""
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, table.schema) as writer:
        writer.write_table(table.replace_schema_metadata(None))
    return sink.getvalue()


def parquet_writer(where: Path | pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
    """Writes tables of this schema, one after the other, into one file."""
    return pq.ParquetWriter(where, schema.remove_metadata(), compression="zstd", compression_level=3, version="2.6", store_schema=False)


def packed(run: Finished) -> bytes:
    """One file with all files of a run."""
    sink = BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, content in _members(run):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return sink.getvalue()


def unpacked(key: str, content: bytes) -> Finished:
    """The run of a packed file. Raises ValueError where it is none, only a part of one, or holds
    anything that no run has.
    """
    files: dict[str, bytes] = {}
    captures: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=BytesIO(content), mode="r:") as archive:
            for member in archive:
                if not member.isreg() or member.issparse() or not is_name(member.name):
                    raise ValueError(f"it holds {member.name!r}, which no run has")
                if member.size > len(content):
                    raise ValueError(f"it is no packed run: its {member.name} is longer than itself")
                stream = archive.extractfile(member)
                data = stream.read() if stream is not None else b""
                if member.name.startswith(_CAPTURES):
                    captures[member.name.removeprefix(_CAPTURES)] = data
                else:
                    files[member.name] = data
    except (tarfile.TarError, OverflowError) as error:
        raise ValueError(f"it is no packed run: {error}") from error
    if "run.json" not in files:
        raise ValueError("the packed run lacks its run.json")
    return Finished(key=key, files=files, captures=captures)


def is_name(name: str) -> bool:
    """Whether a finished run may have a file of this name: whoever packed it decides nothing about
    where it lies.
    """
    return name in _FILES or _CAPTURE.fullmatch(name) is not None


_FILES = ("run.json", "subflows.parquet", "links.parquet")
# A node and a link give a capture its name.
_CAPTURE = re.compile(r"captures/[^/\\\x00-\x1f.][^/\\\x00-\x1f]*\.pcapng")


def _members(run: Finished) -> Iterable[tuple[str, bytes]]:
    # The record comes last: a file that was cut lacks it.
    yield from ((f"{_CAPTURES}{name}", content) for name, content in run.captures.items())
    yield from sorted(run.files.items(), key=lambda item: item[0] == "run.json")
