"""From a study to its cells: every combination of a matrix with its placeholders filled in, checked as a whole."""

from __future__ import annotations

import difflib
import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from pydantic import Field, ValidationError

from ._elements import Down, RateLimit, chain
from ._errors import MistakesError, SetupError, Where, dotted, gathered, raise_all, unknown
from ._fields import no_such_field
from ._flows import Bulk, Constant, Endpoints, Flow, Ndiffports, OnOff, Requests
from ._kernel import KernelName
from ._model import UNDECIDED, Model, Name
from ._parameters import NUMBER_OF_DRAW
from ._placeholder import Scalar, is_placeholder, names_in, substitute
from ._quantity import Time, several_values
from ._short import keeps, shortened
from ._study import SEED, Experiment, Measure, Study
from ._topology import Topology, addresses, joined, node_addresses


class Setup(Model):
    """What one cell runs: a study's set-up without placeholders."""

    topology: Topology
    flows: Mapping[Name, Flow] = Field(min_length=1)
    duration: Time
    measure: Measure
    kernel: KernelName


# What an experiment may replace, and placeholders may stand in.
PARTS = tuple(Setup.model_fields)


# With a run of a second each, days of running; more of them is a mistake.
MOST_COMBINATIONS = 100_000
# Nodes, links and flows in all cells that are made when a study is read: a minute of reading it.
MOST_PARTS = 200_000
# Some seconds of reading a study. More cells are made when they are asked for, and checked then.
MOST_KEPT = 5_000
# Of a study with more, so many combinations of each experiment are made and checked when it is read, and so many draws.
_SPECIMENS, _SPECIMEN_DRAWS = 500, 50


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of a matrix."""

    experiment: str
    # All parameters, and those of them that the matrix varies.
    parameters: Mapping[str, Scalar]
    varied: Mapping[str, Scalar]
    setup: Setup
    seeds: tuple[int, ...]
    # Where each part of the set-up stands in the study: ("flows",) or ("experiments", "v1", "flows").
    origin: Mapping[str, Where]

    def error(self, where: Where, sentence: str) -> SetupError:
        """A mistake at a field of the set-up, told as one of the study."""
        return SetupError(placed(where, self.origin), in_cell(sentence, self.varied))


def placed(where: Where, origin: Mapping[str, Where]) -> Where:
    """A field of the set-up as a field of the study."""
    return (*origin[str(where[0])], *where[1:]) if where else ()


def in_cell(sentence: str, varied: Mapping[str, Scalar]) -> str:
    cell = ", ".join(f"{name}={value}" for name, value in varied.items())
    return f"{sentence} (in the cell {cell})" if cell else sentence


class Cells(Sequence[Cell]):
    """The cells of a large study, each made and checked when it is asked for, and not kept."""

    def __init__(self, study: Study, number: int, check: Callable[[Cell], object]) -> None:
        self._study = study
        self._number = number
        self._check = check

    def __len__(self) -> int:
        return self._number

    def __iter__(self) -> Iterator[Cell]:
        for cell in _every_cell(self._study):
            self._check(cell)
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


def cells(study: Study) -> Sequence[Cell]:
    """All cells: experiment by experiment, draw by draw, the last parameter of the matrix fastest.

    Those of a study with more than `MOST_KEPT` are made while one goes over them, which raises `SetupError` at one that cannot be run.
    """
    if study._cells is None:
        number = number_of_cells(study)
        study._cells = tuple(_every_cell(study)) if number <= MOST_KEPT else Cells(study, number, _check_late)
    found: Sequence[Cell] = study._cells
    return found


def cells_of_draws(study: Study, numbers: Collection[int]) -> Iterator[Cell]:
    """The cells of some draws, in the order of `cells`; of a large study no others are made."""
    found = cells(study)
    if not isinstance(found, Cells):
        yield from (cell for cell in found if cell.parameters[NUMBER_OF_DRAW] in numbers)
        return
    for cell in _every_cell(study, numbers):
        _check_late(cell)
        yield cell


def is_large(study: Study) -> bool:
    """Whether the cells are too many to keep."""
    return isinstance(cells(study), Cells)


def has_many_runs(study: Study) -> bool:
    """Whether its cells with their seeds are more than `MOST_KEPT`."""
    return is_large(study) or sum(len(cell.seeds) for cell in cells(study)) > MOST_KEPT


def specimens(study: Study) -> Sequence[Cell]:
    """Cells in which every value of every matrix stands at least once: all, unless the study is large."""
    found = cells(study)
    if not isinstance(found, Cells):
        return found
    if study._specimens is None:
        study._specimens = tuple(_some_cells(study))
    some: Sequence[Cell] = study._specimens
    return some


def number_of_cells(study: Study, experiment: str | None = None) -> int:
    """How many cells there are, in all or in one experiment, without making them."""
    names = study.all_experiments if experiment is None else [experiment]
    return len(draw_numbers(study)) * sum(1 for name in names for _ in _combinations(study, name))


def parameter_names(study: Study) -> list[str]:
    """All parameters in order of appearance: these are columns of the tables."""
    names: dict[str, None] = dict.fromkeys([*study.parameters, *(study.draw.names if study.draw else ())])
    for experiment in study.all_experiments.values():
        names |= dict.fromkeys([*experiment.parameters, *experiment.matrix])
    return list(names)


def _check_late(cell: Cell) -> None:
    from ._check import check_cell  # It goes over cells.

    check_setup(cell)
    check_cell(cell)


def _every_cell(study: Study, chosen: Collection[int] | None = None) -> Iterator[Cell]:
    for name in study.all_experiments:
        maker = _Maker(study, name)
        for number in draw_numbers(study):
            if chosen is not None and number not in chosen:
                continue
            for varied in _combinations(study, name):
                yield maker.cell(varied, number)


def _some_cells(study: Study) -> Iterator[Cell]:
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
    found = []
    for varied in combinations:
        if not seen.issuperset(varied.items()):
            seen |= varied.items()
            found.append(varied)
    return found


def draw_numbers(study: Study) -> Sequence[int]:
    """The numbers of the draws, of a short form its own; 0 where nothing is drawn."""
    if study.draw is None:
        return (0,)
    return range(1, 1 + (min(study.draw.number, study.short.draws) if study.shortened else study.draw.number))


def _combinations(study: Study, name: str) -> Iterator[dict[str, Scalar]]:
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


def check_study(study: Study) -> None:
    """Raises `SetupError` at the first thing that cannot be run."""
    _check_placeholders(study)
    if study.experiments and study.matrix:
        raise SetupError(("matrix",), "a study has either one `matrix` or `experiments` with a matrix each, not both")
    _check_matrices(study)
    seen: set[str] = set()
    for index, claim in enumerate(study.claims):
        if claim.id in seen:
            raise SetupError(("claims", index, "id"), f'two claims are called "{claim.id}"')
        seen.add(claim.id)
    parameters = parameter_names(study)
    for index, name in enumerate(study.repeat_over):
        if name not in parameters:
            raise SetupError(("repeat_over", index), unknown("parameter", name, parameters))
    for name in study.short.only:
        if name not in (*parameters, "experiment"):
            raise SetupError(("short", "only", name), unknown("parameter", name, [*parameters, "experiment"]))
    if study.short.only and not any(keeps(study.short, cell.experiment, cell.parameters) for cell in specimens(study)):
        raise SetupError(("short", "only"), "no cell has these values, so the short form would run nothing")
    if study.published is not None:
        for index, key in enumerate(study.published.keys):
            if key not in [*parameters, "experiment", "flow", "subflow"]:
                raise SetupError(("published", "keys", index), unknown("parameter", key, [*parameters, "experiment", "flow", "subflow"]))
    for cell in specimens(study):
        check_setup(cell)
    _every_parameter_is_used(study)


# What is the same for all cells.
_OF_THE_STUDY = ("name", "draw", "seeds", "repeat_over", "baselines", "published", "claims", "short", "shortened")


def _check_placeholders(study: Study) -> None:
    said = {name: getattr(study, name) for name in _OF_THE_STUDY}
    said["experiments"] = {name: {"seeds": each.seeds, "exclude": each.exclude} for name, each in study.experiments.items()}
    for name, value in said.items():
        tree = plain(value)
        if (left := next(names_in(tree), None)) is not None:
            sentence = f'"${{{left}}}" stands here, and only topology, flows, duration, measure and kernel hold placeholders'
            raise SetupError(_first_use(tree, left, (name,)), sentence)


def _check_matrices(study: Study) -> None:
    drawn = study.draw.parameters if study.draw else {}
    made = 0
    for name, experiment in study.all_experiments.items():
        within: Where = ("experiments", name) if study.experiments else ()
        for index, excluded in enumerate(experiment.exclude):
            for parameter in excluded:
                if parameter not in experiment.matrix:
                    where = (*within, "exclude", index, parameter)
                    raise SetupError(where, unknown("parameter in this matrix", parameter, experiment.matrix))
        combinations = math.prod(len(values) for values in experiment.matrix.values())
        if combinations > MOST_COMBINATIONS:
            sentence = f"{combinations} combinations of values are too many for one experiment; the most is {MOST_COMBINATIONS}"
            raise SetupError((*within, "matrix"), sentence)
        made += min(combinations, MOST_KEPT)
        for parameter in drawn.keys() & {**study.parameters, **experiment.parameters, **experiment.matrix}.keys():
            sentence = f'"{parameter}" has a value already; a parameter is drawn or given, not both'
            raise SetupError(("draw", "parameters", parameter), sentence)
    network = study.topology
    # What a parameter decides as a whole has no size yet.
    parts = sum(
        len(part) for part in (getattr(network, "nodes", ()), getattr(network, "links", ()), study.flows) if not is_placeholder(part)
    )
    if made * parts > MOST_PARTS:
        sentence = f"{made} cells of {parts} nodes, links and flows each are too many; the most is {MOST_PARTS:,} in all"
        raise SetupError(("experiments" if study.experiments else "matrix",), sentence)


def check_setup(cell: Cell) -> None:
    """Names, addresses and times that must fit together."""
    if cell.setup.duration == 0:
        raise cell.error(("duration",), "a run that lasts no time measures nothing")
    # What follows needs links that lead somewhere, and addresses that belong to one.
    gathered(partial(_check_link, cell, name) for name in cell.setup.topology.links)
    _check_tunnels(cell)
    _check_addresses(cell)
    flows = (partial(_check_flow, cell, name, flow) for name, flow in cell.setup.flows.items())
    gathered([*flows, partial(_check_captures, cell)])


class _Maker:
    """Makes the cells of one experiment."""

    def __init__(self, study: Study, name: str) -> None:
        self._study, self._name = study, name
        self._experiment = experiment = study.all_experiments[name]
        self._origin: dict[str, Where] = {
            part: (part,) if getattr(experiment, part) is None else ("experiments", name, part) for part in PARTS
        }
        self._raw = _raw(study, experiment)
        self._used = set(names_in(self._raw))

    def cell(self, varied: Mapping[str, Scalar], number: int) -> Cell:
        """The cell of these values in the draw of this number. Raises `SetupError` if it cannot be."""
        study, origin = self._study, self._origin
        drawn = study.draw.values(number) if study.draw else {}
        parameters = {**study.parameters, **drawn, **self._experiment.parameters, **varied}
        brought = _brought(study, parameters)
        unset = sorted(self._used - set(parameters) - set(brought))
        if unset:
            where = _first_use(self._raw, unset[0])
            sentence = f'the parameter "{unset[0]}" has no value in the experiment "{self._name}"; give it in `parameters` or `matrix`'
            raise SetupError(placed(where, origin), sentence)
        tree = substitute(self._raw, {**brought, **parameters})
        if (left := next(names_in(tree), None)) is not None:
            where = placed(_first_use(tree, left), origin)
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


def _brought(study: Study, parameters: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What the values of these parameters bring with them."""
    found: dict[str, Scalar] = {}
    for name, bundles in study.bundles.items():
        if name not in parameters:
            continue
        value = str(parameters[name])
        if value not in bundles:
            raise SetupError(("bundles", name), unknown(f"bundle of {name}", value, bundles))
        for other, own in bundles[value].items():
            if other in parameters or other in found:
                raise SetupError(("bundles", name, value, other), f'"{other}" has a value already: give it in one place')
            found[other] = own
    return found


