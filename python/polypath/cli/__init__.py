"""The command line: reads arguments, calls the packages below, prints. Every mistake of a user ends in one sentence and exit code 2."""

from ._app import app, main

__all__ = ["app", "main"]
