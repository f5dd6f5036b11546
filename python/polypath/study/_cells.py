"""From a study to its cells: every combination of a matrix with its placeholders filled in, checked
as a whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from ._buildable import check_cell
from ._elements import Table, Trace
from ._errors import MistakesError, SetupError, Where, raise_all, unknown
from ._model import plain
from ._parameters import NUMBER_OF_DRAW
from ._placeholder import Scalar, first_use, names_in, substitute
from ._question import SEED, Experiment, Question
from ._setup import PARTS, Cell, Setup, check_setup, in_cell, placed
from ._short import keeps, shortened
from ._traces import FOLDER

# Some seconds of reading a study. More cells are made when they are asked for, and checked then.
MOST_KEPT = 5_000
# A run in a folder of its own costs the file system more than a simulated second does.
_MOST_FOLDERS = 500
# Of a study with more, so many combinations of each experiment are made and checked when it is
# read, and so many draws.
_SPECIMENS, _SPECIMEN_DRAWS = 500, 50


class Cells(Sequence[Cell]):
    """The cells of a large study, each made and checked when it is asked for, and not kept."""

    def __init__(self, study: Question, number: int) -> None:
        self._study = study
        self._number = number

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Cell]:
        for cell in _every_cell(self._study):
            _check_late(cell)
            yield cell

    @overload
    def __getitem__(self, index: int) -> Cell: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Cell]: ...

    def __getitem__(self, index: int | slice) -> Cell | Sequence[Cell]:
        if isinstance(index, slice):
            return tuple(itertools.islice(self, *index.indices(len(self))))
        position = range(len(self))[index]
        return next(itertools.islice(self, position, None))


def cells(study: Question) -> Sequence[Cell]:
    """All cells: experiment by experiment, draw by draw, the last parameter of the matrix fastest.

    Those of a study with more than `MOST_KEPT` are made while one goes over them, which raises
    `SetupError` at one that cannot be run.
    """
    if study._cells is None:
        number = number_of_cells(study)
        study._cells = tuple(_every_cell(study)) if number <= MOST_KEPT else Cells(study, number)
    return study._cells


def cells_of_draws(study: Question, numbers: Collection[int]) -> Iterator[Cell]:
    """The cells of some draws, in the order of `cells`; of a large study no others are made."""
    drawn_cells = cells(study)
    if not isinstance(drawn_cells, Cells):
        yield from (cell for cell in drawn_cells if cell.parameters[NUMBER_OF_DRAW] in numbers)
        return
    for cell in _every_cell(study, numbers):
        _check_late(cell)
        yield cell


def is_large(study: Question) -> bool:
    """Whether the cells are too many to keep."""
    return isinstance(cells(study), Cells)


def has_many_runs(study: Question) -> bool:
    """Whether its cells with their seeds are more than `MOST_KEPT`."""
    return is_large(study) or _number_of_runs(study) > MOST_KEPT


def keeps_packs(study: Question) -> bool:
    """Whether its runs are too many for a folder each."""
    return has_many_runs(study) or _number_of_runs(study) > _MOST_FOLDERS


def _number_of_runs(study: Question) -> int:
    return sum(len(cell.seeds) for cell in cells(study))


def specimens(study: Question) -> Sequence[Cell]:
    """Cells in which every value of every matrix stands at least once: all, unless the study is
    large.
    """
    sample = cells(study)
    if not isinstance(sample, Cells):
        return sample
    if study._specimens is None:
        study._specimens = tuple(_some_cells(study))
    return study._specimens


def recorded_files(study: Question) -> list[str]:
    """The files of recorded links that a study names, as it names them."""
    files: set[str] = set()
    for topology in {id(cell.setup.topology): cell.setup.topology for cell in specimens(study)}.values():
        chains = [side for link in topology.links.values() for side in (link.both, link.forward, link.backward)]
        files |= {element.file for chain in chains if isinstance(chain, tuple) for element in chain if isinstance(element, Table | Trace)}
    return sorted(files)


def number_of_cells(study: Question, experiment: str | None = None) -> int:
    """How many cells there are, in all or in one experiment, without making them."""
    names = study.all_experiments if experiment is None else [experiment]
    return len(draw_numbers(study)) * sum(1 for name in names for _ in _combinations(study, name))


def parameter_names(study: Question) -> list[str]:
    """All parameters in order of appearance: these are columns of the tables."""
    names: dict[str, None] = dict.fromkeys([*study.parameters, *(study.draw.names if study.draw else ())])
    for experiment in study.all_experiments.values():
        names |= dict.fromkeys([*experiment.parameters, *experiment.matrix])
    return list(names)


def _check_late(cell: Cell) -> None:
    check_setup(cell)
    check_cell(cell)


def _every_cell(study: Question, chosen: Collection[int] | None = None) -> Iterator[Cell]:
    for name in study.all_experiments:
        maker = _Maker(study, name)
        for number in draw_numbers(study):
            if chosen is not None and number not in chosen:
                continue
            for varied in _combinations(study, name):
                yield maker.cell(varied, number)


def _some_cells(study: Question) -> Iterator[Cell]:
    for name in study.all_experiments:
        maker = _Maker(study, name)
        draws = draw_numbers(study)
        combinations = list(_combinations(study, name))
        some = combinations if len(combinations) <= _SPECIMENS else _with_every_value(combinations)
        chosen = [(varied, draws[0]) for varied in some]
        # The others turn through the draws, so that most are seen with several.
        chosen += [(some[index % len(some)], number) for index, number in enumerate(draws[1:_SPECIMEN_DRAWS])]
        yield from (maker.cell(varied, number) for varied, number in chosen)


def _with_every_value(combinations: Iterable[dict[str, Scalar]]) -> list[dict[str, Scalar]]:
    """Those that bring a value that none before had."""
    seen: set[tuple[str, Scalar]] = set()
    chosen = []
    for varied in combinations:
        if not seen.issuperset(varied.items()):
            seen |= varied.items()
            chosen.append(varied)
    return chosen


def draw_numbers(study: Question) -> Sequence[int]:
    """The numbers of the draws, of a short form its own; 0 where nothing is drawn."""
    if study.draw is None:
        return (0,)
    return range(1, 1 + (min(study.draw.number, study.short.draws) if study.shortened else study.draw.number))


def _combinations(study: Question, name: str) -> Iterator[dict[str, Scalar]]:
    """The values of an experiment's matrix, with what it excludes left out."""
    experiment = study.all_experiments[name]
    matrix = experiment.matrix
    # By the parameters that they name, so that it does not count how many there are.
    left_out: dict[tuple[str, ...], set[tuple[Scalar, ...]]] = {}
    for excluded in experiment.exclude:
        left_out.setdefault(tuple(excluded), set()).add(tuple(excluded.values()))
    for values in itertools.product(*matrix.values()):
        varied = dict(zip(matrix, values, strict=True))
        if any(tuple(varied[name] for name in names) in combinations for names, combinations in left_out.items()):
            continue
        if study.shortened and not keeps(study.short, name, {**study.parameters, **experiment.parameters, **varied}):
            continue
        yield varied


