"""Congestion controls that a person wrote: C files in a folder outside of the project, each in the language of cc/algs.

    from polypath import owncc

    owncc.new("mine", "my-cc")      # writes my-cc/mine.c, which works
    owncc.use("my-cc")              # compiles what is there; from now on studies may say `cc: mine`

`use` compiles with this machine's C compiler and counts for the whole process. Kernels get the same file: the engine linux links it into
its executable, the engine host loads it as BPF. Every mistake is an `OwnCcError`, with the compiler's words if it found it.
"""

from ._bpf import bpf_objects_for
from ._compile import Own, object_for, use, use_sent, used
from ._errors import OwnCcError
from ._place import sources
from ._skeleton import new

__all__ = ["Own", "OwnCcError", "bpf_objects_for", "new", "object_for", "sources", "use", "use_sent", "used"]
