"""What a client keeps of a sweep: runs that have not ended, and how often each was tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from polypath.study import Run

from ._chunks import CHUNK_S, Queue
from ._finished import Failed, Fault, Finished
from ._handover import Handover

# Machines that may fail at a run before it counts as failed.
TRIES = 3


class Ledger:
    """The runs of a sweep, from waiting to ended. Each ends once, however many machines did it."""

    def __init__(
        self, runs: Iterable[Run], *, handover: Handover | None, threads: int = 1, chunk_s: float = CHUNK_S, first: int = 1
    ) -> None:
        self.handover = handover
        # Those that have come and not ended, by key.
        self.runs: dict[str, Run] = {}
        # Finished while no client was there to take them: all keys, and those of runs that have come.
        self._there = set() if handover is None else handover.keys()
        self._lying: list[str] = []
        self._tries: dict[str, int] = {}
        self.queue = Queue(self._coming(runs), threads=threads, chunk_s=chunk_s, first=first)

    def __bool__(self) -> bool:
        """Whether any run has not ended."""
        return bool(self.runs) or not self.queue.complete

    def _coming(self, runs: Iterable[Run]) -> Iterator[Run]:
        for run in runs:
            self.runs[run.key] = run
            if run.key in self._there:
                self._lying.append(run.key)
            else:
                yield run

    def lying(self) -> Iterator[Finished]:
        """Takes what other clients left at the handover."""
        keys, self._lying = self._lying, []
        yield from self.taken(keys)

    def open(self, runs: Iterable[Run]) -> list[Run]:
        """Those of the runs that have not ended."""
        return [run for run in runs if run.key in self.runs]

    def open_keys(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if key in self.runs]

    def taken(self, keys: Iterable[str]) -> Iterator[Finished]:
        """Takes what lies at the handover, and ends these runs."""
        for key in self.open_keys(keys):
            assert self.handover is not None, "only a handover has something lying there"
            found = self.handover.take(key)
            self.handover.drop(key)
            self._end(key)
            yield found

    def ended(self, end: Finished | Failed) -> Finished | Failed | None:
        """The run has ended so; None where that does not count: another machine was first, or one more is to try it."""
        if end.key not in self.runs:
            return None
        if isinstance(end, Finished):
            self.queue.costs.learn(self.queue.weight(end.key), end.seconds)
            if self.handover is not None and not end.files:
                return next(self.taken([end.key]))
        elif end.fault is Fault.MACHINE and (run := self.another_try(end.key)):
            self.queue.back([run])
            return None
        self._end(end.key)
        return end

    def another_try(self, key: str) -> Run | None:
        """The run, if it is to be tried once more; None if it has ended or was tried often enough."""
        if self._tries.get(key, 1) >= TRIES or key not in self.runs:
            return None
        self._tries[key] = self._tries.get(key, 1) + 1
        return self.runs[key]

    def _end(self, key: str) -> None:
        del self.runs[key]
        self.queue.forget(key)
