"""Names of Linux kernels in a study, and of congestion controls that say whose build they are."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from polypath import _native

DEFAULT_KERNEL = "6.12"
# The kernels that the simulator has.
MODELLED = tuple(name for name, _ in _native.kernels())

# Ours, in whichever engine; and the kernel's own, by two names.
OURS, THEIRS, THEIRS_TOO = "@polypath", "@linux", "@kernel"


def _kernel_name(value: Any) -> Any:
    if isinstance(value, int | float):
        # 5.10 without quotes is the number 5.1, and nobody could tell.
        raise ValueError(f'{value} is read as a number; write the kernel in quotes, like "{DEFAULT_KERNEL}"')
    if isinstance(value, str) and "${" not in value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", value):
        raise ValueError(f'"{value}" is no name of a kernel; write one like "{DEFAULT_KERNEL}"')
    return value


KernelName = Annotated[str, Field(min_length=1), BeforeValidator(_kernel_name)]


def split_cc(name: str) -> tuple[str, str]:
    """A congestion control's name without and with whose it is: "cubic@kernel" is ("cubic", "@linux"), "lia" is ("lia", "")."""
    bare, at, whose = name.partition("@")
    return bare, THEIRS if at + whose == THEIRS_TOO else at + whose


def bare_of_ours(name: str) -> str:
    """The bare name of a congestion control that may be ours, "" of one that is the kernel's own."""
    bare, whose = split_cc(name)
    return "" if whose == THEIRS else bare
