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
    starts: dict[int, int] = {}
    offset = 0
    for line in log.splitlines(keepends=True):
        match = _NUMBERED.match(line)
        # Numbers count up; what a table or TAP's plan has is another number.
        if match and int(match[1]) == len(starts) + 1:
            starts[len(starts) + 1] = offset
        offset += len(line)
    if not starts:
        raise SelftestError(f"{test} does not number its subtests: leave --subtest out")
    if subtest not in starts:
        raise SelftestError(f"{test} has no subtest {subtest}; its log numbers 1 to {len(starts)}")

    def when(offset: int) -> int:
        return next((at for at, size in marks if size > offset), marks[-1][0])

    # A mark is up to 10 ms late.
    look_ns = 10_000_000
    end = when(starts[subtest + 1]) if subtest + 1 in starts else marks[-1][0]
    return max(when(starts[subtest]) - look_ns, 1), end + look_ns
