"""What can be wrong about a kernel, as one sentence."""

from __future__ import annotations

from polypath.errors import PolypathError


class KernelError(PolypathError, RuntimeError):
    """No such kernel, or it cannot be built here; the text is one sentence that says who must do
    what.
    """
