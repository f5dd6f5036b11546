"""The command line: reads arguments, calls the packages below, prints. Every mistake of a user ends
in one sentence and exit code 2.
"""

import os
import sys

__all__ = ["main"]

# As a shell says it of a program that Ctrl-C ended.
_INTERRUPTED = 130


def main() -> None:
    """Runs the command line; the entry point of the package."""
    # No plugin of pydantic's has a say in studies, and looking for one takes as long as reading a
    # study does.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # The library of charts asks for a grammar of addresses that no chart has, and compiling it takes
    # longer than the tables of most studies.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    try:
        # What it needs takes a second to load, in which a person may think better of it.
        from ._app import main as begin
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    begin()
