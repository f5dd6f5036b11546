"""Why sockets cannot be seen, as one sentence."""

from polypath.errors import PolypathError


class SocketsError(PolypathError, RuntimeError):
    """The text is one sentence that says who must do what."""
