"""Checks a study, so that one that exists can be run: fields and names, then figures, settings
without effect, and what the engines build.

What no engine can use is refused here, whichever is to run it; what one engine has no counterpart
for is that engine's own to refuse.
"""

from __future__ import annotations

import math

from ._buildable import check_cell
from ._cells import MOST_KEPT, parameter_names, raw, specimens
from ._errors import SetupError, Where, unknown
from ._figures import check_figures
from ._idle import check_idle
from ._model import plain
from ._placeholder import first_use, is_placeholder, names_in
from ._question import SEED, Question
from ._setup import check_setup
from ._short import keeps

# With a run of a second each, days of running; more of them is a mistake.
MOST_COMBINATIONS = 100_000
# Nodes, links and flows in all cells that are made when a study is read: a minute of reading it.
MOST_PARTS = 200_000


def check(study: Question, *, network_only: bool = False) -> None:
    """Raises `SetupError` at the first thing that cannot be run; with `network_only`, that cannot
    be built, whatever its flows.
    """
    _check_study(study)
    every = specimens(study)
    if not network_only:
        for cell in every:
            check_figures(cell)
        check_idle(every, whole=not study.shortened)
    for cell in every:
        check_cell(cell, flows=not network_only)


def _check_study(study: Question) -> None:
    """Raises `SetupError` at the first thing that cannot be run."""
    if not study.flows and (without := [name for name, each in study.all_experiments.items() if each.flows is None]):
        instead = f": give the study some, or the experiment `{without[0]}`" if study.experiments else ""
        raise SetupError((), f"the field `flows` is missing{instead}")
    _check_placeholders(study)
    _check_parameter_kernel(study)
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


def _check_parameter_kernel(study: Question) -> None:
    """A parameter may be called `kernel` where it is one: a column of the results is called so."""
    if "kernel" in parameter_names(study) and "kernel" not in names_in(
        [plain(each) for each in (study.topology, *(e.topology for e in study.experiments.values()))]
        + [study.kernel, *(each.kernel for each in study.experiments.values())]
    ):
        raise SetupError(("parameters",), "a parameter `kernel` says which kernel a host is, and no `kernel:` takes it: call it otherwise")


def _check_placeholders(study: Question) -> None:
    said = {name: getattr(study, name) for name in _OF_THE_STUDY}
    said["experiments"] = {name: {"seeds": each.seeds, "exclude": each.exclude} for name, each in study.experiments.items()}
    for name, value in said.items():
        tree = plain(value)
        if (left := next(names_in(tree), None)) is not None:
            sentence = f'"${{{left}}}" stands here, and only topology, flows, duration, measure and kernel hold placeholders'
            raise SetupError(first_use(tree, left, (name,)), sentence)


def _check_matrices(study: Question) -> None:
    drawn = study.draw.parameters if study.draw else {}
    cells = 0
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
        cells += min(combinations, MOST_KEPT)
        for parameter in drawn.keys() & {**study.parameters, **experiment.parameters, **experiment.matrix}.keys():
            sentence = f'"{parameter}" has a value already; a parameter is drawn or given, not both'
            raise SetupError(("draw", "parameters", parameter), sentence)
    network = study.topology
    # What a parameter decides as a whole has no size yet.
    parts = sum(
        len(part) for part in (getattr(network, "nodes", ()), getattr(network, "links", ()), study.flows) if not is_placeholder(part)
    )
    if cells * parts > MOST_PARTS:
        sentence = f"{cells} cells of {parts} nodes, links and flows each are too many; the most is {MOST_PARTS:,} in all"
        raise SetupError(("experiments" if study.experiments else "matrix",), sentence)


def _every_parameter_is_used(study: Question) -> None:
    """A matrix over a parameter that stands nowhere would run the same thing several times and call
    it a result.
    """
    anywhere: set[str] = set()
    for name, experiment in study.all_experiments.items():
        used = set(names_in(raw(study, experiment)))
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
