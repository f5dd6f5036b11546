"""What is raised here."""

from __future__ import annotations

from polypath.errors import PolypathError


class SelftestError(PolypathError, RuntimeError):
    """A test, a seed or a program is not to be had; its text is one sentence that says who must do
    what.
    """
