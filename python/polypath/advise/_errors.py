"""Why there is no advice, as one sentence."""

from polypath.errors import PolypathError


class AdviceError(PolypathError, ValueError):
    """The text is one sentence that says who must do what."""
