"""What is raised here."""

from __future__ import annotations

from polypath.errors import PolypathError


class BisectError(PolypathError, RuntimeError):
    """The commits, the command or the outcomes do not allow a bisect; its text is one sentence that
    says who must do what.
    """
