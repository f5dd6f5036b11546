"""What chance does to a run on a real machine, as a seeded variation of a run on the engine linux
(cc/kernel/vary.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from polypath.study import Time, unknown

from ._errors import EngineError

# Of each kind the default maximum: a tick of the kernel, and what a debug kernel adds to a call.
MOST_NS = {"start": 4_000_000, "jitter": 10_000, "slow": 10_000}
# Of numbers of draws.
ALL = 1 << 62
# What the machine leaves of it.
VARIED = "varied"
_LARGEST_NS = 1_000_000_000
_PART = re.compile(r"(?P<kind>[^=:]*)(?:=(?P<most>[^:]*))?(?::(?P<first>\d+)\.\.(?P<last>\d+))?")
_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000))


@dataclass(frozen=True)
class Kind:
    """One kind of a variation."""

    name: str
    # At most so much later, or so much time that something costs.
    most_ns: int
    # The draws that count: from one to before another.
    first: int = 0
    last: int = ALL

    def __str__(self) -> str:
        """As --vary takes it."""
        return f"{self.name}={in_units(self.most_ns)}" + ("" if (self.first, self.last) == (0, ALL) else f":{self.first}..{self.last}")


@dataclass(frozen=True)
class Variation:
    """What varies in a run. Without kinds it is the run that it always was."""

    kinds: tuple[Kind, ...] = ()
    # From which all draws come; None: the run's seed.
    draw: int | None = None

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def __str__(self) -> str:
        """As --vary takes it."""
        return ",".join(map(str, self.kinds))

    def text(self, seed: int) -> str:
        """The lines of the file "vary" of a run's folder."""
        lines = [f"draw {seed if self.draw is None else self.draw}"]
        return "".join(f"{line}\n" for line in [*lines, *(f"{kind.name} {kind.most_ns} {kind.first} {kind.last}" for kind in self.kinds)])

    @property
    def key(self) -> str:
        """What of it becomes part of a run's key; nothing without kinds."""
        return "" if not self else f"{self}" + ("" if self.draw is None else f"/{self.draw}")


NONE = Variation()


def variation(text: str, draw: int | None = None) -> Variation:
    """The variation that "start", "start=2ms,slow" or "start=4ms:183..184" means. Raises
    `EngineError` if it means none.
    """
    kinds: dict[str, Kind] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        name = match["kind"] if match else ""
        if not match or not name:
            raise EngineError(f'"{part}" is no variation: write one like start, slow=20us, or start=4ms:183..184 for some of its draws')
        if name not in MOST_NS:
            raise EngineError(unknown("variation", name, MOST_NS))
        if name in kinds:
            raise EngineError(f'"{text}" has {name} twice')
        most = MOST_NS[name] if match["most"] is None else _time(match["most"], name)
        first, last = (int(match["first"]), int(match["last"])) if match["first"] else (0, ALL)
        if first >= last:
            raise EngineError(f'"{part}" has no draws: the range ends before it begins')
        kinds[name] = Kind(name, most, first, last)
    return Variation(tuple(kinds[name] for name in MOST_NS if name in kinds), draw)


def _time(text: str, name: str) -> int:
    try:
        most = int(Time(text))
    except ValueError as error:
        raise EngineError(f"the variation {name}: {error}") from None
    if not 0 < most <= _LARGEST_NS:
        raise EngineError(f"the variation {name} is {text}: give it more than nothing, and a second at most")
    return most


def in_units(ns: int) -> str:
    """A time as a person writes it, exactly."""
    for unit, size in _UNITS:
        if ns >= size:
            return f"{ns / size:.9f}".rstrip("0").rstrip(".") + unit
    return f"{ns}ns"


def draws_of(folder: Path) -> dict[str, int]:
    """How many draws of each kind there were, by what a machine left in this folder; nothing where
    nothing varied.
    """
    file = folder / VARIED
    words = [line.split() for line in file.read_text(encoding="ascii").splitlines()] if file.is_file() else []
    return {word[0]: int(word[2]) for word in words if word[1] == "draws"}


def happened(folder: Path) -> list[str]:
    """A line for each draw that counted, where they were few: what, when, how much, whose."""
    file = folder / VARIED
    lines = []
    for line in file.read_text(encoding="ascii").splitlines() if file.is_file() else []:
        kind, number, *rest = line.split()
        if number == "draws":
            continue
        _, at, _, ns, who, call = rest
        if kind == "slow":
            who += " receives" if call == "-2" else " page fault" if call == "-1" else f" call {call}"
        lines.append(f"{kind} {number} at {int(at) / 1e9:.6f} s: {who}, {in_units(int(ns))}")
    return lines
