"""What is wrong with a measurement."""

from __future__ import annotations

from polypath.errors import PolypathError


class TraceError(PolypathError, ValueError):
    """A file cannot be read as a measurement; its text is one sentence with file and line."""
