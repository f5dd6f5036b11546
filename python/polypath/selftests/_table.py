"""What many runs say together: a row a subtest, with its rate of failing, its milliseconds and the
seeds that fail.
"""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from ._run import Record
from ._tap import EXIT, VERDICTS, Subtest, Verdict

# Shown at most of the seeds of a row.
_SEEDS = 12


@dataclass
class Row:
    """A subtest over its seeds."""

    test: str
    subtest: str
    seeds: dict[Verdict, list[int]] = field(default_factory=lambda: {verdict: [] for verdict in VERDICTS})
    # Of the runs that passed or failed, in the order of the seeds.
    ms: list[int] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """How often it was reached."""
        return sum(map(len, self.seeds.values()))

    @property
    def failures(self) -> list[int]:
        """The seeds with which it did not do what it tests, also where the test ignores that."""
        return sorted(self.seeds["fail"] + self.seeds["ignored"])

    @property
    def rate(self) -> tuple[float, float, float] | None:
        """The rate of failing among the runs that were not skipped, and the ends of its interval of
        95 % (Wilson's score interval, good for few runs and for rates of 0 and 1).
        """
        # The library loads slowly, and most commands need none of it.
        from scipy.stats import binomtest

        judged = self.runs - len(self.seeds["skip"])
        if not judged:
            return None
        interval = binomtest(len(self.failures), judged).proportion_ci(method="wilson")
        return len(self.failures) / judged, float(interval.low), float(interval.high)

    @property
    def always_passes(self) -> bool:
        """Whether there is nothing to say about it."""
        return len(self.seeds["pass"]) == self.runs

    def cells(self) -> tuple[str, ...]:
        """What a table shows of it."""
        counts = (str(len(self.seeds[verdict])) for verdict in VERDICTS)
        rate = "" if self.rate is None else "{:.1f} % ({:.1f} to {:.1f})".format(*(100 * share for share in self.rate))
        return (self.test, self.subtest, str(self.runs), *counts, rate, self._times(), seeds_text(self.failures))

    def plain(self) -> dict[str, Any]:
        """All of it, under the heads of table.csv."""
        counts = [len(self.seeds[verdict]) for verdict in VERDICTS]
        rate = self.rate or (None, None, None)
        return dict(zip(_HEADS, (self.test, self.subtest, self.runs, *counts, *rate, self.failures, self.ms), strict=True))

    def _times(self) -> str:
        if not self.ms:
            return ""
        low, high = min(self.ms), max(self.ms)
        return f"{low}" if low == high else f"{round(statistics.median(self.ms))} ({low} to {high})"


# Of table.csv.
_HEADS = ("test", "subtest", "runs", *VERDICTS, "failing", "failing_low", "failing_high", "failing_seeds", "ms")
HEADS = ("test", "subtest", "runs", *VERDICTS, "fail + ignored (95 %)", "ms", "with seeds")


def rows(records: Iterable[Record]) -> list[Row]:
    """A row for each subtest, in the order in which they were met. An exit status has one if it
    says what no subtest says.
    """
    rows_of: dict[tuple[str, str], Row] = {}
    for record in sorted(records, key=lambda record: record.seed):
        for outcome in outcomes(record):
            row = rows_of.setdefault((record.test, outcome.name), Row(record.test, outcome.name))
            row.seeds[outcome.verdict].append(record.seed)
            if outcome.ms is not None and outcome.verdict != "skip":
                row.ms.append(outcome.ms)
    # A test that was cut short with some seeds leaves its last subtests for behind those of others.
    tests = list(dict.fromkeys(row.test for row in rows_of.values()))
    return sorted(rows_of.values(), key=lambda row: (tests.index(row.test), row.subtest == EXIT))


