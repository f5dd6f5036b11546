"""Where a sweep stops to grow with its machines: the client, Dask's scheduler and its workers as queues, with costs that were measured.

    python tools/sweep_scale.py               # the tables of docs/guide/many-machines.md, from the costs in tools/sweep_costs.json
    python tools/sweep_scale.py costs         # those costs as a table
    python tools/sweep_scale.py runs          # how busy workers are, by how many there are and by how long a run takes
    python tools/sweep_scale.py chunks        # the same by how long a chunk takes
    python tools/sweep_scale.py --measure     # measures the costs anew, on a scheduler and workers of this machine: some minutes

The client of the simulation hands out what the sweep's own `Queue` gives it, and turns to what came back as `_dask.py` does. Client and
scheduler do one thing after the other. A worker has one thread. Nothing fails, all runs take equally long, and the network only delays.
Where one of them is asked for more than twice what it can do, the share is that quotient, and nothing is simulated.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]  # Dask brings it.
import sweep_overhead
from sweep_overhead import LEAN, Idle, cluster, timed

from polypath.results._runner import _carry_out
from polypath.study import Study
from polypath.sweep import DaskPlace, _dask
from polypath.sweep._chunks import Queue, chunk_seconds
from polypath.sweep._dask import DEPTH

COSTS = Path(__file__).with_name("sweep_costs.json")
# A message's way between two machines of one building.
NETWORK_S = 0.0005
# Simulated: as long as it takes until nothing changes any more, of which the end is looked at.
WHOLE_CHUNKS, LOOKED_AT = 8, 0.5
# Who limits is this many times too slow: nothing is simulated.
_FAR = 2.0

# Of a cluster that is watched while it has nothing to do.
_QUIET_S = 20.0

# What the sweep takes a run for whose links have no rate: one nanosecond of them.
_WEIGHT = 1e9

WORKERS = (10, 100, 1_000, 10_000)
RUNS_S = (0.05, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
CHUNKS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Processor milliseconds."""

    # Of the client: a run that is planned, and one that comes back and is kept; a chunk that is sent and comes back.
    plan: float
    keep: float
    client_chunk: float
    # Of the scheduler: a chunk that it hands on and back, and a heartbeat of a worker.
    scheduler_chunk: float
    heartbeat: float
    # Of a worker: a chunk.
    worker_chunk: float


WORDS = {
    "plan": "client: plans a run",
    "keep": "client: keeps a run that came back",
    "client_chunk": "client: sends a chunk and hears of its end",
    "scheduler_chunk": "scheduler: hands a chunk on, and its end back",
    "heartbeat": "scheduler: a worker's heartbeat",
    "worker_chunk": "worker: takes a chunk and gives its runs back",
}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("table", nargs="?", choices=["costs", "runs", "chunks"])
    asked.add_argument("--measure", action="store_true")
    given = asked.parse_args()
    if given.measure:
        COSTS.write_text(json.dumps({name: round(value, 3) for name, value in asdict(measured()).items()}, indent=2) + "\n")
    costs = Costs(**json.loads(COSTS.read_text(encoding="utf-8")))
    tables = {"costs": table_of_costs, "runs": table_of_runs, "chunks": table_of_chunks}
    print("\n\n".join(tables[name](costs) for name in ([given.table] if given.table else tables)))


# --- tables


def table_of_costs(costs: Costs) -> str:
    return _markdown(["what", "processor ms"], [[WORDS[each.name], f"{getattr(costs, each.name):.2f}"] for each in fields(Costs)])


def table_of_runs(costs: Costs) -> str:
    """With the chunks that the sweep makes of itself."""
    heads = ["workers", "a chunk", *(f"runs of {_seconds(run_s)}" for run_s in RUNS_S)]
    chunks = {n: chunk_seconds(n) for n in WORKERS}
    body = [[f"{n:,}", _seconds(chunk), *(f"{_busy(costs, n, run_s, chunk):.0%}" for run_s in RUNS_S)] for n, chunk in chunks.items()]
    return _markdown(heads, body)


def table_of_chunks(costs: Costs) -> str:
    """With runs that are so cheap for the client that only chunks count."""
    free = Costs(**{**asdict(costs), "plan": 0.0, "keep": 0.0})
    heads = ["workers", *(f"chunks of {_seconds(length)}" for length in CHUNKS_S)]
    return _markdown(heads, [[f"{n:,}", *(f"{_busy(free, n, length, length):.0%}" for length in CHUNKS_S)] for n in WORKERS[1:]])


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:g} s"