def _raw(study: Study, experiment: Experiment) -> dict[str, Any]:
    """The parts of the set-up as they were written; an experiment's own replaces the study's."""
    return {part: plain(getattr(study, part) if (own := getattr(experiment, part)) is None else own) for part in PARTS}


def plain(value: Any) -> Any:
    """Models as the plain values they were written as; placeholders stay."""
    if isinstance(value, Model):
        # Only what was set: a validator may ask whether a field was given.
        tree = {name: plain(getattr(value, name)) for name in type(value).model_fields if name in value.model_fields_set}
        if "kind" in type(value).model_fields:
            tree["kind"] = getattr(value, "kind")  # noqa: B009  # Only these models have it.
        tree |= value.model_extra or {}
        return tree
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


# Of mistakes in one study; looking at each takes as long as there are others.
_MOST_LOOKED_AT = 200


def problems(error: ValidationError, tree: Any, root: type[Model]) -> list[tuple[Where, str]]:
    """The mistakes that pydantic found in a value of the type `root`, as fields of the tree with a sentence each.

    Of one place the first is told: the others say why its other forms do not fit either.
    """
    found: list[tuple[Where, str]] = []
    every = error.errors(include_url=False)[:_MOST_LOOKED_AT]
    for number in range(len(every)):
        for where, sentence in _told(every[number:], tree, root):
            # A field that is missing has no place of its own in the tree.
            apart = not any(where[: len(known)] == known or known[: len(where)] == where for known, _ in found)
            if apart or (every[number]["type"] == "missing" and (where, sentence) not in found and _another(every, number)):
                found.append((where, sentence))
    return found


