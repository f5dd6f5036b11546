"""Which engines there are, and whether a study names only what an engine has."""

from __future__ import annotations

from polypath.study import SetupError, Study, StudyError, cells, located, unknown

from ._base import Engine
from ._sim import SimEngine

ENGINES: dict[str, type[Engine]] = {SimEngine.name: SimEngine}


def find(name: str) -> Engine:
    """The engine of this name."""
    if name not in ENGINES:
        raise StudyError(unknown("engine", name, ENGINES))
    return ENGINES[name]()


def check(engine: Engine, study: Study) -> None:
    """Raises `StudyError` if the study names an algorithm or a scheduler that the engine does not have."""
    try:
        _check(engine, study)
    except SetupError as error:
        raise located(study, error) from None


def _check(engine: Engine, study: Study) -> None:
    algorithms = [algorithm.name for algorithm in engine.algorithms()]
    schedulers = engine.schedulers()
    if study.baselines is not None and study.baselines.cc not in algorithms:
        raise SetupError(("baselines", "cc"), unknown("congestion control", study.baselines.cc, algorithms))
    for cell in cells(study):
        for name, flow in cell.setup.flows.items():
            if flow.cc not in algorithms:
                raise cell.error(("flows", name, "cc"), unknown("congestion control", flow.cc, algorithms))
            if flow.scheduler is not None and flow.scheduler not in schedulers:
                raise cell.error(("flows", name, "scheduler"), unknown("scheduler", flow.scheduler, schedulers))
