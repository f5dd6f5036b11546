"""Our congestion controls in the running kernel.

    from polypath import kernelcc

    with kernelcc.ensure(["lia", "cubic"]) as names:
        names["lia"]        # what the kernel calls it: "pp_lia"

`ensure` has them there for the length of the block, also for other processes; they leave with the
process, however it ends, unless somebody loaded them for good (`load`). All of it needs root and
raises `KernelCcError`, whose text is one sentence, if the kernel or the machine lacks something.
The program polypath-cc does the work; this package starts it, and no sysctl is changed.
"""

from ._ensure import ensure
from ._program import KernelCcError, available, check, load, status, unload
from ._status import Algorithm, Loaded, Own, Share, Status

__all__ = ["Algorithm", "KernelCcError", "Loaded", "Own", "Share", "Status", "available", "check", "ensure", "load", "status", "unload"]