def _another(every: Sequence[Any], number: int) -> bool:
    """Whether this field is missing of a model of which other fields are missing too, and nothing else is wrong there."""
    inside = every[number]["loc"][:-1]
    return all(other["type"] == "missing" for other in every if other["loc"][: len(inside)] == inside)


def _told(every: Sequence[Any], tree: Any, root: type[Model]) -> list[tuple[Where, str]]:
    """The first of these mistakes; several where checks of Polypath found them."""
    problem, *others = every
    if problem["type"] == "missing":
        # A field that was misspelled is missing, too; what stands there says more.
        spare = [other for other in others if other["type"] == "extra_forbidden" and other["loc"][:-1] == problem["loc"][:-1]]
        if spare and (near := difflib.get_close_matches(str(problem["loc"][-1]), [str(other["loc"][-1]) for other in spare], n=1)):
            meant = problem["loc"][-1]
            problem = next(other for other in spare if str(other["loc"][-1]) == near[0])
            return [(_place(problem["loc"], tree), f"there is no field `{near[0]}` here; did you mean `{meant}`?")]
    inner = problem.get("ctx", {}).get("error")
    if isinstance(inner, SetupError):
        return [(each.where, each.sentence) for each in (inner, *inner.others)]
    where = _place(problem["loc"], tree)
    last = problem["loc"][-1] if problem["loc"] else ""
    match problem["type"]:
        case "missing" if isinstance(last, int):
            sentence = f"one value is missing: {last + 1} are expected"
        case "missing" if len(problem["loc"]) == 1 and last in PARTS and isinstance(tree, Mapping) and tree.get("experiments"):
            sentence = f"the field `{last}` is missing: experiments may replace it, but it has to stand here once"
        case "missing":
            sentence = f"the field `{last}` is missing"
        case "too_long":
            sentence = f"too many values: at most {problem['ctx']['max_length']} expected"
        case "too_short":
            sentence = f"too few values: at least {problem['ctx']['min_length']} expected"
        case "string_type" if isinstance(problem["input"], list | tuple) and any(other["type"].startswith("int_") for other in others):
            sentence = f"{problem['input']!r} stands where one value or a list of whole numbers is expected; sizes are bytes without a unit"
        case "string_type" | "int_type" | "float_type" | "bool_type" | "literal_error" if _several(problem["input"]):
            sentence = f"{problem['input']!r} stands where {'a text' if problem['type'] == 'string_type' else 'one value'} is expected; "
            sentence += several_values(str(last), problem["input"])
        case "string_type":
            sentence = f"{problem['input']!r} stands where a text is expected; put it in quotes if it is one"
        case "extra_forbidden":
            sentence = no_such_field(root, problem["loc"])
        case "value_error":
            sentence = str(inner)
        case "literal_error":
            sentence = f"{problem['input']!r} is not allowed here; allowed are {problem['ctx']['expected'].replace(' or ', ', ')}"
        case "union_tag_invalid":
            ctx = problem["ctx"]
            kinds = [kind for kind in ctx["expected_tags"].replace("'", "").split(", ") if kind != UNDECIDED]
            sentence = f'there is no kind "{ctx["tag"]}"; there are {", ".join(kinds)}'
        case "union_tag_not_found" if isinstance(problem["input"], str):
            sentence = f'"{problem["input"]}" is a kind, which has fields: write it as `{{kind: {problem["input"]}}}`, with them'
        case "union_tag_not_found":
            sentence = "the field `kind` is missing"
        case "model_type" | "model_attributes_type" | "mapping_type" | "dict_type":
            sentence = f"{problem['input']!r} stands where fields with names are expected"
        case "greater_than_equal":
            sentence = f"{problem['input']} is too small; the least is {problem['ctx']['ge']}"
        case "less_than_equal":
            sentence = f"{problem['input']} is too large; the most is {problem['ctx']['le']}"
        case "tuple_type" | "list_type":
            sentence = f"{problem['input']!r} stands where a list is expected"
        case _:
            message = problem["msg"]
            sentence = f"{problem['input']!r}: {message[:1].lower()}{message[1:]}"
    return [(where, sentence)]


