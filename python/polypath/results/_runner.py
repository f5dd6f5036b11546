"""Runs what is not yet in the store, on all cores, then writes the tables. Killed at any moment it goes on from there the next time."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from polypath.engines import ENGINES, Engine, EngineError, check, find
from polypath.study import Run, Scalar, Study, StudyError, parameter_names, runs

from ._manifest import claim_folder, write_manifest
from ._results import Results
from ._store import Store, replace_table
from ._tables import tables

DEFAULT_OUT = Path("results")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What there is to do for a study: its runs, those that differ, and those of them that are not finished."""

    study: Study
    engine: Engine
    folder: Path
    runs: tuple[Run, ...]
    pending: tuple[Run, ...]

    @property
    def distinct(self) -> int:
        """Runs that differ: cells may share a baseline."""
        return len({run.key for run in self.runs})

    @property
    def store(self) -> Store:
        return Store(self.folder / "runs")


def plan(
    study: Study,
    *,
    engine: Engine,
    out: str | Path = DEFAULT_OUT,
    only: Mapping[str, Iterable[str]] | None = None,
) -> Plan:
    """Which runs a study needs, and which of them are missing. Touches nothing."""
    check(engine, study)
    folder = Path(out) / study.name
    selected = _selected(study, engine, only)
    store = Store(folder / "runs")
    missing = {run.key: run for run in selected if run.key not in store}
    return Plan(study=study, engine=engine, folder=folder, runs=tuple(selected), pending=tuple(missing.values()))


def execute(plan: Plan, *, workers: int | None = None, progress: Callable[[Run], None] | None = None) -> Results:
    """Runs what is pending and writes the tables of everything that is finished.

    `progress` is called with each run as it ends, in the order in which they end.
    """
    claim_folder(plan.folder, plan.study)
    store = plan.store
    store.clean()
    for run in _finished(plan, store, workers or os.cpu_count() or 1):
        if progress is not None:
            progress(run)
    assemble(plan.study, plan.engine, plan.folder)
    return Results.open(plan.folder, plan.study)


def run(
    study: Study | str | Path,
    *,
    engine: Engine | str = "sim",
    out: str | Path = DEFAULT_OUT,
    only: Mapping[str, Iterable[str]] | None = None,
    workers: int | None = None,
) -> Results:
    """Runs a study, or the study in a file, and gives its results; what was run before is not run again.

    `only={"cc": ["lia"]}` runs a part of the matrix; `workers` defaults to the number of cores and changes no byte of the results.
    """
    found = study if isinstance(study, Study) else Study.load(study)
    return execute(plan(found, engine=find(engine) if isinstance(engine, str) else engine, out=out, only=only), workers=workers)


def assemble(study: Study, engine: Engine, folder: Path) -> None:
    """Writes the tables of all finished runs: those of this engine first, then those of any other that this study was run on."""
    store = Store(folder / "runs")
    everything = list(_all_runs(study, engine))
    for name, table in tables(store, everything, parameter_names(study)).items():
        replace_table(table, folder / f"{name}.parquet")
    write_manifest(folder, study, [run for run in everything if run.key in store])


def _all_runs(study: Study, engine: Engine) -> Iterator[Run]:
    yield from runs(study, engine=engine.name, version=engine.version)
    for name, other in ENGINES.items():
        if name != engine.name:
            yield from runs(study, engine=name, version=other().version)


def _selected(study: Study, engine: Engine, only: Mapping[str, Iterable[str]] | None) -> list[Run]:
    wanted = {name: list(values) for name, values in (only or {}).items()}
    everything = runs(study, engine=engine.name, version=engine.version)
    known = {"experiment": None, **dict.fromkeys(parameter_names(study))}
    for name, values in wanted.items():
        if name not in known:
            raise StudyError(f'the study {study.name} has no parameter "{name}" to choose by; it has {", ".join(known)}')
        there = dict.fromkeys(str(_value(run, name)) for run in everything)
        for value in values:
            if value not in there:
                raise StudyError(f"no cell of {study.name} has {name}={value}; there are {', '.join(there)}")
    selected = [run for run in everything if all(str(_value(run, name)) in values for name, values in wanted.items())]
    if not selected:
        chosen = " ".join(f"{name}={','.join(values)}" for name, values in wanted.items())
        raise StudyError(f"no cell of {study.name} has {chosen} at once")
    return selected


def _value(run: Run, name: str) -> Scalar | None:
    return run.experiment if name == "experiment" else run.parameters.get(name)


def _finished(plan: Plan, store: Store, workers: int) -> Iterator[Run]:
    """Runs in threads: an engine spends its time outside the interpreter."""

    def work(run: Run) -> Run:
        try:
            output = plan.engine.run(run.scenario)
        except ValueError as error:
            raise StudyError(f"{plan.study.name}: {error} (in the run {run.label})") from error
        except EngineError as error:
            raise EngineError(f"{plan.study.name}: {error} (in the run {run.label})") from error
        store.put(run, output)
        return run

    waiting = iter(plan.pending)
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="run")
    try:
        # No more are handed out than there are threads, so that an error ends the study soon.
        active: set[Future[Run]] = {pool.submit(work, run) for run in itertools.islice(waiting, workers)}
        while active:
            done, active = wait(active, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                following = next(waiting, None)
                if following is not None:
                    active.add(pool.submit(work, following))
    except KeyboardInterrupt:
        # Nobody who interrupts wants to wait for the runs in flight, and nothing of them would be kept half.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
