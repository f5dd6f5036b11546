"""Which parameter and value the others are compared with, and whether the runs have pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polypath.study import Scalar, Study, StudyError, parameter_names, unknown

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENT = "experiment"


def against(
    study: Study, runs: pd.DataFrame, scenarios: Mapping[str, Any], parameter: str, value: Scalar, metric: str | None = None
) -> pd.DataFrame:
    """What `analysis.against` finds in the runs of a study. Raises `StudyError` where nothing can be
    paired.
    """
    from polypath.analysis import against as compared
    from polypath.analysis import with_applications

    text = check_against(study, parameter, value)
    axes = [name for name in _axes(study) if name not in study.repeated]
    if parameter not in runs or (metric is not None and metric not in runs):
        raise StudyError(f'the runs of {study.name} have no column "{metric or parameter}"; `polypath list columns` has all of them')
    rows = runs[runs[parameter].notna()]
    there = list(dict.fromkeys(map(str, rows[parameter])))
    if text not in there:
        only = f"; there are runs with {parameter}={', '.join(there)}" if there else ""
        raise StudyError(f"no finished run of {study.name} has {parameter}={text}{only}: run it without --only, or with that value, too")
    if len(there) < 2:
        raise StudyError(f"every finished run of {study.name} has {parameter}={text}, so there is nothing to compare with it")
    table = compared(
        with_applications(rows, scenarios),
        parameter,
        text,
        axes=[name for name in axes if name in rows],
        repetitions=["seed", *(name for name in study.repeated if name in rows)],
        metric=metric,
    )
    if table.empty:
        raise StudyError(
            f"no run of {study.name} with {parameter}={text} has a pair: a pair has the same seed and the same values of "
            f"{', '.join(name for name in axes if name != parameter) or 'every other parameter'}, and another {parameter}"
        )
    return table


def check_against(study: Study, parameter: str, value: Scalar) -> str:
    """The value as text, if the study has it; raises `StudyError` otherwise."""
    text = str(value)
    named = {EXPERIMENT: list(study.experiments)} if len(study.experiments) > 1 else {}
    for experiment in study.all_experiments.values():
        for name, values in experiment.matrix.items():
            named.setdefault(name, [])
            named[name] += [str(each) for each in values if str(each) not in named[name]]
    if parameter not in named:
        if study.draw is not None and parameter in study.draw.names:
            raise StudyError(f'"{parameter}" of {study.name} is drawn: a draw has one value of it, so no run has a pair')
        if parameter in parameter_names(study):
            raise StudyError(f'the parameter "{parameter}" is in no matrix of {study.name}, so no run has a pair; {_there(named)}')
        raise StudyError(unknown(f"parameter of a matrix of {study.name}", parameter, named))
    if text not in named[parameter]:
        raise StudyError(unknown(f"{parameter} in {study.name}", text, named[parameter]))
    if len(named[parameter]) < 2:
        raise StudyError(f"{study.name} has one {parameter}, {text}, so there is nothing to compare with it: add others to its matrix")
    return text


def chosen(text: str) -> tuple[str, str]:
    """The parameter and the value that `--against` names."""
    parameter, equals, value = (part.strip() for part in text.partition("="))
    if not (parameter and equals and value):
        raise StudyError(f'--against {text} says nothing; write a parameter of the matrix and one of its values, like "cc=lia"')
    return parameter, value


def _axes(study: Study) -> list[str]:
    """The parameters that matrices vary. What bundles bring varies with one of them."""
    names = dict.fromkeys(study.repeat_over)
    for experiment in study.all_experiments.values():
        names |= dict.fromkeys(experiment.matrix)
    return list(names)


def _there(named: Mapping[str, Any]) -> str:
    return f"those are {', '.join(named)}" if named else "it has none"
