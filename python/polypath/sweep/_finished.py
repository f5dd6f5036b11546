"""What comes back from a machine: a finished run as files by name, or one sentence on why it did not finish."""

from __future__ import annotations

import json
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


def files_of(key: str, engine: str, version: str, scenario: Mapping[str, Any], output: Output) -> dict[str, bytes | pa.Buffer]:
    """The files of a finished run, the same bytes on every machine."""
    record = {"key": key, "engine": engine, "version": version, "scenario": scenario, "outcome": output.outcome}
    files: dict[str, bytes | pa.Buffer] = {"run.json": json.dumps(record).encode()}
    for name, table in (("subflows", output.subflow_series), ("links", output.link_series)):
        if table.num_rows:
            files[f"{name}.parquet"] = parquet(table)
    return files


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
    """The run of a packed file. Raises ValueError where it is none, or only a part of one."""
    files: dict[str, bytes] = {}
    captures: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=BytesIO(content), mode="r:") as archive:
            for member in archive:
                stream = archive.extractfile(member)
                data = stream.read() if stream is not None else b""
                if member.name.startswith(_CAPTURES):
                    captures[member.name.removeprefix(_CAPTURES)] = data
                else:
                    files[member.name] = data
    except tarfile.TarError as error:
        raise ValueError(f"the run {key} is no packed run: {error}") from error
    if "run.json" not in files:
        raise ValueError(f"the packed run {key} lacks its run.json")
    return Finished(key=key, files=files, captures=captures)


def _members(run: Finished) -> Iterable[tuple[str, bytes]]:
    # The record comes last: a file that was cut lacks it.
    yield from ((f"{_CAPTURES}{name}", content) for name, content in run.captures.items())
    yield from sorted(run.files.items(), key=lambda item: item[0] == "run.json")
