"""What an engine raises."""

from __future__ import annotations

from typing import ClassVar

from polypath.errors import PolypathError


class EngineError(PolypathError, RuntimeError):
    """An engine failed at a run that should have worked; its text is one sentence."""

    exit_status: ClassVar[int] = 1


class NotBuiltError(EngineError):
    """A program of the engine is not there."""

    exit_status: ClassVar[int] = 2
