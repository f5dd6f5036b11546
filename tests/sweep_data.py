"""A study of short runs, and a scheduler that is none, for the tests of sweeps."""

from concurrent.futures import Future

import yaml

from polypath.engines import find
from polypath.study import Study
from polypath.sweep import DaskBackend, Failed, Finished, _dask
from polypath.sweep._chunks import Chunk

STUDY = """
name: sweep
title: Short runs
topology:
  nodes: {a: {}, b: {}}
  links:
    one: {ends: [a, b], both: {rate: "${rate}", delay: 5ms, queue: 50packets}}
    two: {ends: [a, b], both: {rate: 20mbit, delay: 15ms, queue: 50packets}}
flows: {m: {client: a, server: b, transport: mptcp, cc: "${cc}"}}
duration: 2s
matrix: {rate: [5mbit, 50mbit], cc: [lia, cubic]}
seeds: 3
"""


def study(text=STUDY):
    return Study.model_validate(yaml.safe_load(text))


def content(folder):
    """All files of a results folder."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


# Some seconds of work, so that there is time to disturb it.
LONGER = STUDY.replace("duration: 2s", "duration: 20s").replace("seeds: 3", "seeds: 12")


class FakeFuture(Future[tuple[str, list[Finished | Failed]]]):
    """What a scheduler gives for a chunk."""

    @property
    def status(self):
        return "pending" if not self.done() else "error" if self.exception() else "finished"


class FakeClient:
    """A scheduler with one thread, which answers each chunk with what `answer` makes of it."""

    status = "running"

    def __init__(self, answer):
        self.answer = answer
        self.chunks: list[Chunk] = []

    def scheduler_info(self, n_workers):
        return {"workers": {"tcp://one": {"nthreads": 1}}}

    def submit(self, function, chunk, **more):
        self.chunks.append(chunk)
        future = FakeFuture()
        try:
            future.set_result(("tcp://one", [self.answer(task) for task in chunk.tasks]))
        except ModuleNotFoundError as error:
            future.set_exception(error)
        return future

    def cancel(self, futures, force): ...
    def close(self, timeout): ...


def sweep_with(runs, client):
    sweep = _dask._Sweep(DaskBackend("nowhere:1"), client, find("sim"), runs, lambda state: None)
    return list(sweep.results())
