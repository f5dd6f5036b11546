"""What a client keeps of a sweep: its runs until they end, the chunks on their way, and the rules
by which a run is tried again.

Nothing here waits, reads a clock or asks a machine. A backend says what came back (`ended`,
`raised`), what was lost (`died`, `back`) and who is there (`take_back`, `repeat`), and asks what
goes out next (`next`):

- a run that fails by its machine's fault goes to another machine, TRIES times in all;
- a machine that fails at FAULTS runs in a row gets none while there are others;
- runs that a machine died of are suspects, and each goes alone: one that a machine dies of then is
  to blame;
- a chunk that is overdue goes to another machine too, and the first to end counts;
- each run ends once, however many machines did it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from polypath.study import Run

from ._chunks import CHUNK_S, Queue, weight
from ._finished import DIED, Failed, Fault, Finished

# Machines that may fail at a run before it counts as failed.
TRIES = 3
# A full disk fails fast, and would get all runs.
FAULTS = 3


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """A chunk to hand out."""

    number: int
    runs: Sequence[Run]
    # The machines that may do it, and those that may not: None and none where all may.
    among: frozenset[str] | None = None
    avoid: frozenset[str] = frozenset()


@dataclass(kw_only=True)
class _Sent:
    """A chunk on its way."""

    runs: Sequence[Run]
    at: float
    # Seconds of work, where that is known.
    expected: float | None
    among: frozenset[str] | None
    # Machines that have the same runs in other chunks, and have had them for too long.
    held_by: frozenset[str]
    # Whether it is a suspect.
    alone: bool
    # Whether it was sent once more since.
    repeated: bool = False


@dataclass(frozen=True, kw_only=True)
class _Again:
    """Runs to hand out once more, before all others."""

    runs: Sequence[Run]
    held_by: frozenset[str] = frozenset()
    alone: bool = False


class Ledger:
    """The runs of a sweep, from waiting to ended.

    `isolated` says whether a machine that dies takes with it only the chunk that it worked on; if
    not, suspects wait until nothing else is on its way. `deaths` is how many machines may die of a
    run that is alone, before it is named.
    """

    def __init__(
        self,
        runs: Iterable[Run],
        *,
        isolated: bool,
        deaths: int,
        there: Iterable[str] = (),
        threads: int = 1,
        chunk_s: float = CHUNK_S,
        first: int = 1,
    ) -> None:
        self._isolated, self._deaths_allowed = isolated, deaths
        # Those that have come and not ended, by key.
        self.runs: dict[str, Run] = {}
        # Keys of runs that were finished before, and of those of them that have come.
        self._there = set(there)
        self._lying: list[str] = []
        self._sent: dict[int, _Sent] = {}
        self._numbers = count()
        self._repeated = 0
        self._again: deque[_Again] = deque()
        # Runs that wait to go alone; and whoever is under suspicion, until it ends.
        self._suspects: dict[str, Run] = {}
        self._suspected: set[str] = set()
        # By run: machines that failed at it, how often one did, and how many died of it when it was
        # alone.
        self._failed_at: defaultdict[str, set[str]] = defaultdict(set)
        self._tries: Counter[str] = Counter()
        self._deaths: Counter[str] = Counter()
        # By machine: runs in a row that failed by its fault.
        self._faults: Counter[str] = Counter()
        self.queue = Queue(self._coming(runs), threads=threads, chunk_s=chunk_s, first=first)

    def __bool__(self) -> bool:
        """Whether any run has not ended."""
        return bool(self.runs) or not self.queue.complete

    @property
    def active(self) -> int:
        """Runs on their way."""
        return sum(len(sent.runs) for sent in self._sent.values())

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._sent

    def lying(self) -> list[str]:
        """Keys of runs that have come and were finished before, each once."""
        keys, self._lying = self._lying, []
        return self.found(keys)

    def found(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys whose runs had not ended; now they have."""
        fresh = [key for key in keys if key in self.runs]
        for key in fresh:
            self._end(key)
        return fresh

    def next(self, now: float, most: int, machines: Callable[[], Collection[str]]) -> Assignment | None:
        """What goes out next, where fewer than `most` chunks are on their way; None if nothing does
        now. `machines` says who is there.
        """
        # A chunk that was repeated is there for the case that its machine wakes up.
        if len(self._sent) - self._repeated >= most:
            return None
        while self._again:
            again = self._again.popleft()
            if runs := self._open(again.runs):
                return self._assigned(now, runs, machines, held_by=again.held_by, alone=again.alone)
        if self._suspects and self._isolated:
            return self._alone(now, machines)
        if runs := self.queue.next():
            return self._assigned(now, runs, machines)
        if self._suspects and not self._sent:
            return self._alone(now, machines)
        return None

    def ended(self, number: int, machine: str, results: Iterable[Finished | Failed]) -> list[Finished | Failed]:
        """What a chunk gave on a machine ("" where that is not known): the ends that count."""
        sent = self._removed(number)
        if sent is None:
            return []
        weights = {run.key: weight(run) for run in sent.runs}
        ends: list[Finished | Failed] = []
        again: defaultdict[frozenset[str], list[Run]] = defaultdict(list)
        for end in results:
            faulty = isinstance(end, Failed) and end.fault is Fault.MACHINE
            if machine:
                self._faults[machine] = self._faults[machine] + 1 if faulty else 0
            if isinstance(end, Finished):
                self.queue.costs.learn(weights[end.key], end.seconds)
            if end.key not in self.runs:
                continue
            if faulty:
                self._tries[end.key] += 1
                if machine:
                    self._failed_at[end.key].add(machine)
                if self._tries[end.key] < TRIES:
                    again[frozenset(self._failed_at[end.key])].append(self.runs[end.key])
                    continue
            self._end(end.key)
            ends.append(end)
        self._again.extend(_Again(runs=trusted) for runs in again.values() if (trusted := self._trusted(runs)))
        return ends

    def raised(self, number: int, sentence: str) -> list[Finished | Failed]:
        """No run of a chunk was begun, and this is why: the fault of an unnamed machine."""
        runs = self._sent[number].runs if number in self._sent else ()
        return self.ended(number, "", [Failed(key=run.key, fault=Fault.MACHINE, sentence=sentence) for run in runs])

    def died(self, number: int, log: str = "") -> list[Failed]:
        """The machine died while it had the chunk. Gives the runs that are to blame for it."""
        sent = self._removed(number)
        if sent is None:
            return []
        runs = self._open(sent.runs)
        alone = sent.alone or (self._isolated and len(runs) == 1)
        ends = []
        for run in runs:
            self._deaths[run.key] += alone
            if self._deaths[run.key] >= self._deaths_allowed:
                self._end(run.key)
                ends.append(Failed(key=run.key, fault=Fault.ENGINE, sentence=f"{DIED} (log: {log})" if log else DIED))
            else:
                self._suspected.add(run.key)
                self._suspects[run.key] = run
        return ends

    def back(self, number: int) -> None:
        """A chunk came back, and nothing is known of its runs."""
        if (sent := self._removed(number)) is not None:
            self.queue.back(reversed(self._trusted(self._open(sent.runs))))

    def all_back(self) -> None:
        """Everything that was on its way is lost, and nothing is known of it."""
        runs = {run.key: run for sent in self._sent.values() for run in self._open(sent.runs)}
        self._sent.clear()
        self._repeated = 0
        self.queue.back(reversed(self._trusted(list(runs.values()))))

    def take_back(self, machines: Collection[str]) -> list[int]:
        """Takes back chunks that would keep the sweep from its end, and names them.

        Those that wait for machines that are gone. And where each run that is on its way has ended
        elsewhere, or waits to go alone, all of them: a machine that hangs never gives them back.
        """
        awaited = {number: [run for run in self._open(sent.runs) if run.key not in self._suspects] for number, sent in self._sent.items()}
        gone = [number for number, sent in self._sent.items() if sent.among is not None and sent.among.isdisjoint(machines)]
        taken = gone if any(awaited.values()) else list(self._sent)
        for number in taken:
            self._removed(number)
            self.queue.back(reversed(self._trusted(awaited[number])))
        return taken

    def overdue(self, now: float, least_s: float, times: float) -> list[int]:
        """Chunks that have been away for so many times their work, and at least so many seconds,
        and were not repeated.
        """
        return [
            number
            for number, sent in self._sent.items()
            if not sent.repeated and now - sent.at >= max(least_s, times * (sent.expected or 0.0))
        ]

    def repeat(self, number: int, holders: Iterable[str], machines: Collection[str]) -> None:
        """Sends an overdue chunk once more, away from who holds it; not where all machines hold its
        runs.
        """
        sent = self._sent[number]
        held_by = sent.held_by.union(holders)
        if not held_by.issuperset(machines) and (runs := self._open(sent.runs)):
            sent.repeated = True
            self._repeated += 1
            self._again.append(_Again(runs=runs, held_by=held_by, alone=sent.alone))

    def _coming(self, runs: Iterable[Run]) -> Iterator[Run]:
        for run in runs:
            self.runs[run.key] = run
            if run.key in self._there:
                self._lying.append(run.key)
            else:
                yield run

    def _open(self, runs: Iterable[Run]) -> list[Run]:
        """Those that have not ended."""
        return [run for run in runs if run.key in self.runs]

    def _alone(self, now: float, machines: Callable[[], Collection[str]]) -> Assignment:
        _, run = self._suspects.popitem()
        return self._assigned(now, [run], machines, alone=True)

    def _assigned(
        self,
        now: float,
        runs: Sequence[Run],
        machines: Callable[[], Collection[str]],
        *,
        held_by: frozenset[str] = frozenset(),
        alone: bool = False,
    ) -> Assignment:
        assert all(run.key in self.runs for run in runs), "what has ended does not go out"
        faulty = {machine for machine, faults in self._faults.items() if faults >= FAULTS}
        avoid = faulty.union(held_by, *(self._failed_at[run.key] for run in runs if run.key in self._failed_at))
        costs = [self.queue.costs.expected(weight(run)) for run in runs]
        expected = None if None in costs else sum(cost for cost in costs if cost is not None)
        number = next(self._numbers)
        # Kept before anybody is asked, who may not answer.
        sent = self._sent[number] = _Sent(runs=runs, at=now, expected=expected, among=None, held_by=held_by, alone=alone)
        # Where there are no others, these.
        sent.among = (frozenset(machines()) - avoid or None) if avoid else None
        return Assignment(number=number, runs=runs, among=sent.among, avoid=frozenset(avoid) if sent.among else frozenset())

    def _trusted(self, runs: Sequence[Run]) -> list[Run]:
        """Those that may go out with others. Suspects among them wait to go alone."""
        self._suspects |= {run.key: run for run in runs if run.key in self._suspected}
        return [run for run in runs if run.key not in self._suspected]

    def _removed(self, number: int) -> _Sent | None:
        """The chunk, which is on its way no more; None if it was taken back before."""
        sent = self._sent.pop(number, None)
        self._repeated -= sent is not None and sent.repeated
        return sent

    def _end(self, key: str) -> None:
        del self.runs[key]
        self.queue.forget(key)
        for kept in (self._suspects, self._failed_at, self._tries, self._deaths):
            kept.pop(key, None)
        self._suspected.discard(key)
