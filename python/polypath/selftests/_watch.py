"""What a machine is told to write down of a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ._errors import SelftestError

# Of the kernel's own events: TCP, MPTCP, sockets, why packets were dropped, and what dynamic debug
# prints.
EVENTS = "tcp:*,mptcp:*,sock:*,skb:kfree_skb,printk:console"
DYNDBG = "module mptcp +p"
_NUMBERED = re.compile(rb"^0*(\d+)\s+\S")


@dataclass(frozen=True)
class Watch:
    """How a run is watched. Not `everything`: only when its log became how long, so that a watched
    run has one to be compared with.
    """

    everything: bool = True
    # As the kernel's own trace_event= takes them; and a query of dynamic debug.
    events: str = EVENTS
    dyndbg: str = DYNDBG
    # From when to when events are kept, and when a shell opens: nanoseconds since the machine's
    # start.
    window: tuple[int, int] = (0, 0)
    shell_at: int | None = None

    def text(self) -> str:
        """The lines of the file "observe" of a run's folder (cc/kernel/observe.c)."""
        first, last = self.window
        events, dyndbg = (self.events, self.dyndbg) if self.everything else ("", "")
        mode = "all" if self.everything else "idle"
        return f"{mode}\n{events}\n{dyndbg}\n{first} {last}\n{'' if self.shell_at is None else self.shell_at}\n"


IDLE = Watch(everything=False)


def during(watch: Watch, window: tuple[int, int]) -> Watch:
    """The same, with events from a part of the run."""
    return replace(watch, window=window)


def window_of(log: bytes, marks: Sequence[tuple[int, int]], subtest: int, test: str) -> tuple[int, int]:
    """From when to when this subtest ran, by the numbered lines of the log and when it became how
    long. Raises `SelftestError`.
    """
    starts = _starts(log)
    if not starts:
        raise SelftestError(f"{test} does not number its subtests: leave --subtest out")
    if subtest not in starts:
        raise SelftestError(f"{test} has no subtest {subtest}; its log numbers 1 to {len(starts)}")
    end = _when(marks, starts[subtest + 1]) if subtest + 1 in starts else marks[-1][0]
    return max(_when(marks, starts[subtest]) - _LOOK_NS, 1), end + _LOOK_NS


def subtest_at(log: bytes, marks: Sequence[tuple[int, int]], at: int) -> str | None:
    """The subtest that ran at an instant, by its number and its name; None where the log does not
    tell.
    """
    starts = _starts(log)
    begun = [(number, offset, _when(marks, offset)) for number, offset in starts.items()]
    there = [(number, offset) for number, offset, late in begun if late <= at]
    # The next one may have begun before its mark.
    if not there or any(late - _LOOK_NS <= at < late for _, _, late in begun):
        return None
    number, offset = there[-1]
    line = log[offset:].split(None, 1)[-1]
    named = re.search(rb"^(?:not )?ok %d - (?:\S+: )?(.+?)(?: #.*)?$" % number, log, re.MULTILINE)
    # TAP has the name alone.
    name = named[1].decode(errors="replace") if named and line.startswith(named[1]) else ""
    return f"subtest {number}" + (f", {name}" if name else "")


# A mark is up to so much late.
_LOOK_NS = 10_000_000


def _starts(log: bytes) -> dict[int, int]:
    """Where in the log the subtests begin, by their numbers."""
    starts: dict[int, int] = {}
    offset = 0
    for line in log.splitlines(keepends=True):
        match = _NUMBERED.match(line)
        # Numbers count up; what a table or TAP's plan has is another number.
        if match and int(match[1]) == len(starts) + 1:
            starts[len(starts) + 1] = offset
        offset += len(line)
    return starts


def _when(marks: Sequence[tuple[int, int]], offset: int) -> int:
    return next((at for at, size in marks if size > offset), marks[-1][0])
