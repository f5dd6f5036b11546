"""What every engine is: something that runs a scenario and gives back an outcome with series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple

from polypath.study import Cell, SetupError, unknown

if TYPE_CHECKING:
    import pyarrow as pa


class Algorithm(NamedTuple):
    """A congestion control by name."""

    name: str
    # Whether it looks at the sibling subflows.
    coupled: bool
    # By what it knows congestion: loss, delay, hybrid or model. Empty, as what follows, for those
    # that only a kernel has.
    family: str = ""
    # Papers and standards.
    source: str = ""
    # What Linux calls its own of this kind, and what else people call it (with spaces between).
    counterpart: str = ""
    aliases: str = ""
    # Whether runs with other seeds differ by it alone.
    draws: bool = False
    # Whether its packets say ECT(1), that they are L4S traffic.
    l4s: bool = False


def unknown_cc(name: str, algorithms: Iterable[Algorithm]) -> str:
    """One sentence: which congestion control is not known, what else it may be called, and all
    there are.
    """
    algorithms = list(algorithms)
    meant = next((algorithm.name for algorithm in algorithms if name.lower() in algorithm.aliases.split()), None)
    sentence = unknown("congestion control", name, [algorithm.name for algorithm in algorithms], meant=meant)
    return sentence if meant else f"{sentence}; one of your own, in a file {name}.c, is found by --cc-path FOLDER"


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a run gives back, as crates/sim/src/outcome.rs describes it."""

    outcome: Mapping[str, Any]
    # A row a sample and subflow, and a row a sample and link direction with a queue.
    subflow_series: pa.Table
    link_series: pa.Table
    # By file name, open for reading: packets that were captured.
    captures: Mapping[str, BinaryIO] = field(default_factory=dict)


class Engine(ABC):
    """Runs scenarios. Thread-safe; `run` keeps no state, so that the same scenario always gives the
    same output.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    # Runs at once by default; None: one a core.
    workers: ClassVar[int | None] = None
    # Whether runs take the time they last, so that they may be late and chance has a part in them.
    real_time: ClassVar[bool] = False

    @property
    @abstractmethod
    def version(self) -> str:
        """Changes whenever the outcome of any scenario may."""

    @abstractmethod
    def algorithms(self) -> list[Algorithm]:
        """Congestion controls it knows, by name."""

    @abstractmethod
    def schedulers(self) -> list[str]:
        """MPTCP schedulers it knows, by name."""

    @property
    def only_kernel(self) -> str | None:
        """The kernel that all runs have whatever a study asks for; None: the study's own."""
        return None

    def versions(self, kernel: str | None = None) -> str | Callable[[str], str]:
        """The version for `polypath.study.runs`: of an engine that runs kernels, that with each of
        them.
        """
        return self.version

    def kernels(self) -> list[str | None]:
        """What may stand in for a study's kernel; None: nothing does."""
        return [None]

    def modelled_kernels(self) -> Sequence[str]:
        """Names of the kernels that its hosts can be modelled on, where it models any."""
        return ()

    def platform(self, cell: Cell, kernel: str | None = None) -> str:
        """What runs a cell, in words: the engine, with its kernel if it has one."""
        return self.name

    def left_out(self, cell: Cell, kernel: str | None = None) -> str | None:
        """Why a cell that is no mistake cannot run here, in words that go on from "cells with";
        None if it can.
        """
        return None

    def otherwise(self, cell: Cell) -> Iterable[str]:
        """What of a cell it carries out in another measure than the study's, a few words each."""
        return ()

    def check(self, cell: Cell, kernel: str | None = None) -> None:
        """Raises `SetupError` if the cell asks for something that is not there. Runs nothing."""
        algorithms, schedulers = self.algorithms(), self.schedulers()
        for name, flow in cell.setup.flows.items():
            if flow.transport != "udp" and flow.cc not in (algorithm.name for algorithm in algorithms):
                raise cell.error(("flows", name, "cc"), unknown_cc(flow.cc, algorithms))
            # Weights may follow a name.
            if flow.scheduler is not None and flow.scheduler.split(" ")[0] not in schedulers:
                raise cell.error(("flows", name, "scheduler"), unknown("scheduler", flow.scheduler, schedulers))

    def check_baseline(self, cc: str) -> None:
        """Raises `SetupError` if there is no such congestion control for the baselines."""
        algorithms = self.algorithms()
        if cc not in (algorithm.name for algorithm in algorithms):
            raise SetupError(("baselines", "cc"), unknown_cc(cc, algorithms))

    def stop(self) -> None:
        """Ends what is running now, for somebody who does not want to wait; what `run` gives back
        then means nothing.
        """
        return

    @abstractmethod
    def run(self, scenario: Mapping[str, Any]) -> Output:
        """Runs one scenario.

        Raises ValueError with one sentence where the scenario is at fault, `EngineError` where the
        engine is.
        """
