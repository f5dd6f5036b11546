"""Congestion controls and schedulers that a person wrote: C files in a folder outside of the
project, each in the language of cc/algs and cc/sched.

    from polypath import customcc

    customcc.new("mine", "my-cc")      # writes my-cc/mine.c, which works; kind="sched": a scheduler
    customcc.use("my-cc")              # compiles what is there; from now on studies may say `cc: mine`

`use` compiles with this machine's C compiler and counts for the whole process. Kernels get the same
file: the engine linux links it into its executable, the engine host loads it as BPF. Every mistake
is a `CustomCcError`, with the compiler's words if it found it.
"""

from ._bpf import bpf_objects_for
from ._compile import Algorithm, link, object_for, ours, use, use_file, use_sent, used
from ._errors import CustomCcError
from ._folders import KINDS, sources
from ._skeleton import new

__all__ = [
    "KINDS",
    "Algorithm",
    "CustomCcError",
    "bpf_objects_for",
    "link",
    "new",
    "object_for",
    "ours",
    "sources",
    "use",
    "use_file",
    "use_sent",
    "used",
]
