"""What a study of many runs costs the process that plans it and makes its tables, in memory.

The cells and their keys are real; what their runs came to is not simulated so many times. A hundred
runs are, and what they came to is kept under all keys, in packs as the store writes them. Then
another process plans, finds nothing to run and makes the tables.
"""

import itertools
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import yaml

from polypath.results import assemble, plan
from polypath.results._computed import note
from polypath.results._packs import RECORD, _row, _Writer
from polypath.results._store import table_files
from polypath.study import Study
from polypath.sweep import files_of

STUDY = """
name: many
topology:
  nodes: {a: {}, b: {}}
  links:
    one: {ends: [a, b], both: {rate: "${rate}mbit", delay: "${delay}ms", queue: 50packets}}
    two: {ends: [a, b], both: {rate: 20mbit, delay: 15ms, queue: 50packets}}
flows: {m: {client: a, server: b, transport: mptcp, cc: "${cc}"}}
duration: 1s
seeds: 20
measure: {series: null}
baselines: null
draw:
  parameters:
    rate: {loguniform: [1, 100], digits: 6}
    delay: {uniform: [5, 50], digits: 6}
matrix: {cc: [lia, olia, balia, cubic, reno]}
"""
# Runs a draw: five algorithms, each with the seeds.
OF_DRAW = 100
SIMULATED = 100
# About as many as the store keeps in one.
OF_PACK = 20_000


def measured(runs, folder):
    """The most bytes of a process that finds all finished, after plan and tables."""
    said = b""
    for step in (make, tables):
        code = f"import many_runs; many_runs.{step.__name__}({runs}, {str(folder)!r})"
        # What was computed here is noted there.
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(Path(__file__).parent)}
        said = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, env=environment).stdout
    planned, all_of_it = json.loads(said)
    return planned, all_of_it


def study(runs):
    tree = yaml.safe_load(STUDY)
    return Study.model_validate({**tree, "draw": {**tree["draw"], "number": runs // OF_DRAW}})


def make(runs, folder):
    """Writes the packs."""
    work = plan(study(runs), out=folder)
    outputs = [work.engine.run(run.scenario) for run in itertools.islice(work.every(), SIMULATED)]
    every = zip(work.every(), itertools.cycle(outputs), strict=False)
    while some := list(itertools.islice(every, OF_PACK)):
        pack = _Writer(work.folder / "runs")
        rows = []
        for run, output in some:
            files = files_of(run.key, run.engine, run.version, run.scenario, output)
            assert list(files) == [RECORD], "a run without series has one file"
            rows.append(_row(f"{run.key}/{RECORD}", bytes(files[RECORD])))
            note(run.key, files)
        pack.add(rows)
        pack.finish()


def tables(runs, folder):
    """Plans, finds nothing to run and makes the tables."""
    import pyarrow.parquet as pq

    work = plan(study(runs), out=folder)
    missing = next(work.waiting(), None)
    assert missing is None, f"{missing} is finished"
    planned = most_bytes()
    assemble(work.study, work.engine, work.folder)
    all_of_it = most_bytes()
    assert sum(pq.read_metadata(file).num_rows for file in table_files(work.folder, "runs")) == runs
    print(json.dumps([planned, all_of_it]))


def most_bytes():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
