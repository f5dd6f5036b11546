"""Runs what is not yet in the store, on all cores, then writes the tables. Killed at any moment it
goes on from there the next time.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path

import pyarrow as pa

from polypath import customcc
from polypath.engines import ENGINES, Engine, EngineError, MeasuredEngine, check, find, notes
from polypath.linux import KernelError
from polypath.study import (
    MOST_KEPT,
    NUMBER_OF_DRAW,
    Cell,
    Run,
    Scalar,
    Study,
    StudyError,
    cells,
    draw_numbers,
    has_many_runs,
    is_large,
    keeps_packs,
    numbers_in,
    parameter_names,
    runs,
    specimens,
    unknown,
)
from polypath.sweep import LOCAL, Failed, Fault, Place, State, check_place, files_of, find_place
from polypath.terminal import bar

from ._captured import captured, captures_are_there
from ._captures import drop_captures, keep_captures
from ._computed import note
from ._folder import DEFAULT_OUT
from ._keys import KEY, Keys
from ._manifest import Contents, check_owner, claim_folder, draws_before, left_out_before, stand_ins_before, versions_before, write_manifest
from ._progress import ProgressFile
from ._results import Results
from ._store import Store, TableFiles
from ._tables import readable, tables, types_of

# Sentences of failed runs that are told, and runs that are named for each.
_TOLD = 20
_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What there is to do for a study: its runs, those that differ, and those of them that are not
    finished.
    """

    study: Study
    engine: Engine
    folder: Path
    # Makes all runs in the order of the study.
    every: Callable[[], Iterator[Run]] = field(repr=False)
    # The kernel that stands in for the study's own, if one does, and the one for which it does.
    kernel: str | None
    stands_for: str | None
    # Whether what is finished but not to be trusted runs once more.
    again: bool
    # A line for each kind of cells that this engine must leave out.
    left_out: tuple[str, ...]
    # What is no mistake and yet not what somebody may think, a sentence each.
    remarks: tuple[str, ...]
    # Whether these are all runs of the study on this engine and kernel.
    whole: bool
    # The draws that were chosen; None for all.
    draws: frozenset[int] | None
    # How many cells were chosen; of a large study an estimate.
    cells: int

    @property
    def large(self) -> bool:
        """Whether the runs are so many that none of them is kept: they are made anew each time, and
        `expected` is an estimate.
        """
        return has_many_runs(self.study) and (self.draws is None or self.cells > MOST_KEPT)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All of them, kept."""
        return tuple(self.every())

    @cached_property
    def pending(self) -> tuple[Run, ...]:
        """Those that are to run, kept."""
        return tuple(self._missing())

    def look_again(self) -> None:
        """The store has other runs than when `pending` was made."""
        self.__dict__.pop("pending", None)

    def waiting(self) -> Iterator[Run]:
        """Those that are to run, each once; of a large study made while one goes over them."""
        return self._missing() if self.large else iter(self.pending)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is no mistake and yet not what somebody may think, a sentence each; and which
        finished runs cannot be read.
        """
        return (*self.remarks, *self.store.unreadable())

    def _missing(self) -> Iterator[Run]:
        store, types = self.store, types_of(self.study)
        seen = Keys()
        for run in self.every() if self.large else self.runs:
            digest = bytes.fromhex(run.key)
            if not seen.add(digest):
                continue
            kept = readable(store, run, types)
            if kept is None or not captures_are_there(store, run) or (self.again and kept.untrusted):
                yield run

    @cached_property
    def distinct(self) -> int:
        """Runs that differ, since cells may share a baseline; of a large study as many as its first
        cells let expect.
        """
        if not self.large:
            return len({run.key for run in self.runs})
        first = list(itertools.islice(self.every(), _ESTIMATE))
        of_cells = sum(run.baseline is None for run in first)
        some = specimens(self.study)
        seeds = sum(len(cell.seeds) for cell in some) / len(some)
        return round(len({run.key for run in first}) / of_cells * seeds * self.cells)

    @property
    def expected(self) -> int:
        """How many are to run; of a large study an estimate."""
        return max(self.distinct - len(self.store), 0) if self.large else len(self.pending)

    @property
    def described(self) -> str:
        """Its runs that differ, and how many of them are there for comparison: "50 runs and 20 of
        TCP alone".
        """
        if self.large:
            return f"about {self.distinct} runs"
        kinds = {run.key: "" if run.baseline is None else "each flow alone" if run.baseline.alone else "TCP alone" for run in self.runs}
        counts = {kind: sum(each == kind for each in kinds.values()) for kind in ("", "TCP alone", "each flow alone")}
        own = counts.pop("")
        first = f"{own} run{'s' * (own != 1)}"
        return " and ".join([first, *(f"{many} of {kind}" for kind, many in counts.items() if many)])

    @cached_property
    def store(self) -> Store:
        return Store(self.folder / "runs")

    @cached_property
    def packs(self) -> bool:
        """Whether finished runs go into packs."""
        return keeps_packs(self.study)