def _several(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, Scalar) for each in value)


def _place(way: Iterable[str | int], tree: Any) -> Where:
    """Pydantic's way holds names of union members that are no fields: what the tree knows of it."""
    where: list[str | int] = []
    at: Any = tree
    for part in way:
        if isinstance(at, str):
            continue
        try:
            at = at[part]
        except (KeyError, IndexError, TypeError):
            continue
        where.append(part)
    return tuple(where)


def _first_use(tree: Any, parameter: str, where: Where = ()) -> Where:
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        if parameter in names_in(item):
            return _first_use(item, parameter, (*where, key))
    return where


def _every_parameter_is_used(study: Study) -> None:
    """A matrix over a parameter that stands nowhere would run the same thing several times and call it a result."""
    anywhere: set[str] = set()
    for name, experiment in study.all_experiments.items():
        used = set(names_in(_raw(study, experiment)))
        anywhere |= used
        for parameter in experiment.matrix:
            if parameter not in used and not any((used | {SEED}) & set(brought) for brought in study.bundles.get(parameter, {}).values()):
                where = ("experiments", name, "matrix", parameter) if study.experiments else ("matrix", parameter)
                sentence = f'the matrix varies "{parameter}", but "${{{parameter}}}" stands nowhere in the set-up'
                raise SetupError(where, sentence)
    for parameter in study.draw.parameters if study.draw else ():
        if parameter not in anywhere:
            sentence = f'"{parameter}" is drawn, but "${{{parameter}}}" stands nowhere in the set-up'
            raise SetupError(("draw", "parameters", parameter), sentence)


