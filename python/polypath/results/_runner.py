"""Runs what is not yet in the store, on all cores, then writes the tables. Killed at any moment it
goes on from there the next time.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pyarrow as pa

from polypath.engines import Engine, EngineError
from polypath.study import Run, Study, StudyError
from polypath.sweep import LOCAL, Backend, Failed, Fault, State, check_backend, files_of, find_backend
from polypath.terminal import bar

from ._assemble import assemble
from ._captured import captured
from ._captures import drop_captures, keep_captures
from ._computed import note
from ._folder import DEFAULT_OUT
from ._manifest import claim_folder
from ._plan import Plan, plan
from ._platforms import engine_of
from ._progress import ProgressFile
from ._results import Results
from ._store import Store

# Sentences of failed runs that are told, and runs that are named for each.
_TOLD = 20
_NAMED = 8


def execute(
    plan: Plan,
    *,
    workers: int | None = None,
    on: Backend | None = None,
    progress: Callable[[Run], None] | None = None,
    tell: Callable[[State], None] = lambda state: None,
) -> Results:
    """Runs what is pending and writes the tables of everything that is finished.

    A run that fails does not keep the others from running.

    Args:
        plan: What to run, as `plan` made it.
        workers: Runs at once; None: one a core, or what the engine can bear. It changes no byte of
            the results.
        on: The machines that run them; None: this one.
        progress: Called with each run as it ends, in the order in which they end.
        tell: Called with how the machines are, when that changes.

    Returns:
        The results, with the runs that were finished before.

    Raises:
        StudyError: A run failed by the study's fault, or by that of a custom algorithm. All that
            failed are named, and the tables of the others are written.
        EngineError: The same where the engine is at fault.
    """
    failures = _carry_out(plan, workers, on, progress, tell)
    known_runs = plan.runs if plan.whole and not plan.large else None
    contents = assemble(
        plan.study,
        plan.engine,
        plan.folder,
        kernel=plan.kernel,
        stands_for=plan.stands_for,
        left_out=plan.left_out,
        known_runs=known_runs,
        draws=plan.draws,
        store=plan.store,
    )
    _raise(plan, failures)
    if not any(engine_of(platform) == plan.engine.name for platform in contents.engines):
        raise StudyError(f"{plan.folder} holds no finished run of {plan.study.name} on {plan.engine.name}: run it again")
    return Results.open(plan.folder, plan.study, plan.store)


def run(
    study: Study | str | Path,
    *,
    engine: Engine | str = "sim",
    out: str | Path = DEFAULT_OUT,
    only: Mapping[str, str | Iterable[str]] | None = None,
    workers: int | None = None,
    kernel: str | None = None,
    on: str = LOCAL,
    cc_path: str | Path | None = None,
    seeds: int | Sequence[int] | None = None,
    progress: bool | Callable[[Run], None] = False,
) -> Results:
    """Runs a study, or the study in a file, and gives its results; what was run before is not run
    again.

    Args:
        study: A study, a study file, or a folder with a study.yaml in it.
        engine: An engine, or its name: `polypath list engines` shows them.
        out: The folder that has, or will have, a folder of the study's name with its results.
        only: Parameter -> the values to run, as `{"cc": "lia"}` or `{"cc": ["lia", "olia"]}`;
            `experiment` works too. None: all cells.
        workers: Runs at once; None: one a core, or what the engine can bear. It changes no byte of
            the results.
        kernel: A kernel in place of the study's own, such as "6.1", on the engines linux and sim.
        on: Where it runs: `local`, `dask://HOST:PORT` (the workers of that scheduler;
            `tls://HOST:PORT` with the certificates of Dask's configuration) or
            `slurm:PROFILE.toml`.
        cc_path: A folder with congestion controls of your own, each in NAME.c, which studies of
            this process may name from then on.
        seeds: Seeds, or a number of repetitions, in place of the study's own.
        progress: True: a bar, on a terminal or in a notebook. A function is called with each run as
            it ends.

    Returns:
        The results, with the runs that were finished before.

    Raises:
        StudyError: The study is wrong, asks for something that the engine does not have, or a run
            failed by its fault.
        EngineError: A run failed by the engine's fault. All that failed are named, and the tables
            of the others are written.
    """
    planned = plan(study, engine=engine, out=out, only=only, kernel=kernel, cc_path=cc_path, seeds=seeds)
    place = find_backend(on)
    if progress is not True:
        return execute(planned, workers=workers, on=place, progress=progress or None)
    with bar(total=planned.expected, words=f"{planned.study.name}: {planned.described}") as move:
        return execute(planned, workers=workers, on=place, progress=lambda run: move(advance=1))


def _carry_out(
    plan: Plan, workers: int | None, on: Backend | None, progress: Callable[[Run], None] | None, tell: Callable[[State], None]
) -> list[_Failure]:
    """Runs what is pending; those that failed."""
    if on is not None:
        check_backend(plan.engine)
    claim_folder(plan.folder, plan.study)
    store = plan.store
    if store.clean():
        plan.look_again()
    failures: list[_Failure] = []
    threads = workers or plan.engine.workers or os.cpu_count() or 1
    with closing(store), ProgressFile(plan.folder, plan.study.name, plan.engine.name, plan.expected, threads) as progress_file:

        def heard(state: State) -> None:
            progress_file.machines(state)
            tell(state)

        for run in _finished(plan, store, threads, on, failures, heard):
            progress_file.ended(failures)
            if progress is not None:
                progress(run)
    return failures


@dataclass(frozen=True)
class _Failure:
    """A run that did not finish."""

    run: Run
    sentence: str
    # Whether the study is at fault, or a custom algorithm, and not the engine.
    of_study: bool


def _raise(plan: Plan, failures: list[_Failure]) -> None:
    if not failures:
        return
    # In the order of the study, not in that in which they failed.
    order = {} if plan.large else {run.key: number for number, run in enumerate(plan.runs)}
    failures.sort(key=lambda failure: order.get(failure.run.key, 0))
    # What many runs died of is said once.
    alike: dict[str, list[str]] = {}
    for failure in failures:
        alike.setdefault(failure.sentence, []).append(failure.run.label)
    sentences = [f"{plan.study.name}: {sentence} ({_places(labels)})" for sentence, labels in list(alike.items())[:_TOLD]]
    if len(failures) > 1:
        silent = sum(map(len, list(alike.values())[_TOLD:]))
        not_named = f", {silent} of them not named here" if silent else ""
        sentences.append(f"{len(failures)} runs failed{not_named}; the others are kept")
    kind = StudyError if any(failure.of_study for failure in failures) else EngineError
    raise kind("\n".join(sentences))


def _places(labels: Sequence[str]) -> str:
    """Where a sentence holds: the first runs by name, and how many more."""
    if len(labels) == 1:
        return f"in the run {labels[0]}"
    more = f"; and in {len(labels) - _NAMED} others" if len(labels) > _NAMED else ""
    return f"in the runs {'; '.join(labels[:_NAMED])}{more}"


def _finished(
    plan: Plan, store: Store, workers: int, on: Backend | None, failures: list[_Failure], tell: Callable[[State], None]
) -> Iterator[Run]:
    return _here(plan, store, workers, failures) if on is None else _elsewhere(plan, store, on, failures, tell)


def _here(plan: Plan, store: Store, workers: int, failures: list[_Failure]) -> Iterator[Run]:
    """Runs in threads: an engine spends its time outside the interpreter."""

    def work(run: Run) -> Run | None:
        try:
            output = plan.engine.run(run.scenario)
        except (ValueError, EngineError) as error:
            failures.append(_Failure(run, str(error), isinstance(error, ValueError)))
            return None
        keep_captures(plan.folder, run, output.captures)
        files = files_of(run.key, run.engine, run.version, run.scenario, output)
        _keep(plan, store, run, files)
        store.remember(run.key, files, {"subflows": output.subflow_series, "links": output.link_series})
        return run

    waiting = plan.waiting()
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="run")
    try:
        # No more are handed out than there are threads, so that an error ends the study soon.
        active: set[Future[Run | None]] = {pool.submit(work, run) for run in itertools.islice(waiting, workers)}
        while active:
            done, active = wait(active, return_when=FIRST_COMPLETED)
            for future in done:
                run = future.result()
                if run is not None:
                    yield run
                following = next(waiting, None)
                if following is not None:
                    active.add(pool.submit(work, following))
    except KeyboardInterrupt:
        # After an interrupt the runs in flight are not waited for: half a run is not kept.
        plan.engine.stop()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _elsewhere(plan: Plan, store: Store, on: Backend, failures: list[_Failure], tell: Callable[[State], None]) -> Iterator[Run]:
    """Runs on other machines; what comes back is kept here."""
    away: dict[str, Run] = {}

    def leaving() -> Iterator[Run]:
        for run in plan.waiting():
            away[run.key] = run
            yield run

    waiting = leaving()
    first = next(waiting, None)
    if first is None:
        return
    with closing(on.carry_out(plan.engine, itertools.chain([first], waiting), tell)) as ends:
        for end in ends:
            run = away.pop(end.key)
            if isinstance(end, Failed):
                failures.append(_Failure(run, end.sentence, end.fault is Fault.STUDY))
                continue
            keep_captures(plan.folder, run, {name: BytesIO(content) for name, content in end.captures.items()})
            _keep(plan, store, run, end.files)
            yield run


def _keep(plan: Plan, store: Store, run: Run, files: Mapping[str, bytes | pa.Buffer]) -> None:
    # A run with captures has a folder of them anyway.
    replace = plan.again or run.key in store.damaged
    store.put(run.key, files, replace=replace, packed=plan.packs and not run.scenario.get("captures"))
    note(run.key, files)
    # Read at once, while other runs go on; the tables would have to do it one after the other.
    captured(store, run)
    if run.scenario.get("captures") and not run.keeps_captures:
        drop_captures(plan.folder, run)
