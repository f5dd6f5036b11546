"""What a results folder says about itself: which study, which engine versions, which seeds. No
time, host or user: two folders compare.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polypath.study import Run, Study, StudyError, cells, links_of, numbers_in, recorded_files, spans_of

from ._keys import Keys
from ._store import replace_file

MANIFEST = "manifest.json"
STUDY_COPY = "study.yaml"
# Which file the study came from, for "two studies of one name". Apart, since it names a folder of
# this machine.
OWNER = ".study-file"


def check_owner(folder: Path, study: Study) -> None:
    """Raises `StudyError` where a results folder belongs to another study of the same name."""
    mine, theirs = _owners(folder, study)
    if mine and theirs and mine != theirs and Path(theirs).is_file():
        raise StudyError(
            f'two studies are called "{study.name}": {theirs} has its results in {folder}, and now comes {mine}; '
            "rename one, or give this one another --out"
        )


def claim_folder(folder: Path, study: Study) -> None:
    """Takes a results folder for a study, unless it belongs to another one of the same name."""
    check_owner(folder, study)
    folder.mkdir(parents=True, exist_ok=True)
    mine, theirs = _owners(folder, study)
    if mine and mine != theirs:
        replace_file(folder / OWNER, mine.encode())
    _copy_study(folder, study)


def _owners(folder: Path, study: Study) -> tuple[str, str]:
    """Which file this study came from, and which one that came from whose results the folder has."""
    owner = folder / OWNER
    # The copy in the folder is the study that was run, also if a person wrote it.
    copied = study.file is not None and study.file.resolve() == (folder / STUDY_COPY).resolve()
    mine = "" if study.file is None or copied else str(study.file.resolve())
    return mine, owner.read_text(encoding="utf-8", errors="replace") if owner.is_file() else ""


@dataclass
class Contents:
    """What the tables hold, counted while they are made."""

    engines: dict[str, str] = field(default_factory=dict)
    # None where each draw has seeds of its own: they are as many as draws, and follow from the
    # study.
    seeds: set[int] | None = field(default_factory=set)
    cells: int = 0
    baselines: int = 0
    # Of each run that differs.
    keys: Keys = field(default_factory=Keys)

    def add(self, finished: Iterable[Run]) -> None:
        for run in finished:
            self.engines[run.engine if run.kernel is None else f"{run.engine} {run.kernel}"] = run.version
            if self.seeds is not None:
                self.seeds.add(run.seed)
            self.keys.add(bytes.fromhex(run.key))
            self.cells += run.baseline is None
            self.baselines += run.baseline is not None


def write_manifest(
    folder: Path,
    study: Study,
    contents: Contents,
    left_out: Sequence[str],
    draws: Collection[int] | None,
    stand_ins: Mapping[str, Collection[str]],
) -> None:
    """Says what the tables hold, and what they cannot; `draws` where they may have others than all;
    `stand_ins` as `stand_ins_before` gives them.
    """
    manifest: dict[str, Any] = {
        "study": study.name,
        "title": study.title,
        "engines": contents.engines,
        "runs": len(contents.keys),
        "cells": contents.cells,
        "baselines": contents.baselines,
        **({"own_seeds": True} if contents.seeds is None else {"seeds": sorted(contents.seeds)}),
        **({"draws": spans_of(draws)} if draws is not None else {}),
        **({"left_out": list(left_out)} if left_out else {}),
        **({"stand_ins": {name: sorted(kernels) for name, kernels in sorted(stand_ins.items())}} if stand_ins else {}),
    }
    replace_file(folder / MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())


def versions_before(folder: Path) -> dict[str, str]:
    """By engine, with its kernel where it has one ("linux 6.12"), the version whose runs the tables
    held until now.
    """
    return {str(platform): str(version) for platform, version in _before(folder).get("engines", {}).items()}


def draws_before(folder: Path) -> set[int] | None:
    """Draws of a large study whose runs the tables held until now; None where they held all."""
    before = _before(folder)
    if before.get("runs") and "draws" not in before:
        return None
    return {number for span in before.get("draws", []) for number in numbers_in(span)}


def left_out_before(folder: Path) -> list[str]:
    """A line for each kind of cells that an engine had to leave out."""
    return [str(line) for line in _before(folder).get("left_out", [])]


def stand_ins_before(folder: Path) -> dict[str, set[str]]:
    """By engine and kernel ("linux 6.12"), the kernels that experiments ask for and that it stood
    in for.
    """
    stand_ins = _before(folder).get("stand_ins", {})
    return {str(platform): set(map(str, kernels)) for platform, kernels in stand_ins.items() if isinstance(kernels, list)}


def _before(folder: Path) -> dict[str, Any]:
    """The manifest; nothing where there is none, or one that was damaged."""
    file = folder / MANIFEST
    try:
        fields: dict[str, Any] = json.loads(file.read_bytes()) if file.is_file() else {}
        whole = isinstance(fields, dict) and all(isinstance(fields.get(name, kind()), kind) for name, kind in _KINDS.items())
        return fields if whole else {}
    except ValueError:
        return {}


_KINDS: dict[str, type] = {"engines": dict, "runs": int, "draws": list, "left_out": list, "stand_ins": dict}


def _copy_study(folder: Path, study: Study) -> None:
    """The study as it was run, so that a results folder can be read alone."""
    text = study.to_yaml().encode() if study.file is None or study.shortened else study.file.read_bytes()
    replace_file(folder / STUDY_COPY, text)
    source = study.folder or Path()
    if study.published is not None:
        if not (source / study.published.file).is_file():
            raise StudyError(f"the study {study.name} has no file {source / study.published.file} with the published numbers")
        _copy(study.published.file, source, folder)
    for name in recorded_files(study):
        _copy(name, source, folder)


def _copy(name: str, source: Path, folder: Path) -> None:
    there, copy = source / name, folder / name
    if there.is_file() and there.resolve() != copy.resolve():
        copy.parent.mkdir(parents=True, exist_ok=True)
        replace_file(copy, there.read_bytes())


def changed_files(folder: Path, study: Study) -> list[str]:
    """The recorded links of a study of which its results folder has other copies."""
    source = study.folder or Path()
    pairs = [(name, source / name, folder / name) for name in recorded_files(study)]
    return [name for name, there, copy in pairs if copy.is_file() and there.read_bytes() != copy.read_bytes()]


def kept_study(folder: Path, scenarios: Callable[[], Iterable[Mapping[str, Any]]]) -> Study | None:
    """The study as it was run; None if the folder has no copy of it.

    Results of before tables were copied have those beside the study file that was run, if they give
    the links of `scenarios`, which ran.
    """
    copy = folder / STUDY_COPY
    if not copy.is_file():
        return None
    try:
        return Study.load(copy)
    except StudyError as error:
        owner = folder / OWNER
        file = Path(owner.read_text(encoding="utf-8", errors="replace")) if owner.is_file() else copy
        if file == copy or not file.is_file() or file.read_bytes() != copy.read_bytes():
            raise StudyError(f"{error}; put there what it was run with, or run the study again") from None
    study = Study.load(file)
    may_be = {json.dumps(links_of(cell.setup, seed), sort_keys=True) for cell in cells(study) for seed in cell.seeds}
    if any(json.dumps(scenario["links"], sort_keys=True) not in may_be for scenario in scenarios()):
        raise StudyError(f"{file.parent} has other tables of links now than those that {folder} was run with: run the study again")
    return study
