"""Chunks: the runs that a machine gets at once. Some seconds of work each, the long ones first."""

from __future__ import annotations

import bisect
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from polypath import customcc
from polypath.study import Run

# A chunk's work in seconds: long beside what handing it over costs (some milliseconds), short
# beside a coffee.
CHUNK_S = 2.0
# With many threads a chunk is so much longer for each: one scheduler hands all of them on, one
# after the other; what that takes stands in docs/guide/many-machines.md.
_FOR_EACH_THREAD_S = 0.005
# Of what is left, so that at the end no machine has a long chunk while the others are idle.
_OF_REMAINING = 4
# Weight of a new measurement beside what was known.
_NEW = 0.2
# Runs that are made before the first is handed out, with each chunk, and most that wait: among
# those the heaviest go first.
_AT_FIRST, _AT_ONCE, _WINDOW = 2_000, 200, 20_000
# In bits a second, of a network in which no link has a rate.
_NO_LIMIT = 1e9


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run, as a machine needs it."""

    key: str
    engine: str
    version: str
    # JSON of the scenario.
    scenario: str = field(repr=False)
    label: str
    kernel: str | None = None


@dataclass(frozen=True, kw_only=True)
class CustomSource:
    """A custom congestion control, to be compiled where it runs."""

    name: str
    hash: str
    # Its file and the headers beside it, by name.
    sources: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """What one machine does at once."""

    tasks: Sequence[Task]
    custom: Sequence[CustomSource] = ()
    # Where finished runs are put down, if not handed back: an fsspec URL.
    handover: str | None = None
    # Whether a machine that lacks a kernel builds it.
    build: bool = False


def task_of(run: Run) -> Task:
    """The run as a machine needs it."""
    return Task(
        key=run.key,
        engine=run.engine,
        version=run.version,
        scenario=json.dumps(run.scenario, separators=(",", ":")),
        label=run.label,
        kernel=run.kernel,
    )


def custom_of(names: Iterable[str]) -> list[CustomSource]:
    """The sources of custom algorithms with these names."""
    known = customcc.used()
    return [_custom(known[name]) for name in sorted(set(names) & known.keys())]


def _custom(custom: customcc.Algorithm) -> CustomSource:
    files = [custom.file, *sorted(custom.file.parent.glob("*.h"))]
    return CustomSource(name=custom.name, hash=custom.hash, sources={file.name: file.read_text(encoding="utf-8") for file in files})


def weight(run: Run) -> float:
    """How much work a run may be, beside other runs of its study: simulated time by the bits that
    its links carry in it.
    """
    elements = [element for link in run.scenario["links"] for direction in ("a_to_b", "b_to_a") for element in link[direction]]
    rates = sum(element["bits_per_s"] for element in elements if element["kind"] == "rate")
    return float(run.scenario["duration_ns"]) * float(rates or _NO_LIMIT)


def chunk_seconds(threads: int) -> float:
    """A chunk's work in seconds where one scheduler hands chunks to so many threads."""
    return max(CHUNK_S, _FOR_EACH_THREAD_S * threads)


class Costs:
    """What runs cost, learnt while they finish: seconds for each unit of weight, and seconds a run."""

    def __init__(self) -> None:
        self._per_weight: float | None = None

    def learn(self, weight: float, seconds: float) -> None:
        """A run of this weight took this long."""
        rate = seconds / weight
        self._per_weight = rate if self._per_weight is None else (1 - _NEW) * self._per_weight + _NEW * rate

    def expected(self, weight: float) -> float | None:
        """Seconds for a run of this weight; None before anything was measured."""
        return None if self._per_weight is None else self._per_weight * weight


class Queue:
    """Runs that wait for a machine, the heaviest first; hands them out in chunks. They may be made
    while it does.
    """

    def __init__(self, runs: Iterable[Run], *, threads: int, chunk_s: float = CHUNK_S, first: int = 1) -> None:
        self._coming = iter(runs)
        # Whether all have come.
        self.complete = False
        # Sorted, the next one at the end: the heaviest, and of those of equal weight the first of
        # the study.
        self._waiting: list[tuple[float, int, Run]] = []
        # Those that come back go before all others.
        self._back: list[tuple[float, int, Run]] = []
        # Of runs that have not ended.
        self._weights: dict[str, float] = {}
        self._numbers = itertools.count(0, -1)
        self._left = 0.0
        self._threads = max(threads, 1)
        self._chunk_s = chunk_s
        # Runs in a chunk while nothing is known of their cost.
        self._first = first
        self.costs = Costs()
        self._come(_AT_FIRST)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._back)

    def machines(self, threads: int, chunk_s: float) -> None:
        """Machines came or went: so many runs go on at once now, and this is a chunk's work."""
        self._threads = max(threads, 1)
        self._chunk_s = chunk_s

    def forget(self, key: str) -> None:
        """A run has ended; one that waits here is not handed out any more."""
        self._weights.pop(key, None)

    def back(self, runs: Iterable[Run]) -> None:
        """Runs that must be handed out once more: the next ones."""
        for run in runs:
            self._back.append((self._weights[run.key], 0, run))
            self._left += self._weights[run.key]

    def next(self) -> list[Run]:
        """The next chunk; none when all are handed out."""
        if len(self._waiting) < _WINDOW:
            self._come(_AT_ONCE)
        chunk: list[Run] = []
        seconds = 0.0
        most = self._most_s()
        while self._waiting or self._back or not self.complete:
            if not self._waiting and not self._back:
                # A chunk may have more runs than come at once.
                self._come(_AT_ONCE)
                continue
            of, _, run = (self._back or self._waiting)[-1]
            ended = run.key not in self._weights
            cost = self.costs.expected(of)
            if not ended and chunk and (len(chunk) >= self._first if cost is None else seconds + cost > most):
                break
            (self._back or self._waiting).pop()
            self._left -= of
            if not ended:
                chunk.append(run)
                seconds += cost or 0.0
        return chunk

    def _come(self, number: int) -> None:
        """Lets more runs come. Making one takes as long as some machines need to do a short one, so
        nobody waits for all of them.
        """
        came = list(itertools.islice(self._coming, number))
        self.complete = self.complete or len(came) < number
        for run in came:
            of = self._weights[run.key] = weight(run)
            self._left += of
            bisect.insort(self._waiting, (of, next(self._numbers), run))

    def _most_s(self) -> float:
        left = self.costs.expected(self._left) if self.complete else None
        return self._chunk_s if left is None else min(self._chunk_s, left / (_OF_REMAINING * self._threads))
