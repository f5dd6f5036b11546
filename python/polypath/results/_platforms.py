"""What the tables held before by platform (an engine and its kernel), and the versions that these
have now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from polypath import customcc
from polypath.engines import ENGINES, Engine, EngineError, MeasuredEngine
from polypath.linux import KernelError
from polypath.study import Cell


class Versions:
    """An engine's versions by kernel. With one that is gone it has the version whose runs the
    tables held: what it ran is still there.
    """

    def __init__(self, engine: Engine, before: Mapping[str, str]) -> None:
        self._engine = engine
        self._before = before
        self._found: dict[str, str | None] = {}
        versions = engine.versions()
        self.all: str | Callable[[str], str] = versions if isinstance(versions, str) else self._of

    def left_out(self, kernel: str | None, cell: Cell) -> bool:
        """Whether this cell never ran."""
        name = kernel or cell.setup.kernel
        if not isinstance(self.all, str) and self.now(name) is None:
            return f"{self._engine.name} {name}" not in self._before
        return self._engine.left_out(cell, kernel) is not None

    def _of(self, kernel: str) -> str:
        return self.now(kernel) or self._before[f"{self._engine.name} {kernel}"]

    def now(self, kernel: str) -> str | None:
        """The version with this kernel; None where it is gone, or was never there."""
        if isinstance(self.all, str):
            return self.all
        if kernel not in self._found:
            self._found[kernel] = self._look_up(kernel)
        return self._found[kernel]

    def _look_up(self, kernel: str) -> str | None:
        versions = self._engine.versions(kernel)
        assert not isinstance(versions, str), "an engine that runs kernels has a version with each"
        try:
            return versions(kernel) if self._engine.only_kernel in (None, kernel) else None
        except (KernelError, EngineError):
            return None


def other_engines(engine: Engine, before: Mapping[str, str]) -> Iterator[Engine]:
    """The engines of which the tables had runs. An engine that this study never ran on may be one that is
    not there.
    """
    names = {engine_of(platform) for platform in before} - {engine.name}
    yield from (other() for name, other in ENGINES.items() if name in names)
    if MeasuredEngine.name in names:
        yield MeasuredEngine()


def engine_of(platform: str) -> str:
    """The engine's name in a platform such as "linux 6.12"."""
    return platform.partition(" ")[0]


def custom_hashes() -> dict[str, str]:
    """What decides a run of a custom congestion control."""
    return {name: algorithm.hash for name, algorithm in customcc.used().items()}
