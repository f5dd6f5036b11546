"""Where a study's runs are carried out: on this machine, or on those of an engine that a lab runs
already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass

from polypath.engines import Engine
from polypath.study import Run

from ._finished import Failed, Finished
from ._handover import Handover


@dataclass(frozen=True, kw_only=True)
class State:
    """How far a sweep is."""

    machines: int
    threads: int
    # Runs that are on a machine now.
    active: int
    # What a person should know, such as "the scheduler does not answer".
    note: str = ""


class Backend(ABC):
    """Machines that carry out runs."""

    # As a person writes it after --on.
    name: str
    # Where machines put what they finish, if they do not hand it back.
    handover: Handover | None
    # Whether machines build kernels that they lack.
    build_kernels: bool

    @abstractmethod
    def carry_out(self, engine: Engine, runs: Iterable[Run], tell: Callable[[State], None]) -> Generator[Finished | Failed]:
        """Each run once, in the order in which they end; closing the iterator takes back what was
        handed out.

        `runs` are made while others run, and only as far as they are asked for.
        Raises `StudyError` where a machine lacks what the runs need, before any of them runs.
        """
