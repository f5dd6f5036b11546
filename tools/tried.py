#!/usr/bin/env python3
"""What was tried on which kernel of the linux engine, of which docs/guide/linux-kernels.md has the
table.

    tools/tried.py KERNEL...   try these, write down what came out, and print the table
    tools/tried.py             print the table

The record is tests/kernel/tried.tsv, a line a kernel and job; what is tried again replaces it.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from figure_tables import table

from polypath import linux
from polypath.engines import pairs

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests/kernel/tried.tsv"
HEAD = "release\tjob\tresult\tdate"


def exact(kernel: linux.Kernel) -> str:
    """The same run again and again while all around it is otherwise."""
    status, said = _said("qualify", "--kernel", kernel.name, "--short")
    last = " ".join(said.splitlines()[-1:])
    return f"{last.split()[1]} replays" if status == 0 else last


def own_algorithms(kernel: linux.Kernel) -> str:
    """Ours beside the kernel's own of the same name, over pauses and losses."""
    found = pairs(kernel)
    same = sum(pair.same for pair in found)
    other = [pair.name for pair in found if pair.difference]
    known = [pair.name for pair in found if not pair.same and not pair.difference]
    return f"{same} of {len(found)}" + (f"; {', '.join(known)} as known" if known else "") + (f"; NOT {', '.join(other)}" if other else "")


def scripts(kernel: linux.Kernel) -> str:
    """The packet scripts that are about this kernel."""
    _, said = _said("script", "--engine", "linux", "--kernel", kernel.name, *map(str, sorted((ROOT / "tests/scripts").glob("*.pkt"))))
    verdicts = [line.rpartition(": ")[2] for line in said.splitlines()]
    return f"{verdicts.count('passed')} of {sum(not verdict.startswith('left out') for verdict in verdicts)}"


JOBS: dict[str, tuple[str, Callable[[linux.Kernel], str]]] = {
    "qualify": ("the same bytes", exact),
    "algorithms": ("congestion controls as the kernel's own", own_algorithms),
    "scripts": ("packet scripts", scripts),
}


def _said(*words: str) -> tuple[int, str]:
    command = [str(Path(sys.executable).with_name("polypath")), "linux", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr.strip())
    return done.returncode, done.stdout


def tried(record: str) -> dict[str, dict[str, tuple[str, str]]]:
    """By release and job what came out, and when."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in record.splitlines()[1:]:
        release, job, result, date = line.split("\t")
        found.setdefault(release, {})[job] = (result, date)
    return found


def markdown(record: str) -> str:
    """The record as a table."""
    rows = []
    for release, jobs in tried(record).items():
        results = [jobs.get(job, ("not tried", ""))[0] for job in JOBS]
        rows.append([release, *results, min(date for _, date in jobs.values())])
    return table(["Linux", *(words for words, _ in JOBS.values()), "tried"], rows, left=len(JOBS) + 2)


def renewed(record: str, release: str, results: dict[str, str], date: str) -> str:
    """The record with what came out of a release's jobs."""
    found = tried(record)
    found[release] = {**found.get(release, {}), **{job: (result, date) for job, result in results.items()}}
    ordered = sorted(found.items(), key=lambda item: [int(part) for part in item[0].split(".")])
    lines = ["\t".join((name, job, *jobs[job])) for name, jobs in ordered for job in JOBS if job in jobs]
    return "\n".join([HEAD, *lines]) + "\n"


def main(names: list[str]) -> None:
    for name in names:
        kernel = linux.find(name)
        for job, (_, run) in JOBS.items():
            text = RECORD.read_text(encoding="utf-8") if RECORD.exists() else HEAD
            result, today = run(kernel), datetime.datetime.now(tz=datetime.UTC).date().isoformat()
            RECORD.write_text(renewed(text, kernel.release, {job: result}, today), encoding="utf-8")
    print(markdown(RECORD.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main(sys.argv[1:])
