"""What was measured elsewhere, as an engine beside the others: its runs are imported, and none can
be run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from polypath.study import Cell

from ._base import Algorithm, Engine, Output
from ._errors import EngineError


class MeasuredEngine(Engine):
    """Stands in the tables for measurements of other tools; never offered to run a study."""

    name: ClassVar[str] = "measured"
    summary: ClassVar[str] = "what was measured elsewhere (polypath import)"
    # Nothing but the study and the imported file decides a row.
    version = "1"

    def algorithms(self) -> list[Algorithm]:
        return []

    def schedulers(self) -> list[str]:
        return []

    def check(self, cell: Cell, kernel: str | None = None) -> None:
        return

    def check_baseline(self, cc: str) -> None:
        return

    def run(self, scenario: Mapping[str, Any]) -> Output:
        raise EngineError("nothing was imported for this cell and seed: `polypath import FILE --study STUDY` takes what was measured")
