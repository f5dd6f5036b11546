"""What can be set: the candidates, what each asks of a kernel, and how far each is from what Linux
does by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ._paths import Path

Needs = Literal["stock", "ours", "other", "tunnel"]
NEEDS: Mapping[Needs, str] = {
    "stock": "any kernel with MPTCP",
    "ours": "congestion control loaded by polypath cc",
    "other": "a kernel that has this scheduler",
    "tunnel": "polypath tunnel, with a host of your own at its other end",
}
SHOWN: frozenset[Needs] = frozenset({"other", "tunnel"})
"""They stand in the ranking and are never the advice."""

STOCK_CC = ("cubic", "reno", "bbr", "vegas")
"""Every distribution's kernel has them, as modules at the least."""
OUR_CC = ("bbr3",)
OUR_COUPLED_CC = ("lia", "olia", "balia", "wvegas")
"""Alone on a path each is as Reno, or Vegas, is."""
SCHEDULERS = ("default", "blest")
TUNNEL_CC = ("cubic", "bbr")
"""Inside a tunnel: what Linux has by itself, and what minds reordering and losses least."""
FEW_LEFT_OUT = 2
"""Least number of paths of which some are left out: one alone is plain TCP."""
FEW_CC = ("cubic", "bbr", "bbr3", "lia")
"""One of each kind, for paths on which runs cost much."""
DEFAULT_RMEM, DEFAULT_WMEM = 6291456, 4194304
"""Linux's default largest buffers, bytes."""
SHAPED = 0.95
"""Share of the path's least rate that the host's own queue lets through, so that it forms here and
not at the bottleneck.
"""
ALL = "all"
AND = "+"
"""Between the names of some of the paths."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One candidate."""

    paths: str
    """`all` or some, as `a+b`, with MPTCP or a tunnel; or the name of the one path that plain TCP
    takes.
    """
    cc: str
    scheduler: str = "default"
    shaped: bool = False
    """With fq_codel in front of each path."""
    buffer: int | None = None
    """Largest send and receive buffer, bytes; None: Linux's own."""
    tunnel: str | None = None
    """How a tunnel distributes plain TCP's packets over all paths; None: no tunnel."""

    @property
    def multipath(self) -> bool:
        """Whether connections take several paths, with MPTCP."""
        return self.tunnel is None and (self.paths == ALL or AND in self.paths)

    def uses(self, path: Path) -> bool:
        return self.paths == ALL or path.name in self.paths.split(AND)

    @property
    def name(self) -> str:
        paths = self.paths if self.tunnel is None else f"tunnel-{self.tunnel}"
        parts = [paths, self.cc, *[self.scheduler] * (self.scheduler != "default"), *["fq_codel"] * self.shaped]
        return "-".join([*parts, *["buffers"] * (self.buffer is not None)])

    @property
    def needs(self) -> Needs:
        if self.tunnel is not None:
            return "tunnel"
        if self.scheduler != "default":
            return "other"
        return "stock" if self.cc in STOCK_CC else "ours"

    @property
    def changes(self) -> int:
        """How much differs from what Linux does by itself; what needs more than a setting counts
        more.
        """
        weight = {"stock": 0, "ours": 2, "other": 10, "tunnel": 10}[self.needs]
        return weight + (self.cc != "cubic") + (self.paths != ALL) + 2 * self.shaped + (self.buffer is not None)

    @property
    def queue(self) -> str:
        return "fq_codel, shaped" if self.shaped else "as it is"

    @property
    def buffers(self) -> str:
        return "as they are" if self.buffer is None else f"{self.buffer >> 20} MiB"


def linux_default(paths: Sequence[Path]) -> Setting:
    """What Linux does with the paths' endpoints set and nothing else."""
    return Setting(paths=ALL if len(paths) > 1 else paths[0].name, cc="cubic")


def candidates(paths: Sequence[Path], *, few: bool = False) -> list[Setting]:
    """All settings that are tried, the default of Linux first; with `few` one congestion control of
    each kind, upstream's scheduler.
    """
    buffers = (None,) if (needed := _needed(paths)) is None else (None, needed)
    settings = []
    for buffer in buffers:
        for shaped in (False, True):
            if len(paths) > 1:
                settings += [
                    Setting(paths=ALL, cc=cc, scheduler=scheduler, shaped=shaped, buffer=buffer)
                    for cc in (*STOCK_CC, *OUR_CC, *OUR_COUPLED_CC)
                    for scheduler in SCHEDULERS
                ]
                settings += [Setting(paths=ALL, cc=cc, shaped=shaped, buffer=buffer, tunnel="earliest") for cc in TUNNEL_CC]
            # One path is left out; more of them would be too many settings.
            settings += [
                Setting(paths=AND.join(path.name for path in paths if path is not left), cc=cc, shaped=shaped, buffer=buffer)
                for left in paths
                for cc in FEW_CC
                if len(paths) > FEW_LEFT_OUT
            ]
            settings += [Setting(paths=path.name, cc=cc, shaped=shaped, buffer=buffer) for path in paths for cc in (*STOCK_CC, *OUR_CC)]
    if len(paths) > 1:
        settings += [Setting(paths=ALL, cc=cc, tunnel=distribution) for distribution in ("turns", "flows") for cc in TUNNEL_CC]
    first = linux_default(paths)
    kept = [setting for setting in settings if not few or (setting.cc in FEW_CC and setting.scheduler == "default")]
    return [first, *(setting for setting in kept if setting != first)]


def _needed(paths: Sequence[Path]) -> int | None:
    """Twice what all paths carry over the longest round trip, queue included, where Linux's buffers
    do not hold it; a power of two.
    """
    rate = sum(max(path.down.high, path.up.high) for path in paths)
    longest_s = max(path.rtt.high + path.queue.high for path in paths) / 1e9
    needed = 2 * rate * longest_s / 8
    if needed <= DEFAULT_WMEM:
        return None
    return 1 << max(int(needed) - 1, 1).bit_length()
