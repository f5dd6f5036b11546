"""Reads what the kernel's tests print: TAP (KTAP) where they write it, else the lines that end in [
OK ], [FAIL] and the like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

# "ignored": it failed, and the test says itself that this counts for nothing ("IGNORE Flaky", TODO,
# XFAIL).
Verdict = Literal["pass", "skip", "ignored", "fail"]
VERDICTS: tuple[Verdict, ...] = ("pass", "skip", "ignored", "fail")
# The name under which a test's own exit status stands among its subtests.
EXIT = "(exit status)"

_TAP = re.compile(r"^\s*(?P<bad>not )?ok\s+\d+\s*(?:-\s*)?(?P<name>[^#]*?)\s*(?:#\s*(?P<directive>.*))?$")
_TIME = re.compile(r"\btime=(\d+)\s*ms\b")
_BRACKET = re.compile(r"^(?:TEST:\s*)?(?P<name>\S.*?)\s*\[\s*(?P<word>OK|PASS|FAIL|SKIP|XFAIL|IGNO)\s*\]")
_NUMBER = re.compile(r"^\d+\s+")
_WORDS: dict[str, Verdict] = {"OK": "pass", "PASS": "pass", "FAIL": "fail", "SKIP": "skip", "XFAIL": "ignored", "IGNO": "ignored"}
# Of kselftest.h: KSFT_PASS, KSFT_XFAIL, KSFT_SKIP.
_STATUS: dict[int, Verdict] = {0: "pass", 2: "ignored", 4: "skip"}


@dataclass(frozen=True)
class Subtest:
    """One result of a run."""

    name: str
    verdict: Verdict
    # Milliseconds of virtual time, where the test tells.
    ms: int | None = None


def of_status(status: int) -> Verdict:
    """What an exit status means to the kernel's test runner."""
    return _STATUS.get(status, "fail")


def parse(text: str, test: str, status: int) -> list[Subtest]:
    """The subtests in what a test printed, each name once, and at last the exit status under the
    name `EXIT`.
    """
    lines = text.splitlines()
    points = list(_tap(lines, test)) or list(_brackets(lines))
    counts: dict[str, int] = {}
    named = []
    for point in points:
        counts[point.name] = counts.get(point.name, 0) + 1
        times = counts[point.name]
        named.append(point if times == 1 else Subtest(f"{point.name} ({times})", point.verdict, point.ms))
    return [*named, Subtest(EXIT, of_status(status))]


def _tap(lines: Iterable[str], test: str) -> Iterable[Subtest]:
    # The test's own name stands before its subtests' names; a part has it too.
    name = test.rsplit("/", 1)[-1].partition(":")[0]
    for line in lines:
        match = _TAP.match(line)
        if not match:
            continue
        directive = match["directive"] or ""
        time = _TIME.search(directive)
        words = directive.upper()
        verdict: Verdict
        if words.startswith("SKIP"):
            verdict = "skip"
        elif words.startswith(("IGNORE", "TODO", "XFAIL")):
            verdict = "ignored"
        else:
            verdict = "fail" if match["bad"] else "pass"
        yield Subtest(match["name"].strip().removeprefix(f"{name}: ") or name, verdict, int(time[1]) if time else None)


def _brackets(lines: Iterable[str]) -> Iterable[Subtest]:
    for line in lines:
        match = _BRACKET.match(line.strip())
        if match:
            yield Subtest(" ".join(_NUMBER.sub("", match["name"]).split()), _WORDS[match["word"]])
