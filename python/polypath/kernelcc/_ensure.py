"""Algorithms in the kernel for the length of a block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from ._program import PREFIX, complaint, custom_files, program


@contextmanager
def ensure(names: Iterable[str]) -> Iterator[dict[str, str]]:
    """Has algorithms in the running kernel for the length of the block, custom ones too
    (`customcc.use`); what the kernel calls each.

    A process of its own holds them for as long as ours lives, and the kernel drops them when that
    process ends, however it ends. What is loaded for good stays; what another process holds is
    shared with it.
    """
    wanted = list(dict.fromkeys(name.removeprefix(PREFIX) for name in names))
    if not wanted:
        yield {}
        return
    # Its standard input closes when we end, also when we are killed. It has a session of its own,
    # so that an interrupt from the keyboard reaches us alone, and we end it in order.
    with subprocess.Popen(
        [str(program()), "hold", *custom_files(wanted), *wanted],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stderr is not None
        try:
            names_held = holder.stdout.readline().split()
            if not names_held:
                raise complaint(holder.stderr.read())
            yield dict(zip(wanted, names_held, strict=True))
        finally:
            holder.stdin.close()
            holder.wait()