def outcomes(record: Record) -> list[Subtest]:
    """The subtests that count: the exit status only where it is no mere summary of the others."""
    subtests = [subtest for subtest in record.subtests if subtest.name != EXIT]
    (status,) = [subtest for subtest in record.subtests if subtest.name == EXIT]
    explained = status.verdict == "pass" or any(subtest.verdict == status.verdict for subtest in subtests)
    return subtests if subtests and explained else [*subtests, status]


def worst(failures: Iterable[tuple[str, int, bool]]) -> tuple[str, int] | None:
    """Of failures, each a test, a seed and whether the test ignores it, the run that has most: first
    of those that count.
    """
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for test, seed, ignored in failures:
        real, other = counts.get((test, seed), (0, 0))
        counts[test, seed] = (real + (not ignored), other + ignored)
    return max(counts, key=counts.__getitem__, default=None)


def seeds_text(seeds: Sequence[int]) -> str:
    """Some seeds, three and more in a row as a range; then how many others there are."""
    parts: list[str] = []
    first = 0
    while first < len(seeds):
        if len(parts) >= _SEEDS:
            return f"{','.join(parts)} and {len(seeds) - first} more"
        last = first
        while last + 1 < len(seeds) and seeds[last + 1] == seeds[last] + 1:
            last += 1
        if last > first + 1:
            parts.append(f"{seeds[first]}..{seeds[last]}")
        else:
            last = first
            parts.append(str(seeds[first]))
        first = last + 1
    return ",".join(parts)


def as_csv(rows: Sequence[Row]) -> str:
    """All rows, the milliseconds of each run with them."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_HEADS)
    for row in rows:
        table.writerow(map(_cell, row.plain().values()))
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else " ".join(map(str, value)) if isinstance(value, list) else str(value)


def as_tap(records: Sequence[Record]) -> str:
    """All results as one TAP document, version 13."""
    points = [(record, outcome) for record in records for outcome in outcomes(record)]
    lines = ["TAP version 13", f"1..{len(points)}"]
    for number, (record, outcome) in enumerate(points, 1):
        word = {"pass": "ok", "skip": "ok", "ignored": "not ok", "fail": "not ok"}[outcome.verdict]
        # A test point that fails and is marked so counts for nothing.
        said = {"skip": ["SKIP"], "ignored": ["TODO the test ignores it"]}.get(outcome.verdict, [])
        time = [f"time={outcome.ms}ms"] if outcome.ms is not None else []
        name = f"{record.test} seed {record.seed}: {outcome.name}".replace("#", "no.")
        lines.append(f"{word} {number} - {name}" + (f" # {' '.join([*said, *time])}" if said or time else ""))
    return "\n".join(lines) + "\n"


def as_junit(records: Sequence[Record]) -> str:
    """All results as JUnit's XML: a suite a run, with what it printed where something failed."""
    root = ElementTree.Element("testsuites")
    for record in records:
        cases = outcomes(record)
        counts = {verdict: sum(outcome.verdict == verdict for outcome in cases) for verdict in VERDICTS}
        skipped = counts["skip"] + counts["ignored"]
        about = {"tests": len(cases), "failures": counts["fail"], "skipped": skipped, "errors": 0}
        name = {"name": f"{record.test} seed {record.seed}"}
        suite = ElementTree.SubElement(root, "testsuite", name | {key: str(value) for key, value in about.items()})
        for outcome in cases:
            case = ElementTree.SubElement(suite, "testcase", {"classname": record.test, "name": outcome.name})
            if outcome.ms is not None:
                case.set("time", f"{outcome.ms / 1000:.3f}")
            if outcome.verdict == "fail":
                ElementTree.SubElement(case, "failure", {"message": f"failed with seed {record.seed}"})
            elif outcome.verdict != "pass":
                why = "the test ignores this failure" if outcome.verdict == "ignored" else "skipped"
                ElementTree.SubElement(case, "skipped", {"message": why})
        if counts["fail"]:
            # What XML cannot hold is left out.
            text = "".join(c for c in record.log if c in "\t\n" or c >= " ")
            ElementTree.SubElement(suite, "system-out").text = text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
