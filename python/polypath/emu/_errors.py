"""Why there can be no emulation, as one sentence."""

from __future__ import annotations

import os
import sys

from polypath.errors import PolypathError


class EmuError(PolypathError, RuntimeError):
    """The text is one sentence that says who must do what."""


def require_root() -> None:
    """Namespaces and packets of all kinds are root's."""
    if not sys.platform.startswith("linux"):
        raise EmuError("emulated links are made of Linux's network namespaces: run this on Linux")
    if os.geteuid() != 0:
        raise EmuError("emulated links need root, to make network namespaces and to send and receive whole packets: run this with sudo")
    if not os.access("/run", os.W_OK):
        # Root of a user namespace is nobody outside of it.
        raise EmuError(
            "/run cannot be written, so this is root of a user namespace that has no /run of its own: mount one, in a mount namespace "
            "(mount -t tmpfs none /run), or use sudo"
        )
