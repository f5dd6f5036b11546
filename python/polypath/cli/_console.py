"""Where the command line prints. A console is made when it is asked for: a mistake is told without the library that draws tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    out: Console
    err: Console

# A table in a file or a pipe must not be cut at a terminal's width that is not there.
_WIDE = 160


def __getattr__(name: str) -> Console:
    if name not in ("out", "err"):
        raise AttributeError(name)
    from rich.console import Console

    made = Console(stderr=name == "err", highlight=False)
    if name == "out" and not made.is_terminal:
        made = Console(highlight=False, width=_WIDE)
    globals()[name] = made
    return made


def complain(sentence: str) -> None:
    """One sentence about what went wrong."""
    print(f"polypath: {sentence}", file=sys.stderr)
