"""What every engine is: something that runs a scenario and gives back an outcome with series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa


class EngineError(RuntimeError):
    """An engine failed at a run that should have worked; its text is one sentence."""


class Algorithm(NamedTuple):
    """A congestion control by name."""

    name: str
    # Whether it looks at the sibling subflows.
    coupled: bool


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a run gives back, as crates/sim/src/outcome.rs describes it."""

    outcome: Mapping[str, Any]
    # A row a sample and subflow, and a row a sample and link direction with a queue.
    subflow_series: pa.Table
    link_series: pa.Table


class Engine(ABC):
    """Runs scenarios. Thread-safe; `run` keeps no state, so that the same scenario always gives the same output."""

    name: ClassVar[str]
    summary: ClassVar[str]

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

    @abstractmethod
    def run(self, scenario: Mapping[str, Any]) -> Output:
        """Runs one scenario.

        Raises ValueError with one sentence where the scenario is at fault, `EngineError` where the engine is.
        """
