"""The tunnel daemon: where its program is. `polypath tunnel` starts it; on a router it does without
this package.
"""

from pathlib import Path

from polypath import programs
from polypath.errors import PolypathError

__all__ = ["PROGRAM", "TunnelError", "program"]

PROGRAM = Path(__file__).parent / "bin" / "polypath-tunnel"


class TunnelError(PolypathError):
    """The program was not built; the text is one sentence that says who must do what."""


def program() -> Path:
    """Where it is; raises if it was not built."""
    if not PROGRAM.is_file():
        raise TunnelError(programs.not_built(PROGRAM.name))
    return PROGRAM
