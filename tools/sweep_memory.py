"""What a study of millions of runs costs the machine that plans it and makes its tables: memory and processor time.

    python tools/sweep_memory.py --runs 2000000 --folder /big/disk

The cells and their keys are real; what their runs came to is not simulated two million times. A hundred runs are, and what they came to is
kept under all keys, in packs as the store writes them. Then another process does what `polypath run` does where all runs are finished:
it plans, finds nothing to run and makes the tables. Memory is the most that this process had at any time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
MB = 1e6


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--runs", type=int, nargs="+", default=[20_000, 200_000, 2_000_000])
    asked.add_argument("--folder", type=Path, help="where there is room for some gigabytes; by default a temporary folder")
    asked.add_argument("--step", choices=["make", "tables"], help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.step:
        step = {"make": make, "tables": tables}[given.step]
        print(json.dumps(step(given.runs[0], given.folder)))
        return
    heads = ["runs", "rows of all tables", "plan: ms a run", "tables: ms a run", "plan: most MB", "then tables: most MB"]
    print(f"| {' | '.join(heads)} |\n|{' ---: |' * len(heads)}")
    for runs in given.runs:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            found = measured(runs, Path(folder))
        times = [f"{1000 * found[f'{what}_s'] / runs:.2f}" for what in ("plan", "tables")]
        sizes = [f"{found[f'{what}_bytes'] / MB:.0f}" for what in ("plan", "tables")]
        counts = [f"{number:,}" for number in (runs, found["rows"])]
        print(f"| {' | '.join([*counts, *times, *sizes])} |", flush=True)


def measured(runs: int, folder: Path) -> dict[str, Any]:
    """What a process that finds all runs finished takes for the plan and for the tables."""
    found: dict[str, Any] = {}
    for step in ("make", "tables"):
        command = [sys.executable, __file__, "--step", step, "--runs", str(runs), "--folder", str(folder)]
        # What was computed here is noted there.
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout)
    return found


def study(runs: int) -> Study:
    tree = yaml.safe_load(STUDY)
    return Study.model_validate({**tree, "draw": {**tree["draw"], "number": runs // OF_DRAW}})


def make(runs: int, folder: Path) -> dict[str, Any]:
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
    return {}


def tables(runs: int, folder: Path) -> dict[str, Any]:
    """Plans, finds nothing to run and makes the tables."""
    begun = time.process_time()
    work = plan(study(runs), out=folder)
    missing = next(work.waiting(), None)
    assert missing is None, f"{missing} is finished"
    planned, bytes_planned = time.process_time(), most_bytes()
    assemble(work.study, work.engine, work.folder)
    spent = time.process_time() - planned
    import pyarrow.parquet as pq

    rows = {
        table.stem: sum(pq.read_metadata(file).num_rows for file in table_files(work.folder, table.stem))
        for table in work.folder.glob("*.parquet")
    }
    assert rows["runs"] == runs
    return {
        "plan_s": planned - begun,
        "plan_bytes": bytes_planned,
        "tables_s": spent,
        "tables_bytes": most_bytes(),
        "rows": sum(rows.values()),
    }


def most_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