def _check_link(cell: Cell, name: str) -> None:
    topology = cell.setup.topology
    link = topology.links[name]
    for index, end in enumerate(link.ends):
        if end.node not in topology.nodes:
            where = ("topology", "links", name, "ends", index)
            raise cell.error(where, f"the link leads to nowhere: {unknown('node', end.node, topology.nodes)}")
    if link.ends[0].node == link.ends[1].node:
        raise cell.error(("topology", "links", name, "ends"), f'both ends are at "{link.ends[0].node}"; a link joins two nodes')
    if link.both is None and link.forward is None and link.backward is None:
        raise cell.error(("topology", "links", name), "the link has neither rate nor delay; give `both:` or `forward:` and `backward:`")
    for side in ("both", "forward", "backward"):
        direction = getattr(link, side)
        for index, element in enumerate(() if direction is None else chain(direction)):
            _check_element(cell, ("topology", "links", name, side), index, element)


def _check_tunnels(cell: Cell) -> None:
    topology = cell.setup.topology
    for name, tunnel in topology.tunnels.items():
        where: Where = ("topology", "tunnels", name)
        if name in topology.links:
            raise cell.error(where, f'a link is called "{name}", too: give the tunnel another name')
        for index, end in enumerate(tunnel.ends):
            if end.node not in topology.nodes:
                raise cell.error((*where, "ends", index), f"the tunnel leads to nowhere: {unknown('node', end.node, topology.nodes)}")
        if tunnel.ends[0].node == tunnel.ends[1].node:
            raise cell.error((*where, "ends"), f'both ends are at "{tunnel.ends[0].node}"; a tunnel joins two nodes')


