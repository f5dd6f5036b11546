"""What it costs to hand runs to a Dask scheduler's workers instead of threads of this process: a study both ways, beside each other.

    python tools/sweep_overhead.py --runs 10000             # runs that compute for 50 ms: processor seconds of all processes
    python tools/sweep_overhead.py --work waits             # runs that only wait: on a busy machine the seconds of a clock
    python tools/sweep_overhead.py --delay 20               # as root: each worker in a network namespace of its own, so many ms away

Workers and the scheduler are processes of this machine. Their start is not counted: it is the same for any number of runs. Time goes from
the first run that is handed out to the last one that is kept, without tables.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import psutil  # type: ignore[import-untyped]  # Dask brings it.
import yaml
from pyroute2 import netns

from polypath import emu
from polypath.engines import ENGINES, Engine, FakeEngine, Output, find
from polypath.results import Plan, plan
from polypath.results._runner import _carry_out
from polypath.study import Study, cells
from polypath.sweep import DaskPlace

RUN_S = 0.05
# How near to it a run must come, in so many trials of so many runs.
_NEAR = 0.05
_TRIALS = 10
_OF_TRIAL = 15

STUDY = """
name: overhead
topology:
  nodes: {a: {}, b: {}}
  links:
    one: {ends: [a, b], both: {rate: "${rate}mbit", delay: 5ms, queue: 50packets}}
    two: {ends: [a, b], both: {rate: 20mbit, delay: 15ms, queue: 50packets}}
