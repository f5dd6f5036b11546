"""The programs that building a kernel takes, and the Debian packages that have them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from ._commands import install, run
from ._errors import KernelError

# Program -> package. A static C library comes with libc6-dev.
PROGRAMS = {
    "gcc": "gcc",
    "ld": "binutils",
    "make": "make",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "xz": "xz-utils",
    "tar": "tar",
}
_STATIC_LIBC = "libc6-dev"


def missing() -> list[str]:
    """The Debian packages that are not there."""
    found = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if shutil.which("gcc"):
        library = run("gcc", "-print-file-name=libc.a", cwd=Path("/"), what="asking gcc for the C library").strip()
        # A bare name means that gcc did not find it.
        if not Path(library).is_absolute():
            found.append(_STATIC_LIBC)
    else:
        found.append(_STATIC_LIBC)
    return found


def require(say: Callable[[str], None]) -> None:
    """Sees to it that all is there; as root missing packages are installed."""
    packages = missing()
    if not packages:
        return
    names = " ".join(packages)
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"installing the Debian packages {names}")
        run("apt-get", "update", "-qq", cwd=Path("/"), what=f"installing {names}")
        install(*packages, what=f"installing {names}")
        packages = missing()
    if packages:
        raise KernelError(f"building a kernel needs the Debian packages {' '.join(packages)}: install them (apt-get install) and try again")
