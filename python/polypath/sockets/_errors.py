"""Why sockets cannot be seen, as one sentence."""


class SocketsError(RuntimeError):
    """The text is one sentence that says who must do what."""
