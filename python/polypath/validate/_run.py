"""Simulates the set-ups of a table on all cores and judges each cell."""

import json
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

from polypath import _native
from polypath.study import unknown
from polypath.validate._ids import Setup
from polypath.validate._judge import Verdict, judge
from polypath.validate._scenario import build
from polypath.validate._table import Cell, TableError, read

# An outcome and the columns of the subflow series (empty unless asked for), or why there is none.
Simulated: TypeAlias = tuple[dict[str, Any], dict[str, Any]] | str
# Takes a scenario as JSON; gives the outcome as JSON, the subflow series and the link series.
# Raises ValueError with a sentence.
Simulator: TypeAlias = Callable[[str], tuple[str, dict[str, Any], dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which cells to look at; an empty tuple means all. `ids` may hold patterns ("d_delay*_reno")."""

    groups: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    def __contains__(self, cell: Cell) -> bool:
        return (
            (not self.groups or cell.group in self.groups)
            and (not self.algorithms or cell.cc in self.algorithms)
            and (not self.ids or any(fnmatchcase(cell.id, pattern) for pattern in self.ids))
        )


def run(
    file: Path,
    *,
    selection: Selection | None = None,
    platform: str | None = None,
    kernel: str | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Verdict]:
    """A verdict for each selected cell of the table, in its order; `kernel` is simulated, by
    default the table's. Raises TableError.
    """
    everything, selection = read(file, platform=platform, kernel=kernel), selection or Selection()
    for noun, asked, available in (
        ("group", selection.groups, {cell.group: None for cell in everything}),
        ("congestion control", selection.algorithms, {cell.cc: None for cell in everything}),
    ):
        for name in asked:
            if name not in available:
                raise TableError(f"{file}: {unknown(noun, name, available)}.")
    cells = [cell for cell in everything if cell in selection]
    results = simulate([setup for cell in cells for setup in cell.setups], workers=workers, progress=progress)
    verdicts = []
    for cell in cells:
        outcomes = []
        why = None
        for setup in cell.setups:
            result = results[scenario_key(setup)]
            if isinstance(result, str):
                why = result
                break
            outcomes.append(result[0])
        verdicts.append(judge(cell, why or outcomes))
    return verdicts


def scenario_key(setup: Setup, *, series: bool = False) -> str:
    return json.dumps(build(setup, series=series))


def _simulator(scenario: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    outcome, series, links, _captures = _native.simulate(scenario)
    return outcome, series, links


def simulate(
    setups: Iterable[Setup],
    *,
    workers: int | None = None,
    series: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
    simulator: Simulator = _simulator,
) -> dict[str, Simulated]:
    """Results by scenario_key; set-ups with the same scenario are run once. The simulator releases
    the interpreter, so threads do.
    """
    wanted = {scenario_key(setup, series=series): setup for setup in setups}
    results: dict[str, Simulated] = {}
    with ThreadPoolExecutor(max_workers=workers or os.cpu_count()) as pool:
        # Long runs first, so that no core idles at the end.
        ordered = sorted(wanted, key=lambda key: -_cost(wanted[key]))
        futures = {pool.submit(_one, key, simulator): key for key in ordered}
        for future in as_completed(futures):
            results[futures[future]] = future.result()
            progress(len(results), len(wanted))
    return results


def _cost(setup: Setup) -> float:
    return setup.duration_s * sum(path.rate for path in setup.paths)


def _one(scenario: str, simulator: Simulator) -> Simulated:
    try:
        outcome, series, _links = simulator(scenario)
    except (KeyboardInterrupt, SystemExit):
        raise
    # A panic of the simulator arrives as a BaseException: a bug in one cell must not hide the
    # others.
    except BaseException as error:
        return " ".join(str(error).split()) or type(error).__name__
    return json.loads(outcome), series
