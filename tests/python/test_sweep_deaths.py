"""Runs on other machines that hang or die of them: a sweep ends whatever they do."""

import re
import signal

import pytest
from dask_cluster import cluster_in
from sweep_data import LONGER, STUDY, FakeClient, FakeFuture, study

from polypath import customcc
from polypath.engines import EngineError, find
from polypath.results import execute, plan
from polypath.study import StudyError
from polypath.sweep import DaskBackend, Finished, _dask


def test_a_machine_that_hangs_is_left_behind(tmp_path):
    ended = []

    def disturb(run):
        ended.append(run.key)
        if len(ended) == 4:
            cluster.signal("worker0", signal.SIGSTOP)

    work = plan(study(LONGER), out=tmp_path / "there")
    with cluster_in(tmp_path) as cluster:
        execute(work, on=DaskBackend(cluster.address, overdue_s=3.0), progress=disturb)
    assert sorted(ended) == sorted(run.key for run in work.pending)


# A worker dies of runs with cubic; others at 5mbit meet a fault of the engine.
DIES = """
import os, signal
from polypath.engines import SimEngine

def run(self, scenario, plain=getattr(SimEngine, "plain", SimEngine.run)):
    ccs = {flow["cc"] for flow in scenario["flows"]}
    if "cubic" in ccs:
        os.kill(os.getpid(), signal.SIGKILL)
    if "'bits_per_s': 5000000," in str(scenario["links"]):
        raise RecursionError("a fault of the engine")
    return plain(self, scenario)

SimEngine.plain, SimEngine.run = run.__defaults__[0], run
"""


# With the shorter time each run that kills is overdue, and sent once more.
@pytest.mark.parametrize("overdue_s", [60.0, 1.0])
def test_runs_that_kill_their_machine_or_meet_a_fault_are_named_and_others_finish(overdue_s, tmp_path):
    (tmp_path / "dies.py").write_text(DIES)
    work = plan(study(STUDY.replace("seeds: 3", "seeds: 1")), out=tmp_path / "there")
    with cluster_in(tmp_path, workers=0) as cluster:
        for number in range(2):
            cluster.worker(f"worker{number}", DASK_DISTRIBUTED__WORKER__PRELOAD=str(tmp_path / "dies.py"))
        cluster.wait_for(2)
        with pytest.raises(EngineError) as told:
            execute(work, on=DaskBackend(cluster.address, overdue_s=overdue_s))
    deadly = {run.key for run in work.runs if any(flow["cc"] == "cubic" for flow in run.scenario["flows"])}
    faulty = {run.key for run in work.runs if "'bits_per_s': 5000000," in str(run.scenario["links"])} - deadly
    for sentence, runs in (("every machine that began this run died", deadly), ("RecursionError: a fault of the engine", faulty)):
        (named,) = re.findall(rf"{sentence}.* \(in the runs? (.*)\)$", str(told.value), re.MULTILINE)
        assert {run.key for run in work.runs if run.label in named.split("; ")} == runs != set()
    assert {run.key for run in plan(work.study, out=tmp_path / "there").pending} == deadly | faulty < {run.key for run in work.runs}


def test_own_c_that_crashes_takes_no_machine_with_it(tmp_path):
    own = tmp_path / "own"
    customcc.new("falls", str(own))
    source = (own / "falls.c").read_text()
    head, hook, rest = source.partition("cong_avoid")
    assert hook, "the skeleton has the hook"
    opened = rest.index("{") + 1
    (own / "falls.c").write_text(f"{head}{hook}{rest[:opened]}\n\t*(volatile int *)0 = 1;\n{rest[opened:]}")
    customcc.use(own)
    work = plan(study(STUDY.replace("cc: [lia, cubic]", "cc: [lia, falls]").replace("seeds: 3", "seeds: 1")), out=tmp_path / "there")
    with cluster_in(tmp_path) as cluster, pytest.raises(StudyError, match=r"falls\.c: its hook cong_avoid crashed .*cc=falls"):
        execute(work, on=DaskBackend(cluster.address))
    left = plan(work.study, out=tmp_path / "there").pending
    assert {run.parameters["cc"] for run in left} == {"falls"}
    assert "was killed" not in "".join(log.read_text() for log in tmp_path.glob("worker*.log"))


class TwoMachines(FakeClient):
    """A scheduler with two machines. `submit` keeps each chunk open; a test ends them."""

    def __init__(self):
        super().__init__(lambda task: Finished(key=task.key, files={}, seconds=0.1))
        self.names = ["tcp://one", "tcp://two"]
        # By key, in the order in which they came: the chunk's future, and the machine that has it.
        self.futures: dict[str, FakeFuture] = {}
        self.at: dict[str, str] = {}
        self.cancelled: list[str] = []

    def scheduler_info(self, n_workers):
        return {"workers": {name: {"nthreads": 1} for name in self.names}}

    def processing(self):
        return {name: [key for key, at in self.at.items() if at == name] for name in self.names}

    def submit(self, function, chunk, *, key, workers, **more):
        self.chunks.append(chunk)
        self.futures[key] = future = FakeFuture()
        future.key = key
        self.at[key] = workers[0] if workers else self.names[0]
        return future

    def end(self, key):
        (chunk,) = (chunk for chunk, at in zip(self.chunks, self.futures, strict=True) if at == key)
        self.futures[key].set_result((self.at[key], [self.answer(task) for task in chunk.tasks]))

    def cancel(self, futures, force):
        self.cancelled += [future.key for future in futures]


def test_a_chunk_that_waits_for_a_machine_that_is_gone_is_sent_to_another(monkeypatch):
    monkeypatch.setattr(_dask, "_COUNT_S", 0.0)
    client = TwoMachines()
    # Of one run, which is overdue at once.
    work = _dask._Sweep(DaskBackend("nowhere:1", overdue_s=0.0), client, find("sim"), plan(study()).runs[:1], lambda state: None)

    def look():
        """What a sweep does each second while nothing ends."""
        work._look_around()
        work._hand_out()

    look()
    look()
    assert list(client.at.values()) == ["tcp://one", "tcp://two"], "the first one hangs"
    client.names[1] = "tcp://three"
    look()
    _, second, third = client.futures
    assert client.cancelled == [second]
    client.end(third)
    (end,) = work.results()
    assert isinstance(end, Finished)
