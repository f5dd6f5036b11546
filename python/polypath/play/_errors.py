"""What can go wrong with the playground."""

from __future__ import annotations

from polypath.errors import PolypathError


class PlayError(PolypathError, RuntimeError):
    """The playground cannot be served."""
