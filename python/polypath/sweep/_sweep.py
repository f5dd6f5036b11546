"""A study's runs on one backend, from the client's side: what is the same wherever they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from polypath.engines import Engine
from polypath.study import Run, StudyError

from ._abstract import Backend, State
from ._chunks import Chunk, custom_of, task_of
from ._finished import Failed, Finished
from ._ledger import Ledger
from ._worker import Described, differs


class Sweep:
    """What a backend needs to carry out a study's runs."""

    def __init__(self, backend: Backend, engine: Engine, ledger: Ledger, tell: Callable[[State], None]) -> None:
        self._handover, self._build_kernels = backend.handover, backend.build_kernels
        self._engine, self._ledger, self._tell = engine, ledger, tell
        # What the first runs ask for; each machine looks again at each run.
        first = list(ledger.runs.values())
        self._custom = {each.name: each for each in custom_of(name for run in first for name in run.custom)}
        self._kernels = sorted({run.kernel for run in first if run.kernel})
        self._versions = {run.kernel or "": run.version for run in first}

    def _check(self, machine: str, described: Described) -> None:
        """Raises `StudyError` where a machine lacks something, or has another version."""
        if described.lacks:
            raise StudyError(f"the machine {machine}: {described.lacks}")
        for kernel, wanted in self._versions.items():
            if described.versions[kernel] != wanted:
                raise StudyError(differs(machine, self._engine.name, described.versions[kernel], wanted))

    def _chunk(self, runs: Sequence[Run]) -> Chunk:
        names = sorted({name for run in runs for name in run.custom})
        self._custom |= {each.name: each for each in custom_of(name for name in names if name not in self._custom)}
        url = None if self._handover is None else self._handover.url
        custom = [self._custom[name] for name in names]
        return Chunk(tasks=[task_of(run) for run in runs], custom=custom, handover=url, build=self._build_kernels)

    def _whole(self, ends: Iterable[Finished | Failed]) -> Iterator[Finished | Failed]:
        """The same ends, where the files of a finished run may lie at the handover."""
        for end in ends:
            if self._handover is None or isinstance(end, Failed) or end.files:
                yield end
            else:
                yield from self._taken([end.key])

    def _taken(self, keys: Iterable[str]) -> Iterator[Finished]:
        """Takes finished runs from the handover."""
        for key in keys:
            assert self._handover is not None, "only a handover has something lying there"
            output = self._handover.take(key)
            self._handover.drop(key)
            yield output