# Runs whose tables are made at once.
_TABLE_PART = 2_000
# Runs of which the number of all is estimated.
_ESTIMATE = 2_000


def plan(
    study: Study | str | Path,
    *,
    engine: Engine | str = "sim",
    out: str | Path = DEFAULT_OUT,
    only: Mapping[str, str | Iterable[str]] | None = None,
    kernel: str | None = None,
    again: bool = False,
    cc_path: str | Path | None = None,
    seeds: int | Sequence[int] | None = None,
) -> Plan:
    """Which runs a study needs, and which of them are missing. Touches nothing.

    Args:
        study: What to run: a study, a study file, or a folder with a study.yaml in it.
        engine: An engine, or its name: `polypath list engines` shows them.
        out: The folder that has, or will have, a folder of the study's name with its results.
        only: Parameter -> the values to run, as `{"cc": "lia"}` or `{"cc": ["lia", "olia"]}`;
            `experiment` works too. None: all cells.
        kernel: A kernel in place of the study's own, on engines that run or model kernels.
        again: Whether runs of an engine in real time that came too late to be trusted count as
            missing.
        cc_path: A folder with congestion controls of your own, each in NAME.c, which studies of
            this process may name from then on.
        seeds: Seeds, or a number of repetitions, in place of the study's own.

    Returns:
        The plan: `runs`, those of them that are `pending`, what is `left_out` and why, and `notes`.

    Raises:
        StudyError: The study asks for something that the engine does not have, or no cell has the
            values of `only`.
    """
    if cc_path is not None:
        customcc.use(cc_path)
    study = study if isinstance(study, Study) else Study.load(study)
    study = study if seeds is None else study.everywhere(seeds=seeds)
    engine = find(engine) if isinstance(engine, str) else engine
    if kernel is not None and study.varies_kernel:
        raise StudyError(f"the parameters of {study.name} decide its kernel; choose among them with --only instead of --kernel")
    if again and not engine.real_time:
        sentence = f"--again repeats runs that came late in real time, and {engine.name} is never late: it gives the same bytes each time"
        raise StudyError(f"{sentence}; leave it out, or take --engine host")
    check_owner(Path(out) / study.name, study)
    # A single value is a text, not a list of letters.
    chosen = {name: [values] if isinstance(values, str) else list(values) for name, values in (only or {}).items()}
    draws, others = _draws(study, chosen)
    is_chosen = _choice(study, others)
    kernels = {cell.setup.kernel for cell in specimens(study) if is_chosen(cell)} if kernel is not None else set()
    if len(kernels) > 1:
        sentence = f"--kernel {kernel} would stand in for all of {', '.join(sorted(kernels))}, which experiments of {study.name} ask for"
        raise StudyError(f"{sentence}; choose experiments of one kernel with --only experiment=NAME, or leave --kernel out")
    if kernel is not None and (modelled := engine.modelled_kernels()):
        study, kernel = _modelled_on(study, kernel, modelled), None
    kernel = engine.only_kernel or kernel
    some = [cell for cell in specimens(study) if is_chosen(cell)]
    left_out = check(engine, study, kernel, some)
    share = 1.0 if draws is None else len(draws) / len(draw_numbers(study))
    every = partial(
        runs,
        study,
        engine=engine.name,
        version=engine.versions(kernel),
        kernel=kernel,
        own=_own(),
        leave_out=partial(_left_out, engine, kernel, is_chosen, checked=not is_large(study)),
        draws=draws,
    )
    planned = Plan(
        study=study,
        engine=engine,
        folder=Path(out) / study.name,
        every=every,
        kernel=kernel,
        stands_for=next(iter(kernels), None),
        again=again,
        left_out=tuple(left_out),
        remarks=(*notes(engine, study), *_since_before(engine, Path(out) / study.name, whole=not only)),
        whole=not only,
        draws=draws,
        cells=round(len(cells(study)) * share * len(some) / len(specimens(study))),
    )
    if not planned.large:
        # What cannot be run is said now.
        _ = planned.pending
    return planned