def _check_element(cell: Cell, where: Where, index: int, element: Any) -> None:
    times: list[int] = []
    if isinstance(element, Down):
        for start, end in element.spans:
            times += [start, end]
    elif hasattr(element, "changes"):
        times = [change.at for change in element.changes]
    if any(later <= earlier for earlier, later in itertools.pairwise(times)):
        raise cell.error(where, f"the times of the changes of element {index + 1} ({element.kind}) must ascend")
    if isinstance(element, RateLimit) and int(element.limit) == 0:
        raise cell.error(where, "the queue has no room for the packet in transmission; it must hold at least one")


def _check_addresses(cell: Cell) -> None:
    topology, owner = cell.setup.topology, dict[str, Where]()
    for name, pair in addresses(topology).items():
        for index, address in enumerate(pair):
            where: Where = ("topology", "links", name, "ends", index)
            if address in owner:
                raise cell.error(where, f"the address {address} belongs to {dotted(owner[address])} already")
            owner[address] = where
    for name, tunnel in topology.tunnels.items():
        for index, end in enumerate(tunnel.ends):
            where = ("topology", "tunnels", name, "ends", index)
            if end.address in owner:
                raise cell.error(where, f"the address {end.address} belongs to {dotted(owner[end.address])} already")
            owner[end.address] = where
    for name, node in topology.nodes.items():
        for address in node.addresses:
            where = ("topology", "nodes", name, "addresses")
            if address in owner:
                raise cell.error(where, f"the address {address} belongs to {dotted(owner[address])} already")
            owner[address] = where