def _markdown(heads: list[str], body: list[list[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{' ---: |' * len(heads)}", *(f"| {' | '.join(row)} |" for row in body)]
    return "\n".join(lines)


# --- the simulation


def _busy(costs: Costs, workers: int, run_s: float, chunk: float) -> float:
    """The share of time in which a worker works on a run, when all goes its even way."""
    runs = max(int(chunk / run_s), 1)
    each = [(costs.client_chunk + runs * (costs.plan + costs.keep)) / 1000, _scheduler_s(costs, workers)]
    # How much of the client's time, and of the scheduler's, all workers would take if none of them ever waited.
    asked = max(each) * workers / (runs * run_s + costs.worker_chunk / 1000)
    if asked > _FAR:
        # The queue before the one who limits grows for hours, and the share is what is left to whoever waits.
        return 1 / asked
    until = DEPTH * workers * sum(each) + WHOLE_CHUNKS * max(chunk, run_s)
    return simulated(costs, workers=workers, run_s=run_s, chunk=chunk, until=until)


def _scheduler_s(costs: Costs, workers: int) -> float:
    """Of the scheduler's time for a chunk. Heartbeats are its work too: what they leave of its time goes to chunks."""
    beats = workers / heartbeat_interval(workers) * costs.heartbeat / 1000
    return costs.scheduler_chunk / 1000 / max(1 - beats, 1e-3)


def simulated(costs: Costs, *, workers: int, run_s: float, chunk: float, until: float) -> float:
    """The share of the workers' time that goes into runs, in the last part of `until` seconds."""
    client = _Client(costs, workers=workers, run_s=run_s, chunk=chunk, until=until)
    scheduler_s = _scheduler_s(costs, workers)
    scheduler_free = 0.0
    # Workers with the least to do come first; the chunks of each, one after the other.
    load = [(0, number) for number in range(workers)]
    free = [0.0] * workers
    given = [0] * workers
    looked = (1 - LOOKED_AT) * until
    busy = 0.0
    order = itertools.count()
    # What happens, in the order of time: a chunk arrives at the scheduler to go out, or ends at a worker, or its end reaches the client.
    happens: list[tuple[float, int, str, int, int]] = []

    def served(at: float) -> float:
        nonlocal scheduler_free
        # Half of a chunk's work is at its way out, half at its way back.
        scheduler_free = max(scheduler_free, at) + scheduler_s / 2
        return scheduler_free + NETWORK_S

    def sent(chunks: Iterator[tuple[float, int]]) -> None:
        for at, runs in chunks:
            heapq.heappush(happens, (at + NETWORK_S, next(order), "out", runs, 0))

    sent(client.hand_out(0.0))
    while happens:
        now, _, what, runs, number = heapq.heappop(happens)
        if now > until:
            break
        if what == "out":
            arrives = served(now)
            # Entries of workers whose load has changed since are old.
            while given[load[0][1]] != load[0][0]:
                heapq.heappop(load)
            number = load[0][1]
            given[number] += 1
            heapq.heapreplace(load, (given[number], number))
            begins = max(arrives, free[number]) + costs.worker_chunk / 1000
            free[number] = begins + runs * run_s
            busy += max(0.0, min(free[number], until) - max(begins, looked)) if free[number] > looked else 0.0
            heapq.heappush(happens, (free[number] + NETWORK_S, next(order), "back", runs, number))
        elif what == "back":
            at = served(now)
            given[number] -= 1
            heapq.heappush(load, (given[number], number))
            heapq.heappush(happens, (at, next(order), "end", runs, number))
        else:
            sent(client.taken(now, runs))
    return busy / (workers * LOOKED_AT * until)


class _Client:
    """Hands out, hears of ends one after the other, and never does two things at once."""

    def __init__(self, costs: Costs, *, workers: int, run_s: float, chunk: float, until: float) -> None:
        self._costs, self._run_s, self._most, self._until = costs, run_s, DEPTH * workers, until
        self._planned = 0
        self._queue = Queue(self._coming(), threads=workers, chunk_s=chunk)
        # As after the first runs of a study.
        self._queue.costs.learn(_WEIGHT, run_s)
        self._free = 0.0
        self._out = 0

    def _coming(self) -> Iterator[Any]:
        scenario = {"duration_ns": 1, "links": []}
        for number in itertools.count():
            self._planned += 1
            yield SimpleNamespace(key=str(number), scenario=scenario)

    def hand_out(self, now: float) -> Iterator[tuple[float, int]]:
        """When which chunk leaves, and how many runs it has."""
        self._free = max(self._free, now)
        while self._out < self._most and self._free < self._until:
            runs = self._queue.next()
            self._free += (self._planned * self._costs.plan + self._costs.client_chunk / 2) / 1000
            self._planned = 0
            self._out += 1
            for run in runs:
                self._queue.forget(run.key)
            yield self._free, len(runs)

    def taken(self, now: float, runs: int) -> Iterator[tuple[float, int]]:
        """Takes what a chunk gave, and hands out."""
        self._out -= 1
        self._free = max(self._free, now) + (self._costs.client_chunk / 2 + runs * self._costs.keep) / 1000
        self._queue.costs.learn(_WEIGHT, self._run_s)
        return self.hand_out(self._free)


def heartbeat_interval(workers: int) -> float:
    """Seconds between a worker's heartbeats, as Dask's scheduler wants them."""
    from distributed.scheduler import heartbeat_interval as of

    return float(of(workers))


# --- measured costs


def measured(runs: int = 1_500, repetitions: int = 3) -> Costs:
    """The least of some repetitions: what others do on this machine makes all of it dearer."""
    found = [_measured_once(runs) for _ in range(repetitions)]
    return Costs(**{each.name: min(getattr(one, each.name) for one in found) for each in fields(Costs)})


def _measured_once(runs: int) -> Costs:
    study = sweep_overhead._study(runs, Idle())
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        begun = time.process_time()
        number = len(sweep_overhead._planned(study, Idle.name, folder / "plan").pending)
        plan = 1000 * (time.process_time() - begun) / number
        address, processes = stack.enter_context(cluster(folder / "cluster", 2, None, LEAN))
        # In chunks that are as long, or as short, as they may be.
        few, many = (_swept(study, folder / f"{length:g}", address, processes, length) for length in (1e9, 0.0))
        chunk = {who: (many[who] - few[who]) / (many["chunks"] - few["chunks"]) for who in ("client", "scheduler", "workers")}
        keep = (few["client"] - few["chunks"] * chunk["client"]) / number - plan
        alone, five = (_idle_ms_a_second(folder / f"of{workers}", workers) for workers in (1, 5))
    beats = 5 / heartbeat_interval(5) - 1 / heartbeat_interval(1)
    return Costs(
        plan=plan,
        keep=keep,
        client_chunk=chunk["client"],
        scheduler_chunk=chunk["scheduler"],
        heartbeat=max(five - alone, 0.0) / beats,
        worker_chunk=chunk["workers"],
    )


def _swept(study: Study, folder: Path, address: str, processes: Sequence[psutil.Process], length: float) -> dict[str, float]:
    """Processor milliseconds of each, and how many chunks there were."""
    chunks = 0

    def counted(threads: int) -> float:
        return length

    place = DaskPlace(address, chunk_s=counted)
    work = sweep_overhead._planned(study, Idle.name, folder)
    sent = _dask._Sweep._send

    def counting(self: Any, *arguments: Any, **more: Any) -> None:
        nonlocal chunks
        chunks += 1
        sent(self, *arguments, **more)

    _dask._Sweep._send = counting  # type: ignore[method-assign]
    try:
        _, all_of_them, client, scheduler = timed(lambda: _carry_out(work, None, place, None, lambda state: None), processes)
    finally:
        _dask._Sweep._send = sent  # type: ignore[method-assign]
    workers = all_of_them - client - scheduler
    return {"client": 1000 * client, "scheduler": 1000 * scheduler, "workers": 1000 * workers, "chunks": chunks}


def _idle_ms_a_second(folder: Path, workers: int) -> float:
    """Of a scheduler that has nothing to do."""
    with cluster(folder, workers, None, LEAN) as (_, processes):
        # Who was here to wait for workers, goes.
        time.sleep(_QUIET_S / 4)
        before = processes[0].cpu_times()
        time.sleep(_QUIET_S)
        after = processes[0].cpu_times()
    return 1000 * float(after.user + after.system - before.user - before.system) / _QUIET_S


if __name__ == "__main__":
    main()