class _Maker:
    """Makes the cells of one experiment."""

    def __init__(self, study: Question, name: str) -> None:
        self._study, self._name = study, name
        self._experiment = experiment = study.all_experiments[name]
        self._origin: dict[str, Where] = {
            part: (part,) if getattr(experiment, part) is None else ("experiments", name, part) for part in PARTS
        }
        self._raw = raw(study, experiment)
        self._used = set(names_in(self._raw))

    def cell(self, varied: Mapping[str, Scalar], number: int) -> Cell:
        """The cell of these values in the draw of this number. Raises `SetupError` if it cannot be."""
        # A cell that is made late finds the files beside the study, too.
        token = FOLDER.set(self._study.folder or FOLDER.get())
        try:
            return self._cell(varied, number)
        finally:
            FOLDER.reset(token)

    def _cell(self, varied: Mapping[str, Scalar], number: int) -> Cell:
        study, origin = self._study, self._origin
        drawn = study.draw.values(number) if study.draw else {}
        parameters = {**study.parameters, **drawn, **self._experiment.parameters, **varied}
        brought = _brought(study, parameters)
        unset = sorted(self._used - set(parameters) - set(brought))
        if unset:
            where = first_use(self._raw, unset[0])
            sentence = f'the parameter "{unset[0]}" has no value in the experiment "{self._name}"; give it in `parameters` or `matrix`'
            raise SetupError(placed(where, origin), sentence)
        tree = substitute(self._raw, {**brought, **parameters})
        if (left := next(names_in(tree), None)) is not None:
            where = placed(first_use(tree, left), origin)
            raise SetupError(where, f'"${{{left}}}" stands here still when all parameters have their values: no value holds a placeholder')
        # What tells this cell from others of its experiment.
        own = {**drawn, **varied}
        try:
            setup = Setup.model_validate(tree)
        except MistakesError as error:
            raise_all([SetupError(placed(each.where, origin), in_cell(each.sentence, own)) for each in error.wrong])
            raise AssertionError("there are mistakes") from error
        seeds = study.seeds if self._experiment.seeds is None else self._experiment.seeds
        seeds = (int(brought[SEED]),) if SEED in brought else seeds
        if study.shortened:
            setup, seeds = Setup.model_validate(shortened(plain(setup), study.short)), seeds[: study.short.seeds]
        if study.draw is not None:
            seeds = study.draw.seeds_of(number, seeds)
        return Cell(experiment=self._name, parameters=parameters, varied=own, setup=setup, seeds=seeds, origin=origin)


def _brought(study: Question, parameters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What the values of these parameters bring with them."""
    values: dict[str, Scalar] = {}
    for name, bundles in study.bundles.items():
        if name not in parameters:
            continue
        value = str(parameters[name])
        if value not in bundles:
            raise SetupError(("bundles", name), unknown(f"bundle of {name}", value, bundles))
        for other, own in bundles[value].items():
            if other in parameters or other in values:
                raise SetupError(("bundles", name, value, other), f'"{other}" has a value already: give it in one place')
            values[other] = own
    return values


def raw(study: Question, experiment: Experiment) -> dict[str, Any]:
    """The parts of the set-up as they were written; an experiment's own replaces the study's."""
    return {part: plain(getattr(study, part) if (own := getattr(experiment, part)) is None else own) for part in PARTS}
