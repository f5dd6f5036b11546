"""Runs settings in networks on the simulator and keeps their figures."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from polypath.engines import find
from polypath.study import Run, runs

from ._score import Figures, score
from ._settings import Setting
from ._study import NETWORK, SETTING, Question, study
from ._uses import figures

# Cells of one study, which are built before they run: few enough that progress can be told.
_AT_ONCE = 64


def _parts(settings: Sequence[Setting]) -> Iterator[Sequence[Setting]]:
    for tunnel in (False, True):
        part = [setting for setting in settings if (setting.tunnel is not None) is tunnel]
        yield from (part[start : start + _AT_ONCE] for start in range(0, len(part), _AT_ONCE))


class Trials:
    """The figures of every pair of setting and network that was asked for; none is run twice."""

    def __init__(
        self,
        question: Question,
        *,
        workers: int | None = None,
        progress: Callable[[int], None] = lambda runs: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.question = question
        self.runs = 0
        self.ends = math.inf
        """On the clock, after which no further network is begun."""
        self._clock = clock
        self._engine = find("sim")
        self._workers = workers or os.cpu_count() or 1
        self._progress = progress
        self._figures: dict[tuple[str, int], Figures] = {}

    def run(self, settings: Sequence[Setting], networks: range) -> range:
        """Runs what of these is missing, and says in which networks all ran: in the first one, and
        in those begun before the end.
        """
        missing = {network: [setting for setting in settings if (setting.name, network) not in self._figures] for network in networks}
        with ThreadPoolExecutor(max_workers=self._workers, thread_name_prefix="advise") as pool:
            for network, lacking in missing.items():
                if lacking and network > networks.start and self._clock() > self.ends:
                    return range(networks.start, network)
                for part in _parts(lacking):
                    some = study(self.question, part, [network])
                    trial_runs = list(runs(some, engine="sim", version=self._engine.version))
                    for run, outcome in zip(trial_runs, pool.map(self._one, trial_runs), strict=True):
                        self._figures[str(run.parameters[SETTING]), int(str(run.parameters[NETWORK])[1:])] = outcome
                    self.runs += len(trial_runs)
                    self._progress(len(trial_runs))
        return networks

    def runs_per_s(self, settings: Sequence[Setting]) -> float:
        """How many runs a second this machine does, by these in the first network."""
        begin, before = self._clock(), self.runs
        self.run(settings, range(1, 2))
        return (self.runs - before) / max(self._clock() - begin, 1e-9)

    def scores(self, setting: Setting, networks: Sequence[int]) -> list[float]:
        """The setting's scores in these networks, all of which were run."""
        return [score(self._figures[setting.name, network], self.question.weights) for network in networks]

    def networks(self, setting: Setting) -> list[int]:
        """Those in which it ran."""
        return sorted(network for name, network in self._figures if name == setting.name)

    def figures(self, setting: Setting, networks: Sequence[int]) -> Iterator[Figures]:
        for network in networks:
            yield self._figures[setting.name, network]

    def _one(self, run: Run) -> Figures:
        outcome = self._engine.run(run.scenario).outcome
        return figures(self.question.weights, outcome, self.question.seconds[1])
