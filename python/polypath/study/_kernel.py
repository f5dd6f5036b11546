"""Names of Linux kernels in a study, and of congestion controls that say whose build they are."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field

from polypath import _native

DEFAULT_KERNEL = "6.12"
# The kernel whose MPTCP is that of multipath-tcp.org; others of that kind have a name with the same
# end.
OUT_OF_TREE = "5.4-mptcp"
_OF_ITS_KIND = "-mptcp"
# What a flow's `profile` said before there was `kernel`.
FORMERLY = {"v0": OUT_OF_TREE, "v1": DEFAULT_KERNEL}


class ModelledKernel(NamedTuple):
    """A kernel of the simulator: a column of its table (docs/reference/kernels.md)."""

    name: str
    release: str
    # Version of MPTCP: 0 (RFC 6824) or 1 (RFC 8684).
    mptcp: int
    most_subflows: int
    # Of the DSS option on a data segment with a DATA_ACK and without a checksum.
    dss_bytes: int


# The kernels that the simulator has, by name.
MODELLED = {kernel[0]: ModelledKernel(*kernel) for kernel in _native.kernels()}

# Ours, in whichever engine; and the kernel's own, by two names.
OURS, THEIRS, THEIRS_TOO = "@polypath", "@linux", "@kernel"


def _kernel_name(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        # 5.10 without quotes is the number 5.1.
        raise ValueError(f'{value} is read as a number; write the kernel in quotes, like "{DEFAULT_KERNEL}"')
    if isinstance(value, str) and value in FORMERLY:
        raise ValueError(f'"{value}" is the MPTCP of a kernel, and not its name; write "{FORMERLY[value]}"')
    if isinstance(value, str) and "${" not in value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", value):
        raise ValueError(f'"{value}" is no name of a kernel; write one like "{DEFAULT_KERNEL}"')
    return value


def nearest(kernel: str) -> ModelledKernel:
    """The kernel of the simulator that has this name, or else the same MPTCP, by its name."""
    return MODELLED.get(kernel) or MODELLED[OUT_OF_TREE if _OF_ITS_KIND in kernel else DEFAULT_KERNEL]


KernelName = Annotated[str, Field(min_length=1), BeforeValidator(_kernel_name)]


def split_cc(name: str) -> tuple[str, str]:
    """A congestion control's name without and with whose it is: "cubic@kernel" is ("cubic",
    "@linux"), "lia" is ("lia", "").
    """
    bare, at, whose = name.partition("@")
    return bare, THEIRS if at + whose == THEIRS_TOO else at + whose


def scheduler_of_ours(name: str | None) -> str:
    """The bare name of a scheduler that may be ours, without weights; "" of one that is the
    kernel's own.
    """
    return bare_of_ours((name or "").split(" ", 1)[0])


def bare_of_ours(name: str) -> str:
    """The bare name of a congestion control that may be ours, "" of one that is the kernel's own."""
    bare, whose = split_cc(name)
    return "" if whose == THEIRS else bare
