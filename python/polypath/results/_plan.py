"""What there is to do for a study: its runs, and those of them that are not finished."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path

from polypath import customcc
from polypath.analysis import subflows_across
from polypath.engines import Engine, check, find, notes
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
    links_of,
    numbers_in,
    parameter_names,
    runs,
    scenario,
    specimens,
    unknown,
)

from ._captured import captures_are_there
from ._folder import DEFAULT_OUT
from ._keys import Keys
from ._manifest import check_owner, versions_before
from ._platforms import Versions, custom_hashes, other_engines
from ._store import Store
from ._tables import readable, types_of

# Runs of which the number of all is estimated.
_ESTIMATE = 2_000


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
        custom=custom_hashes(),
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
        remarks=(*notes(engine, study), *_across(study), *_since_before(engine, Path(out) / study.name, whole=not only)),
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


# Cells that are looked at, which takes a moment.
_LOOKED_AT = 20


def _across(study: Study) -> Iterator[str]:
    """A sentence for each flow whose subflows are many more than its paths."""
    plain = (scenario(cell.setup, 1, links=links_of(cell.setup, 1, until_ns=0)) for cell in specimens(study)[:_LOOKED_AT])
    yield from dict.fromkeys(sentence for one in plain for sentence in subflows_across(one))


def _since_before(engine: Engine, folder: Path, *, whole: bool) -> Iterator[str]:
    """What becomes of the rows that the tables have, a sentence each."""
    before = versions_before(folder)
    for other in (engine, *other_engines(engine, before)):
        versions = Versions(other, before)
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