def _check_flow(cell: Cell, name: str, flow: Flow) -> None:
    setup, where = cell.setup, ("flows", name)
    nodes = setup.topology.nodes
    for role in ("client", "server"):
        node = getattr(flow, role)
        if node not in nodes:
            raise cell.error((*where, role), unknown("node", node, nodes))
        if not node_addresses(setup.topology, node):
            raise cell.error((*where, role), f'"{node}" has no address, since no link ends there')
        address = getattr(flow, f"{role}_address")
        if address is not None:
            _check_owner(cell, (*where, f"{role}_address"), address, node)
    if flow.client == flow.server:
        raise cell.error((*where, "server"), f'client and server are the same node "{flow.client}"')
    if flow.server not in _reached(setup.topology, flow.client):
        raise cell.error((*where, "server"), _no_path(setup.topology, flow.client, flow.server))
    for index, route in enumerate(flow.routes):
        _check_owner(cell, (*where, "routes", index, "source"), route.source, flow.client)
        _check_owner(cell, (*where, "routes", index, "destination"), route.destination, flow.server)
        for position, link in enumerate(route.via):
            if link not in (known := joined(setup.topology)):
                raise cell.error((*where, "routes", index, "via", position), unknown("link", link, known))
    if isinstance(flow.path_manager, Endpoints):
        for index, endpoint in enumerate(flow.path_manager.addresses):
            _check_owner(cell, (*where, "path_manager", "addresses", index, "address"), endpoint.address, flow.client)
    if flow.transport == "mptcp":
        _check_subflows(cell, where, flow)
    if flow.start >= setup.duration:
        raise cell.error((*where, "start"), f"the flow starts at {flow.start}, and the run ends at {setup.duration}")
    _check_app(cell, where, flow)
    span, place = (flow.window, (*where, "window")) if flow.window is not None else (setup.measure.window, ("measure", "window"))
    if span is not None and span[0] >= span[1]:
        raise cell.error(place, f"the window ends at {span[1]}, which is not after its start at {span[0]}")
    if span is not None and span[1] > setup.duration:
        raise cell.error(place, f"the window ends at {span[1]}, and the run at {setup.duration}")


# Most subflows of a connection: Linux has the first and at most eight further ones, the masks of out-of-tree MPTCP 32 bits.
MOST_SUBFLOWS = {"v0": 32, "v1": 9}


def subflows_asked(cell: Cell, flow: Flow) -> tuple[int, Where]:
    """How many subflows a flow's path manager would open, and which of its fields says so."""
    topology = cell.setup.topology
    match flow.path_manager:
        case Ndiffports(subflows=subflows):
            return subflows, ("subflows",)
        case Endpoints(addresses=addresses):
            first = flow.client_address or node_addresses(topology, flow.client)[0]
            return len({first, *(endpoint.address for endpoint in addresses)}), ("addresses",)
        case _:
            # A server's address that belongs to no link is reached over every path, and no other is announced.
            ends = {node: set(node_addresses(topology, node)) - set(topology.nodes[node].addresses) for node in (flow.client, flow.server)}
            theirs = flow.server_address or node_addresses(topology, flow.server)[0]
            return len(ends[flow.client]) * (len(ends[flow.server]) if theirs in ends[flow.server] else 1), ()


def _check_subflows(cell: Cell, where: Where, flow: Flow) -> None:
    most = MOST_SUBFLOWS[flow.profile]
    asked, field = subflows_asked(cell, flow)
    if asked > most:
        stack = "MPTCP of Linux" if flow.profile == "v1" else "out-of-tree MPTCP"
        sentence = f"this asks for {asked} subflows, and {stack} (profile {flow.profile}) has at most {most} in a connection: ask for fewer"
        raise cell.error((*where, "path_manager", *field), sentence)


