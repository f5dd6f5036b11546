"""Runs finished runs once more, beside the store, and compares their files to the byte. Nothing in
the results folder changes.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from polypath.study import Run, StudyError
from polypath.sweep import files_of, without_seal

from ._captures import place
from ._packs import RECORD
from ._plan import Plan
from ._store import Kept


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A finished run that ran once more."""

    run: Run
    folder: Path
    # The files that came out otherwise.
    differ: Sequence[str]


def verify(plan: Plan, number: int | None = None, *, workers: int | None = None) -> list[Checked]:
    """Runs so many of the plan's finished runs again; those first that were not computed here.
    None: all.

    Raises:
        StudyError: The engine gives other bytes each time, or nothing has run.
        EngineError: A run failed by the engine's fault.
    """
    engine = plan.engine
    if engine.real_time:
        raise StudyError(
            f"--verify compares bytes, and {engine.name} measures a machine in real time: take --engine sim or linux, or leave it out"
        )
    finished = list(_finished(plan))
    if not finished:
        raise StudyError(f"{plan.folder} holds no finished run of {plan.study.name} on {engine.name} to verify: run it first")
    # The writer of the results must not be able to guess which are looked at.
    random.SystemRandom().shuffle(finished)
    finished.sort(key=lambda entry: bool(entry[1].sealed and entry[1].ours))
    chosen = finished[:number]
    with ThreadPoolExecutor(max_workers=workers or engine.workers or os.cpu_count() or 1) as pool:
        return list(pool.map(partial(_checked, plan), *zip(*chosen, strict=True)))


def _finished(plan: Plan) -> Iterator[tuple[Run, Kept]]:
    seen = set()
    for run in plan.every():
        if run.key not in seen and (kept := plan.store.look(run.key)) is not None:
            seen.add(run.key)
            yield run, kept


def _checked(plan: Plan, run: Run, kept: Kept) -> Checked:
    output = plan.engine.run(run.scenario)
    again = files_of(run.key, run.engine, run.version, run.scenario, output)
    differ = [name for name in sorted({*again, *kept.files}) if not _same(name, kept.files.get(name), again.get(name))]
    captures = place(plan.folder, run)
    for name, stream in output.captures.items():
        with stream:
            if run.keeps_captures and (captures / name).is_file() and (captures / name).read_bytes() != stream.read():
                differ.append(name)
    return Checked(run=run, folder=plan.store.folder / run.key, differ=differ)


def _same(name: str, there: bytes | None, again: bytes | pa.Buffer | None) -> bool:
    if there is None or again is None:
        return there is again
    again = bytes(again)
    if name == RECORD:
        # One from before there was a hash in it has none; another hash says nothing of the outcome.
        return without_seal(there) == without_seal(again)
    if there == again:
        return True
    try:
        # Another version of Arrow may write the same table in other bytes.
        return bool(pq.read_table(pa.BufferReader(there)).equals(pq.read_table(pa.BufferReader(again))))
    except (pa.ArrowException, OSError):
        return False
