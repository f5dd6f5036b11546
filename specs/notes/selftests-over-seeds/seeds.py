"""Keeps what the kernel's long selftests did with each seed, so that later runs add to it: seeds.py
take FOLDER | table

`take` adds the finished runs of a folder that `polypath linux selftests --out FOLDER` has filled to
seeds.csv beside this file. A row is a run of a test, or of a part of one: how many subtests passed,
and each of the others as "verdict name". `table` prints what all seeds say together.
"""

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path

from polypath.selftests import VERDICTS, Record, Row, Verdict, outcomes

SEEDS = Path(__file__).parent / "seeds.csv"
HEADS = ("test", "seed", "passed", "others")
# Between the subtests that did not pass.
BETWEEN = " | "
Run = tuple[str, int]


def known() -> dict[Run, dict[str, str]]:
    """The rows of seeds.csv by test and seed."""
    if not SEEDS.exists():
        return {}
    with SEEDS.open() as file:
        return {(row["test"], int(row["seed"])): row for row in csv.DictReader(file)}


def taken(record: Record) -> dict[str, str]:
    """A finished run as a row."""
    subtests = outcomes(record)
    others = [f"{each.verdict} {each.name}" for each in subtests if each.verdict != "pass"]
    passed = str(len(subtests) - len(others))
    return {"test": record.test, "seed": str(record.seed), "passed": passed, "others": BETWEEN.join(others)}


def take(folder: Path) -> None:
    """Adds a folder's runs. A run that is there must say the same again: on one kernel a seed
    always has one result.
    """
    found = known()
    for file in sorted(folder.rglob("*.json")):
        row = taken(Record.of(json.loads(file.read_text())))
        run = row["test"], int(row["seed"])
        if found.setdefault(run, row) != row:
            raise SystemExit(f"seeds.py: {run[0]} with seed {run[1]} says {row}, and {SEEDS.name} {found[run]}: was it another kernel?")
    with SEEDS.open("w") as file:
        writer = csv.DictWriter(file, HEADS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found[run] for run in sorted(found))


def table() -> None:
    """For each test a row for each subtest that did not pass with every seed, and one for all
    others.
    """
    tests: dict[str, dict[int, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for (name, seed), row in known().items():
        tests[name.partition(":")[0]][seed].append(row)
    print(f"| test | subtest | runs | {' | '.join(VERDICTS)} | failing (95 %) | seeds that fail |\n|{'---|' * (5 + len(VERDICTS))}")
    for name, seeds in tests.items():
        parts = max(map(len, seeds.values()))
        # Of a test in parts, a seed counts once all of them have run.
        whole = {seed: found for seed, found in seeds.items() if len(found) == parts}
        subtests = max(sum(int(row["passed"]) + len(_others(row)) for row in found) for found in whole.values())
        several = _several(name, whole)
        for each in several:
            cells = each.cells()
            print(f"| {' | '.join((*cells[:-2], cells[-1]))} |")
        rest = f"{subtests - len(several)} {'others' if several else 'subtests'}"
        print(f"| {name} | {rest} | {len(whole)} | {len(whole)} |{' |' * (len(VERDICTS) + 1)}")


def _others(row: dict[str, str]) -> list[tuple[Verdict, str]]:
    words = (each.partition(" ") for each in row["others"].split(BETWEEN) if each)
    return [(verdict, subtest) for said, _, subtest in words for verdict in VERDICTS if verdict == said]


def _several(name: str, seeds: dict[int, list[dict[str, str]]]) -> list[Row]:
    """The subtests that did not always pass."""
    found: dict[str, Row] = {}
    for seed, runs in seeds.items():
        for verdict, subtest in (each for row in runs for each in _others(row)):
            found.setdefault(subtest, Row(name, subtest)).seeds[verdict].append(seed)
    for row in found.values():
        row.seeds["pass"] = sorted(set(seeds) - {seed for those in row.seeds.values() for seed in those})
    return list(found.values())


def main() -> None:
    """Takes a folder's runs, or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    asked = parser.add_subparsers(dest="asked", required=True)
    asked.add_parser("take").add_argument("folder", type=Path)
    asked.add_parser("table")
    given = parser.parse_args()
    if given.asked == "take":
        take(given.folder)
    else:
        table()


if __name__ == "__main__":
    main()
