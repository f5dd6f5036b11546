"""The finalists in networks that the search has not seen, and beside neighbours: an ordinary study,
kept so that anybody can repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polypath.results import Store, execute, plan
from polypath.study import Run, Study

from ._harm import Goodputs, Harm, goodputs, harm
from ._score import Figures, means
from ._settings import Setting
from ._study import ALONE, BESIDE, COMPARED, NETWORK, SETTING, Question, compared, experiment, study, with_neighbours
from ._uses import figures as figures_of

RESULTS = "results"


@dataclass(frozen=True, kw_only=True)
class Final:
    figures: Mapping[str, Sequence[Figures]]
    """By setting, those of each network in order."""
    harm: Mapping[str, Harm]
    """By setting."""
    beside: Mapping[str, Figures]
    """By setting, means beside a TCP connection of somebody else on each path."""
    yardstick: Sequence[float]
    """The harm that one TCP connection of the host, cubic and over that path alone, does on each
    path.
    """
    runs: int


def yardsticks(question: Question) -> list[Setting]:
    return [Setting(paths=path.name, cc="cubic") for path in question.paths]


def final_study(
    question: Question,
    settings: Sequence[Setting],
    networks: Sequence[int],
    neighbours: int,
    words: Mapping[str, str],
    more: Sequence[Setting] = (),
) -> Study:
    """The study of the finalists, with its title and question in words; `more` run beside neighbours
    alone.
    """
    everyone = list(dict.fromkeys([*settings, *more, *yardsticks(question)]))
    beside = with_neighbours(question, everyone, networks[:neighbours])
    experiments = {**compared(question, settings, networks), **beside}
    return study(question, everyone, networks, {**words, "matrix": {}, "experiments": experiments})


def run_final(
    question: Question,
    settings: Sequence[Setting],
    networks: Sequence[int],
    final: Study,
    folder: Path,
    *,
    more: Sequence[Setting] = (),
    workers: int | None = None,
    progress: Callable[[Run], None] | None = None,
) -> Final:
    """Runs it on the simulator; what was run before is kept."""
    work = plan(final, out=folder / RESULTS)
    execute(work, workers=workers, progress=progress)
    run_outcomes = outcomes(work.runs, Store(work.folder / "runs"))
    some = [network for network in networks if (experiment(BESIDE, settings[0]), settings[0].name, f"n{network}") in run_outcomes]
    alone = [goodputs(outcome) for (name, _, _), outcome in run_outcomes.items() if name == ALONE]

    def beside(setting: Setting) -> list[Goodputs]:
        wanted = (experiment(BESIDE, setting), setting.name)
        return [goodputs(outcome) for (name, experiment, _), outcome in run_outcomes.items() if (name, experiment) == wanted]

    return Final(
        figures={setting.name: figures(question, run_outcomes, setting, networks) for setting in settings},
        harm={setting.name: harm(beside(setting), alone) for setting in settings},
        beside={setting.name: means(figures(question, run_outcomes, setting, some, BESIDE)) for setting in (*settings, *more)},
        yardstick=[harm(beside(setting), alone).by_path[index] for index, setting in enumerate(yardsticks(question))],
        runs=work.distinct,
    )


Outcomes = Mapping[tuple[str, str, str], Mapping[str, Any]]
"""By experiment, setting and network."""


def outcomes(done: Sequence[Run], store: Store) -> Outcomes:
    return {(run.experiment, str(run.parameters[SETTING]), str(run.parameters[NETWORK])): store.record(run.key)["outcome"] for run in done}


def figures(question: Question, run_outcomes: Outcomes, setting: Setting, networks: Sequence[int], within: str = COMPARED) -> list[Figures]:
    return [
        figures_of(question.weights, run_outcomes[experiment(within, setting), setting.name, f"n{network}"], question.seconds[1])
        for network in networks
    ]
