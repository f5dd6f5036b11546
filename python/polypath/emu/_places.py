"""Where calls on one machine tell one another what goes on."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from ._errors import EmuError

_FOLDER = Path("/run/polypath")


def own_file(name: str) -> Path:
    """A file that other calls read."""
    return _FOLDER / name


def lock_file(name: str) -> IO[str]:
    """The same, opened to be locked; the first one that is needed makes the folder."""
    try:
        _FOLDER.mkdir(mode=0o755, exist_ok=True)
        return own_file(name).open("w")
    except PermissionError:
        # Root of a user namespace is nobody outside of it.
        raise EmuError(
            f"{_FOLDER} cannot be written, so this is root of a user namespace without a /run of its own: enter one that has it "
            "(unshare --map-root-user --net --mount sh -c 'mount -t tmpfs none /run && exec sh'), or use sudo"
        ) from None
