"""The error that a person can mend."""

from polypath.errors import PolypathError


class CustomCcError(PolypathError, ValueError):
    """A custom congestion control cannot be used; the text says who must do what, with the
    compiler's words if it has any.
    """