def _check_app(cell: Cell, where: Where, flow: Flow) -> None:
    app = flow.app
    if isinstance(app, OnOff) and app.on == 0:
        raise cell.error((*where, "app", "on"), "an application that is on for no time sends nothing")
    if isinstance(app, OnOff | Constant | Requests | Bulk) and app.duration == 0:
        raise cell.error((*where, "app", "duration"), "an application that lasts no time sends nothing")
    if isinstance(app, Requests) and (app.request == 0 or app.response == 0):
        raise cell.error((*where, "app"), "requests and responses have at least a byte")
    if flow.transport != "udp":
        if "datagram" in flow.model_fields_set:
            raise cell.error((*where, "datagram"), f"a {flow.transport} flow has no datagrams; take it out, or take `transport: udp`")
        return
    if not isinstance(app, OnOff | Constant) or app.rate is None:
        sentence = "datagrams are sent at a rate: give the flow an `app` of the kind constant, or on_off with a `rate`"
        raise cell.error((*where, "app"), sentence)
    mtus = [
        link.mtu if end.mtu is None else end.mtu
        for link in cell.setup.topology.links.values()
        for end in link.ends
        if end.node == flow.client
    ]
    most = min(map(int, mtus)) - DATAGRAM_HEADERS
    if not LEAST_DATAGRAM <= flow.datagram <= most:
        sentence = f"a datagram has {LEAST_DATAGRAM} bytes (a number and a time) to {most} (what fits the client's links)"
        raise cell.error((*where, "datagram"), sentence)


# Headers of IPv4 and UDP, and what stands in each datagram, bytes.
DATAGRAM_HEADERS = 28
LEAST_DATAGRAM = 16


def _check_captures(cell: Cell) -> None:
    topology = cell.setup.topology
    seen = set()
    for index, capture in enumerate(cell.setup.measure.capture):
        where = ("measure", "capture", index)
        if capture.node not in topology.nodes:
            raise cell.error(where, unknown("node", capture.node, topology.nodes))
        pairs = joined(topology)
        if capture.link is not None and capture.link not in pairs:
            raise cell.error(where, unknown("link", capture.link, pairs))
        for link in capture.links(topology):
            ends = pairs[link]
            if capture.node not in ends:
                raise cell.error(where, f'the link "{link}" does not end at "{capture.node}"; it joins {" and ".join(ends)}')
            if (capture.node, link) in seen:
                raise cell.error(where, f'"{capture.node}:{link}" stands here twice')
            seen.add((capture.node, link))


def _reached(topology: Topology, start: str, *, all_forward: bool = False) -> dict[str, str]:
    """The nodes to which packets from `start` find a path, each with the one before it; only routers pass them on, or every node."""
    before, ahead = {start: start}, deque([start])
    beside: dict[str, list[str]] = {}
    for one, end in joined(topology).values():
        beside.setdefault(one, []).append(end)
        beside.setdefault(end, []).append(one)
    while ahead:
        node = ahead.popleft()
        for other in beside.get(node, ()):
            if other not in before:
                before[other] = node
                if all_forward or topology.nodes[other].router:
                    ahead.append(other)
    return before


def _no_path(topology: Topology, client: str, server: str) -> str:
    """Why no packet gets from one node to another: there are no links, or nodes between them do not forward."""
    sentence = f'no path leads from "{client}" to "{server}"'
    before = _reached(topology, client, all_forward=True)
    if server not in before:
        return f"{sentence}: join them by links over routers"
    between = [before[server]]
    while between[-1] != client:
        between.append(before[between[-1]])
    hosts = [node for node in reversed(between[:-1]) if not topology.nodes[node].router]
    forwards, them = ("forwards", "it") if len(hosts) == 1 else ("forward", "each")
    return f"{sentence}, because {' and '.join(hosts)} between them {forwards} nothing: give {them} `router: true`"


def _check_owner(cell: Cell, where: Where, address: str, node: str) -> None:
    own = node_addresses(cell.setup.topology, node)
    if address not in own:
        raise cell.error(where, f'"{node}" has no address {address}; it has {", ".join(own)}')
