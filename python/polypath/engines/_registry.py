"""Which engines there are, and whether a study names only what an engine has."""

from __future__ import annotations

from collections.abc import Iterable

from polypath.study import Cell, SetupError, Study, StudyError, cells, located, unknown

from ._base import Engine
from ._host import HostEngine
from ._linux import LinuxEngine
from ._sim import SimEngine

ENGINES: dict[str, type[Engine]] = {each.name: each for each in (SimEngine, LinuxEngine, HostEngine)}


def find(name: str) -> Engine:
    """The engine of this name."""
    if name not in ENGINES:
        raise StudyError(unknown("engine", name, ENGINES))
    return ENGINES[name]()


def check(engine: Engine, study: Study, kernel: str | None = None, chosen: Iterable[Cell] | None = None) -> list[str]:
    """Raises `StudyError` if a cell asks for what the engine does not have; returns a line for each kind of cells that is left out.

    `kernel` stands in for the study's own, `chosen` for all cells.
    """
    try:
        return _check(engine, study, kernel, list(cells(study) if chosen is None else chosen))
    except SetupError as error:
        raise located(study, error) from None


def _check(engine: Engine, study: Study, kernel: str | None, chosen: list[Cell]) -> list[str]:
    left_out: dict[tuple[str, str], int] = {}
    for cell in chosen:
        reason = engine.left_out(cell, kernel)
        if reason is None:
            engine.check(cell, kernel)
            continue
        kind = (engine.platform(cell, kernel), reason)
        left_out[kind] = left_out.get(kind, 0) + 1
    lines = [f"left out on {on}: {n} {'cell' if n == 1 else 'cells'} with {reason}" for (on, reason), n in left_out.items()]
    if chosen and sum(left_out.values()) == len(chosen):
        raise StudyError(f"nothing of {study.name} can run here: {'; '.join(lines)}")
    if study.baselines is not None:
        engine.check_baseline(study.baselines.cc)
    return lines
