"""The tables of a folder, made of its finished runs."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from polypath.engines import Engine
from polypath.linux import KernelError
from polypath.study import Cell, Run, Study, is_large, runs, specimens

from ._keys import KEY, Keys
from ._manifest import Contents, draws_before, left_out_before, stand_ins_before, versions_before, write_manifest
from ._platforms import Versions, custom_hashes, engine_of, other_engines
from ._store import Store, TableFiles
from ._tables import tables, types_of

# Runs whose tables are made at once.
_TABLE_PART = 2_000


def assemble(
    study: Study,
    engine: Engine,
    folder: Path,
    *,
    kernel: str | None = None,
    stands_for: str | None = None,
    left_out: Iterable[str] = (),
    known_runs: Iterable[Run] | None = None,
    draws: Collection[int] | None = None,
    store: Store | None = None,
) -> Contents:
    """Writes the tables of all finished runs: those of this engine first, then those of any other
    that this study was run on.

    `kernel` stands in for the study's own, which is `stands_for` where experiments ask for several.
    `known_runs` are all runs of the study on this engine and kernel, if the caller has them;
    `draws` those of a large study that ran now, if not all: the tables have them and those that
    they had before. `store` is that of the folder, where the caller has looked at it. Gives what
    the tables hold.
    """
    if draws is not None:
        before = draws_before(folder)
        draws = {*draws, *before} if is_large(study) and before is not None else None
    stand_ins = stand_ins_before(folder)
    if kernel is not None and stands_for not in (None, kernel):
        stand_ins.setdefault(f"{engine.name} {kernel}", set()).add(str(stands_for))
    store = store or Store(folder / "runs")
    types = types_of(study)
    contents = Contents(seeds=None) if study.has_own_seeds else Contents()
    with TableFiles(folder) as files:
        for part in _parts(_once(_all_runs(study, engine, folder, kernel, stand_ins, known_runs, draws))):
            files.add(tables(store, part, types))
            contents.add(run for run in part if run.key in store and run.key not in store.damaged)
    others = [line for line in left_out_before(folder) if not line.startswith(f"left out on {engine.name}")]
    write_manifest(folder, study, contents, [*left_out, *others], draws, stand_ins)
    return contents


def _once(runs: Iterable[Run]) -> Iterator[Run]:
    """A run that several kernels share, or cells of several experiments, stands in the tables once
    for each cell.
    """
    seen = Keys()
    for run in runs:
        cell = repr((run.experiment, run.key, run.baseline, tuple(run.parameters.items())))
        if seen.add(hashlib.sha256(cell.encode()).digest()[:KEY]):
            yield run


def _parts(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """Runs in parts that fit into memory, a cell with its baselines in one; one part at least."""
    part: list[Run] = []
    for run in runs:
        if run.baseline is None and len(part) >= _TABLE_PART:
            yield part
            part = []
        part.append(run)
    yield part


def _all_runs(
    study: Study,
    engine: Engine,
    folder: Path,
    kernel: str | None,
    stand_ins: Mapping[str, Collection[str]],
    known_runs: Iterable[Run] | None,
    draws: Collection[int] | None,
) -> Iterator[Run]:
    before = versions_before(folder)
    kernels = [kernel, *_kernels(engine)] if kernel else _kernels(engine)
    if known_runs is not None and kernels[0] == kernel:
        yield from known_runs
        kernels = [other for other in kernels[1:] if other != kernel]
    yield from _runs_on(study, engine, kernels, draws, before, stand_ins)
    for other in other_engines(engine, before):
        yield from _runs_on(study, other, _kernels(other), draws, before, stand_ins)


def _kernels(engine: Engine) -> list[str | None]:
    try:
        return engine.kernels()
    except KernelError:
        # One cannot be linked here. What it ran is there all the same.
        return [None]


def _runs_on(
    study: Study,
    engine: Engine,
    kernels: Iterable[str | None],
    draws: Collection[int] | None,
    before: Mapping[str, str],
    stand_ins: Mapping[str, Collection[str]],
) -> Iterator[Run]:
    several = not engine.only_kernel and len({cell.setup.kernel for cell in specimens(study)}) > 1
    had = [platform.partition(" ")[2] or None for platform in before if engine_of(platform) == engine.name]
    versions = Versions(engine, before)
    for kernel in [None] if study.varies_kernel and not engine.only_kernel else dict.fromkeys([*kernels, *had]):
        stands_for = stand_ins.get(f"{engine.name} {kernel}", ())

        def leave_out(cell: Cell, kernel: str | None = kernel, stands_for: Collection[str] = stands_for) -> bool:
            # A run of an experiment that asks for this kernel is none of one that asks for another.
            is_of_another = several and kernel not in (None, cell.setup.kernel) and cell.setup.kernel not in stands_for
            return is_of_another or versions.left_out(kernel, cell)

        yield from runs(
            study, engine=engine.name, version=versions.all, kernel=kernel, custom=custom_hashes(), leave_out=leave_out, draws=draws
        )
