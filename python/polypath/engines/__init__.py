"""Engines: what can run a scenario. Each is one small class; nothing here knows tables or files."""

from ._base import Algorithm, Engine, EngineError, Output
from ._fake import FakeEngine
from ._registry import ENGINES, check, find
from ._sim import SimEngine

__all__ = ["ENGINES", "Algorithm", "Engine", "EngineError", "FakeEngine", "Output", "SimEngine", "check", "find"]
