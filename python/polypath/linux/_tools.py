"""Sees to it that the machine has what building a kernel takes."""

from __future__ import annotations

import os
from collections.abc import Callable

from polypath import programs

from ._commands import apt_get, install
from ._errors import KernelError


def missing() -> list[str]:
    """The Debian packages that are not there."""
    return programs.packages(programs.missing("linux"))


def require(say: Callable[[str], None]) -> None:
    """Sees to it that all is there; as root missing packages are installed."""
    packages = missing()
    if not packages:
        return
    names = " ".join(packages)
    if os.geteuid() == 0 and programs.find("apt-get"):
        say(f"installing the Debian packages {names}")
        apt_get("update", what=f"installing {names}", say=say)
        install(*packages, what=f"installing {names}", say=say)
        packages = missing()
    if packages:
        raise KernelError(f"building a kernel needs the Debian packages {' '.join(packages)}: install them (apt-get install) and try again")