def _modelled_on(study: Study, kernel: str, modelled: Sequence[str]) -> Study:
    """The study as if it had asked for this kernel; a host that names one keeps its own."""
    if kernel not in modelled:
        raise StudyError(unknown("kernel", kernel, modelled))
    return study.everywhere(kernel=kernel)


def execute(
    plan: Plan,
    *,
    workers: int | None = None,
    on: Place | None = None,
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
    if not any(_engine_of(platform) == plan.engine.name for platform in contents.engines):
        raise StudyError(f"{plan.folder} holds no finished run of {plan.study.name} on {plan.engine.name}: run it again")
    return Results.open(plan.folder, plan.study, plan.store)


def _carry_out(
    plan: Plan, workers: int | None, on: Place | None, progress: Callable[[Run], None] | None, tell: Callable[[State], None]
) -> list[_Failure]:
    """Runs what is pending; those that failed."""
    if on is not None:
        check_place(plan.engine)
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
    place = find_place(on)
    if progress is not True:
        return execute(planned, workers=workers, on=place, progress=progress or None)
    with bar(total=planned.expected, words=f"{planned.study.name}: {planned.described}") as move:
        return execute(planned, workers=workers, on=place, progress=lambda run: move(advance=1))


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
    for other in _other_engines(engine, before):
        yield from _runs_on(study, other, _kernels(other), draws, before, stand_ins)


def _other_engines(engine: Engine, before: Mapping[str, str]) -> Iterator[Engine]:
    """Those of which the tables had runs. An engine that this study never ran on may be one that is
    not there.
    """
    names = {_engine_of(platform) for platform in before} - {engine.name}
    yield from (other() for name, other in ENGINES.items() if name in names)
    if MeasuredEngine.name in names:
        yield MeasuredEngine()


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
    had = [platform.partition(" ")[2] or None for platform in before if _engine_of(platform) == engine.name]
    versions = _Versions(engine, before)
    for kernel in [None] if study.varies_kernel and not engine.only_kernel else dict.fromkeys([*kernels, *had]):
        stands_for = stand_ins.get(f"{engine.name} {kernel}", ())

        def leave_out(cell: Cell, kernel: str | None = kernel, stands_for: Collection[str] = stands_for) -> bool:
            # A run of an experiment that asks for this kernel is none of one that asks for another.
            is_of_another = several and kernel not in (None, cell.setup.kernel) and cell.setup.kernel not in stands_for
            return is_of_another or versions.left_out(kernel, cell)

        yield from runs(study, engine=engine.name, version=versions.all, kernel=kernel, own=_own(), leave_out=leave_out, draws=draws)


class _Versions:
    """An engine's versions by kernel. With one that is gone it has the version whose runs the
    tables held: what it ran is still there.
    """

    def __init__(self, engine: Engine, before: Mapping[str, str]) -> None:
        self._engine = engine
        self._before = before
        self._found: dict[str, str | None] = {}
        versions = engine.versions()
        self.all: str | Callable[[str], str] = versions if isinstance(versions, str) else self._of

    def left_out(self, kernel: str | None, cell: Cell) -> bool:
        """Whether this cell never ran."""
        name = kernel or cell.setup.kernel
        if not isinstance(self.all, str) and self.now(name) is None:
            return f"{self._engine.name} {name}" not in self._before
        return self._engine.left_out(cell, kernel) is not None

    def _of(self, kernel: str) -> str:
        return self.now(kernel) or self._before[f"{self._engine.name} {kernel}"]

    def now(self, kernel: str) -> str | None:
        """The version with this kernel; None where it is gone, or was never there."""
        if isinstance(self.all, str):
            return self.all
        if kernel not in self._found:
            self._found[kernel] = self._look_up(kernel)
        return self._found[kernel]

    def _look_up(self, kernel: str) -> str | None:
        versions = self._engine.versions(kernel)
        assert not isinstance(versions, str), "an engine that runs kernels has a version with each"
        try:
            return versions(kernel) if self._engine.only_kernel in (None, kernel) else None
        except (KernelError, EngineError):
            return None


def _since_before(engine: Engine, folder: Path, *, whole: bool) -> Iterator[str]:
    """What becomes of the rows that the tables have, a sentence each."""
    before = versions_before(folder)
    for other in (engine, *_other_engines(engine, before)):
        versions = _Versions(other, before)
        for platform, version in before.items():
            name, _, kernel = platform.partition(" ")
            now = versions.now(kernel)
            if name != other.name or now == version or (other is engine and whole):
                continue
            if now is None:
                yield f"{platform} is not there any more; the rows of its finished runs stay in the tables"
            else:
                yield (
                    f"the rows of {platform} that do not run again now leave the tables: they are of its version {version}, "
                    f"and now it has {now}"
                )


def _engine_of(platform: str) -> str:
    return platform.partition(" ")[0]


def _own() -> dict[str, str]:
    """What decides a run of a custom congestion control."""
    return {name: algorithm.hash for name, algorithm in customcc.used().items()}


def _draws(study: Study, only: Mapping[str, Iterable[str]]) -> tuple[frozenset[int] | None, Mapping[str, Iterable[str]]]:
    """The draws that were asked for, None for all; and what else was asked for."""
    if study.draw is None or NUMBER_OF_DRAW not in only:
        return None, only
    draws: set[int] = set()
    last = draw_numbers(study)[-1]
    for text in only[NUMBER_OF_DRAW]:
        try:
            numbers = numbers_in(text)
        except ValueError:
            numbers = range(0)
        if not numbers or numbers[-1] > last:
            sentence = f"no cell of {study.name} has {NUMBER_OF_DRAW}={text}; there are 1 to {last}, and 1..9 stands for nine of them"
            raise StudyError(sentence)
        draws.update(numbers)
    return frozenset(draws), {name: values for name, values in only.items() if name != NUMBER_OF_DRAW}


def _choice(study: Study, only: Mapping[str, Iterable[str]]) -> Callable[[Cell], bool]:
    """Whether a cell is in the part of the study that was asked for, whatever its draw. Raises
    `StudyError` if none is.
    """
    wanted = {name: list(values) for name, values in only.items()}
    some = specimens(study)
    named = {"experiment": None, **dict.fromkeys(parameter_names(study))}
    drawn = study.draw.names if study.draw else ()
    for name, values in wanted.items():
        if name not in named:
            raise StudyError(f'the study {study.name} has no parameter "{name}" to choose by; it has {", ".join(named)}')
        if name in drawn:
            raise StudyError(f'"{name}" is drawn; choose draws by their number, such as --only {NUMBER_OF_DRAW}=1')
        there = dict.fromkeys(str(_value(cell, name)) for cell in some)
        for value in values:
            if value not in there:
                raise StudyError(f"no cell of {study.name} has {name}={value}; there are {', '.join(there)}")

    def is_chosen(cell: Cell) -> bool:
        return all(str(_value(cell, name)) in values for name, values in wanted.items())

    if not any(map(is_chosen, some)):
        chosen = " ".join(f"{name}={','.join(values)}" for name, values in wanted.items())
        raise StudyError(f"no cell of {study.name} has {chosen} at once")
    return is_chosen


def _left_out(engine: Engine, kernel: str | None, is_chosen: Callable[[Cell], bool], cell: Cell, *, checked: bool) -> bool:
    """Whether a cell is not to run. Raises `SetupError` where the engine lacks what it asks for,
    unless that was checked before.
    """
    if not is_chosen(cell) or engine.left_out(cell, kernel):
        return True
    if not checked:
        engine.check(cell, kernel)
    return False


def _value(cell: Cell, name: str) -> Scalar | None:
    return cell.experiment if name == "experiment" else cell.parameters.get(name)


def _finished(
    plan: Plan, store: Store, workers: int, on: Place | None, failures: list[_Failure], tell: Callable[[State], None]
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


def _elsewhere(plan: Plan, store: Store, on: Place, failures: list[_Failure], tell: Callable[[State], None]) -> Iterator[Run]:
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