flows: {m: {client: a, server: b, transport: mptcp, cc: cubic}}
measure: {series: null}
baselines: null
"""


class Waits(FakeEngine):
    """An engine whose runs take their time and no processor."""

    name: ClassVar[str] = "waits"

    def run(self, scenario: Mapping[str, Any]) -> Output:
        time.sleep(RUN_S)
        return super().run(scenario)


class Idle(FakeEngine):
    """An engine whose runs end at once."""

    name: ClassVar[str] = "idle"


# A worker is told to load this file before anything else.
ENGINES[Waits.name] = Waits
ENGINES[Idle.name] = Idle
# As docs/guide/many-machines.md starts scheduler and workers: Dask looks 100 times a second where each worker is, and 50 times how its
# own processes are, for its dashboard.
LEAN = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False", "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms"}
SETTINGS: Mapping[str, Mapping[str, str]] = {"as it is": {}, "as the guide starts it": LEAN}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--runs", type=int, default=10_000)
    asked.add_argument("--workers", type=int, default=2)
    asked.add_argument("--slices", type=int, default=4, help="in so many sweeps, each here and there; connecting is counted in each")
    asked.add_argument("--work", choices=[Waits.name, "sim"], default="sim")
    asked.add_argument("--delay", type=int, help="ms one way between the scheduler and each worker")
    given = asked.parse_args()
    with _network(given.workers, given.delay) if given.delay else nullcontext():
        found = _slices(given)
    heads = ["Dask", "runs", "workers", "ms away", "local s", "Dask s", "more"]
    heads += ["processor ms a run: local", "Dask", "of it client", "scheduler", "more"]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    runs = given.runs // given.slices * given.slices
    here = found.pop("local")
    for name, there in found.items():
        # Of slices the middle one: what else happens on the machine, happens to some of them.
        more = [statistics.median(each[at] / own[at] for each, own in zip(there, here, strict=True)) - 1 for at in (0, 1)]
        spent = [1000 * sum(each[at] for each in there) / runs for at in (1, 2, 3)]
        own = [sum(each[at] for each in here) for at in (0, 1)]
        figures = [f"{own[0]:.1f}", f"{sum(each[0] for each in there):.1f}", f"{more[0]:+.1%}", f"{1000 * own[1] / runs:.1f}"]
        row = [name, runs, given.workers, given.delay or 0, *figures, *(f"{each:.1f}" for each in spent), f"{more[1]:+.1%}"]
        print(f"| {' | '.join(map(str, row))} |")


@contextmanager
def _network(workers: int, delay: int) -> Iterator[None]:
    """The emulator's network: a scheduler, and workers each behind a link; this process goes to the scheduler's node."""
    links = {f"l{n}": {"ends": ["scheduler", f"w{n}"], "both": {"rate": "10gbit", "delay": f"{delay}ms"}} for n in range(workers)}
    nodes: dict[str, Any] = {"scheduler": {}, **{f"w{n}": {} for n in range(workers)}}
    flows = {"unused": {"client": "w0", "server": "scheduler", "transport": "tcp"}}
    study = {"name": "away", "topology": {"nodes": nodes, "links": links}, "flows": flows, "duration": "1s"}
    emu.up("sweep_overhead.py", cells(Study.model_validate(study))[0].setup)
    try:
        netns.pushns(emu.status().lab.namespaces["scheduler"])
        yield
        netns.popns()
    finally:
        emu.down()


# Seconds; processor seconds of all processes, of the client, and of the scheduler.
_Spent = tuple[float, float, float, float]


def _slices(given: argparse.Namespace) -> dict[str, list[_Spent]]:
    """What each slice took, on this machine's threads and on each cluster; all do the same runs."""
    study = _study(given.runs // given.slices, find(given.work))
    found: dict[str, list[_Spent]] = {}
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        clusters = {
            name: stack.enter_context(cluster(folder / name, given.workers, given.delay, environment))
            for name, environment in SETTINGS.items()
        }
        ways = ["local", *clusters]
        for number in range(given.slices):
            for name in ways if number % 2 else reversed(ways):
                work = _planned(study, given.work, folder / f"{name}{number}")
                address, processes = clusters.get(name, ("", []))
                on = DaskPlace(address) if address else None
                spent = timed(lambda work=work, on=on: _carry_out(work, given.workers, on, None, lambda state: None), processes)  # type: ignore[misc]
                found.setdefault(name, []).append(spent)
                shutil.rmtree(work.folder.parent)
            print(f"slice {number + 1} of {given.slices}", file=sys.stderr)
    return {name: found[name] for name in ways}


def _planned(study: Study, engine: str, out: Path) -> Plan:
    return plan(study, engine=engine, out=out)


def _study(runs: int, engine: Engine) -> Study:
    """A study of so many runs, each of which takes the time wanted."""

    def of(milliseconds: int, number: int) -> Study:
        draw = {"number": number, "parameters": {"rate": {"uniform": [19, 21], "digits": 6}}}
        return Study.model_validate({**yaml.safe_load(STUDY), "duration": f"{milliseconds}ms", "draw": draw})

    if isinstance(engine, Waits):
        return of(1000, runs)
    milliseconds = 1000
    # What a run costs is not in proportion to how long it simulates, and the first runs of a process cost more.
    for _ in range(_TRIALS):
        took = _median_s(engine, [run.scenario for run in plan(of(milliseconds, _OF_TRIAL), engine=engine).runs])
        if abs(took / RUN_S - 1) < _NEAR:
            return of(milliseconds, runs)
        milliseconds = max(1, round(milliseconds * RUN_S / took))
    raise SystemExit(f"no length of a run takes {1000 * RUN_S:.0f} ms of processor on this machine: the last one took {1000 * took:.1f} ms")


def _median_s(engine: Engine, scenarios: Sequence[Mapping[str, Any]]) -> float:
    """Processor seconds of a run."""
    took = []
    for scenario in scenarios:
        begun = time.process_time()
        engine.run(scenario)
        took.append(time.process_time() - begun)
    return statistics.median(took)


def timed(work: Callable[[], object], processes: Sequence[psutil.Process]) -> _Spent:
    """Seconds, and processor seconds of this process and of others, the scheduler first."""
    everyone = [psutil.Process(), *processes]
    begun, used = time.monotonic(), [each.cpu_times() for each in everyone]
    work()
    seconds = time.monotonic() - begun
    after = [each.cpu_times() for each in everyone]
    spent = [new.user + new.system - old.user - old.system for old, new in zip(used, after, strict=True)]
    return seconds, sum(spent), spent[0], spent[1] if processes else 0.0


@contextmanager
def cluster(folder: Path, workers: int, delay: int | None, environment: Mapping[str, str]) -> Iterator[tuple[str, list[psutil.Process]]]:
    """A scheduler, and workers of one thread each."""
    folder.mkdir()
    with socket.socket() as free, ExitStack() as stack:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        started: list[subprocess.Popen[bytes]] = []

        def start(program: str, *options: str, inside: Sequence[str] = ()) -> None:
            log = stack.enter_context((folder / f"{program}.log").open("ab"))
            command = [*inside, sys.executable, "-m", f"distributed.cli.dask_{program}", *options]
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={**os.environ, **environment}))
            stack.callback(started[-1].wait)
            stack.callback(started[-1].terminate)

        start("scheduler", "--host", "0.0.0.0", "--port", str(port), "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
        for number, (scheduler, inside) in enumerate(_hosts(workers, delay)):
            named = (
                "--nthreads",
                "1",
                "--no-nanny",
                "--no-dashboard",
                "--name",
                str(number),
                "--local-directory",
                str(folder / str(number)),
            )
            start("worker", f"{scheduler}:{port}", *named, "--preload", str(Path(__file__).resolve()), inside=inside)
        address = f"127.0.0.1:{port}"
        _wait_for(address, workers)
        yield address, [psutil.Process(each.pid) for each in started]


def _wait_for(address: str, workers: int) -> None:
    from distributed import Client

    with Client(f"tcp://{address}", timeout=60, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=120)


def _hosts(workers: int, delay: int | None) -> list[tuple[str, Sequence[str]]]:
    """For each worker: the scheduler's address there, and what a command on its host begins with."""
    if not delay:
        return [("127.0.0.1", ())] * workers
    addresses = [address for address, _, _ in emu.status().lab.addresses["scheduler"]]
    return [(addresses[number].partition("/")[0], emu.entrance(f"w{number}", [])) for number in range(workers)]


if __name__ == "__main__":
    main()
