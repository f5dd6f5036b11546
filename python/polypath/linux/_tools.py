"""Sees to it that the machine has what building a kernel takes, and what its tests use."""

from __future__ import annotations

import os
from collections.abc import Callable

from polypath import programs

from ._commands import apt_get, install
from ._errors import KernelError

# What needs them, for the sentence about what is missing.
_WHO = {"linux": "building a kernel needs", "selftests": "the kernel's selftests need"}


def missing(use: str = "linux") -> list[str]:
    """The Debian packages that are not there."""
    return programs.packages(programs.missing(use))


def require(say: Callable[[str], None], use: str = "linux") -> None:
    """Sees to it that all is there that the list names for a use; as root missing packages are
    installed.
    """
    packages = missing(use)
    if not packages:
        return
    names = " ".join(packages)
    if os.geteuid() == 0 and programs.find("apt-get"):
        say(f"installing the Debian packages {names}")
        apt_get("update", purpose=f"installing {names}", say=say)
        install(*packages, purpose=f"installing {names}", say=say)
        packages = missing(use)
    if packages:
        raise KernelError(f"{_WHO[use]} the Debian packages {' '.join(packages)}: install them (apt-get install) and try again")
