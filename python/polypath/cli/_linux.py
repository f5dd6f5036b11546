"""`polypath linux`: the kernels of the linux engine."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from polypath import linux
from polypath.engines import prove

from . import _linux_ab, _linux_bisect, _linux_exec, _linux_packetdrill, _linux_qualify, _linux_replay, _linux_selftests, _script
from ._console import out
from ._steps import steps

app = typer.Typer(help="Kernels for the linux engine: build, list, remove, and run scripts on them.", no_args_is_help=True)


@app.command("build")
def build(
    what: Annotated[
        str,
        typer.Argument(help="6.12, 6.1 or another release that Debian has, or a folder or tarball with a kernel's sources from 5.4 on."),
    ] = "6.12",
    variant: Annotated[
        str,
        typer.Option(
            help="Another configuration, a kernel of its own: `selftests` has what the kernel's network selftests ask for, `hz1000` the "
            "same with 1000 ticks a second."
        ),
    ] = "",
    name: Annotated[str, typer.Option(help="What it is called; default: its release.")] = "",
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Compilers at once; default: one a core.")] = None,
) -> None:
    """Build a kernel; some minutes, once. Needs no privileges if gcc, make, flex, bison and bc are
    there.

    Before it counts as built it is started: equal runs must be equal, another seed must give
    another run, and data must arrive. What was compiled is kept after a failure, and for a folder
    of sources: a second build compiles what changed.
    """
    with steps() as say:
        kernel = linux.build(what, prove=prove, name=name, variant=variant, jobs=jobs, say=say)
    out.print(
        f"ready: kernel {kernel.name} (Linux {kernel.release}); use it with --engine linux, or kernel: {_quoted(kernel.name)} in a study"
    )
    if kernel.mptcp is None:
        out.print("it has no MPTCP: studies with MPTCP flows need another kernel")


@app.command("list")
def list_() -> None:
    """List the kernels that were built."""
    kernels = linux.installed()
    if not kernels:
        out.print("there are no kernels yet; build one with: polypath linux build 6.12")
        return
    table = Table("kernel", "release", "MPTCP", "variant", "built by", "folder", title="kernels", title_justify="left")
    for kernel in kernels:
        by = "this polypath" if kernel.current else "an earlier one: build it again"
        table.add_row(kernel.name, kernel.release, kernel.mptcp_in_words, kernel.variant or "plain", by, str(kernel.file.parent))
    out.print(table)


# In the order in which they are needed.
app.command("selftests")(_linux_selftests.selftests_)
app.command("replay")(_linux_replay.replay)
app.command("ab")(_linux_ab.ab)
app.command("bisect")(_linux_bisect.bisect)
app.command("bisect-step", hidden=True)(_linux_bisect.bisect_step)
app.command("exec")(_linux_exec.exec_)
app.command("script")(_script.script)
app.command("packetdrill")(_linux_packetdrill.packetdrill)
app.command("qualify")(_linux_qualify.qualify)


@app.command("remove")
def remove(name: Annotated[str, typer.Argument(help="A name that `polypath linux list` shows.")]) -> None:
    """Remove a kernel."""
    linux.remove(name)
    out.print(f"removed kernel {name}")


def _quoted(name: str) -> str:
    """As YAML wants it: 6.10 would be the number 6.1."""
    return f'"{name}"'
