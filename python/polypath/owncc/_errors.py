"""The error that a person can mend."""

from polypath.errors import PolypathError


class OwnCcError(PolypathError, ValueError):
    """A congestion control of a person's own cannot be used; the text says who must do what, with the compiler's words if it has any."""
