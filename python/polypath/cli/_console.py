"""Where the command line prints."""

from __future__ import annotations

from rich.console import Console

# A table in a file or a pipe must not be cut at a terminal's width that is not there.
_WIDE = 160

out = Console(highlight=False)
if not out.is_terminal:
    out = Console(highlight=False, width=_WIDE)
err = Console(stderr=True, highlight=False)


def complain(sentence: str) -> None:
    """One sentence about what went wrong."""
    err.print(f"polypath: {sentence}", markup=False, soft_wrap=True)
