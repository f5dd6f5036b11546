"""The kernel's own events of a watched run: how often each came, and for what reasons packets were
dropped.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

# As the machine leaves it: the text of tracefs, and the counts of its buffer.
TRACE, STATS, EVENTS = "trace", "trace.stats", "events.txt"
_LINE = re.compile(r"^\s*\S.*-\d+\s+\[\d+\]\s+\S+\s+\d+\.\d+: (?P<name>\w+): (?P<text>.*)$")
_REASON = re.compile(r"\breason: (\w+)")
_LOST = re.compile(r"^(?:overrun|dropped events): (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Events:
    """What a run's events.txt holds."""

    counts: dict[str, int]
    # Why packets were dropped, as skb:kfree_skb says.
    drops: dict[str, int]
    # Events that found no room: the oldest go first.
    lost: int


def events(folder: Path) -> Events | None:
    """The events that a machine left in this folder, put into `EVENTS`; None where the kernel has
    none or nothing came.
    """
    raw, stats = folder / TRACE, folder / STATS
    if not raw.is_file():
        return None
    lost = sum(map(int, _LOST.findall(stats.read_text(encoding="ascii")))) if stats.is_file() else 0
    stats.unlink(missing_ok=True)
    counts: Counter[str] = Counter()
    drops: Counter[str] = Counter()
    with raw.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            match = _LINE.match(line)
            if match:
                counts[match["name"]] += 1
                if match["name"] == "kfree_skb" and (reason := _REASON.search(match["text"])):
                    drops[reason[1]] += 1
    if not counts:
        raw.unlink()
        return None
    raw.rename(folder / EVENTS)
    return Events(dict(counts.most_common()), dict(drops.most_common()), lost)
