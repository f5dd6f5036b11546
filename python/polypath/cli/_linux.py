"""`polypath linux`: the kernels of the linux engine."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from polypath import linux
from polypath.engines import Pair, pairs, prove

from . import _linux_ab, _linux_bisect, _linux_exec, _linux_packetdrill, _linux_qualify, _linux_replay, _linux_selftests, _script
from ._console import give, out, rows_of, steps
from ._work import AsJson

app = typer.Typer(help="Kernels for the linux engine: build, list, remove, and run scripts on them.", no_args_is_help=True)


@app.command("build")
def build(
    what: Annotated[
        str,
        typer.Argument(
            help="6.12, 7.3 or another release that Debian has (list --available), or "
            "a folder or tarball with a kernel's sources from 5.4 on."
        ),
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
    another run, and data must arrive. Each congestion control that the kernel and Polypath both
    have is run in both forms, over losses and pauses; where they differ, it says so. What was
    compiled is kept after a failure, and for a folder
    of sources: a second build compiles what changed.
    """
    judged: list[Pair] = []

    def proved(kernel: linux.Kernel) -> None:
        prove(kernel)
        judged.extend(pairs(kernel, say=say))

    with steps() as say:
        kernel = linux.build(what, prove=proved, name=name, variant=variant, jobs=jobs, say=say)
    out.print(
        f"ready: kernel {kernel.name} (Linux {kernel.release}); use it with --engine linux, or kernel: {_quoted(kernel.name)} in a study"
    )
    for pair in judged:
        if pair.difference:
            out.print(pair.difference)
    if kernel.mptcp is None:
        out.print("it has no MPTCP: studies with MPTCP flows need another kernel")


@app.command("list")
def list_(
    available: Annotated[
        bool, typer.Option("--available", help="The releases that Debian has the sources of, in all of its suites.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the kernels that were built, or could be."""
    if available:
        _list_available(as_json=as_json)
        return
    kernels = linux.installed()
    if not kernels and not as_json:
        out.print("there are no kernels yet; build one with: polypath linux build 6.12")
        return
    table = Table("kernel", "release", "MPTCP", "variant", "built by", "folder", title="kernels", title_justify="left")
    for kernel in kernels:
        by = "this polypath" if kernel.current else "an earlier one: build it again"
        table.add_row(kernel.name, kernel.release, kernel.mptcp_in_words, kernel.variant or "plain", by, str(kernel.file.parent))
    give(rows_of(table)) if as_json else out.print(table)


def _list_available(*, as_json: bool) -> None:
    with steps() as say:
        packages = linux.available(say)
    built = {".".join(kernel.release.split(".")[:2]) for kernel in linux.installed()}
    table = Table("release", "package", "suite", "to fetch", "built", title="sources of kernels", title_justify="left")
    for package, here in packages:
        fetch = "nothing" if here else f"{package.bytes / 1e6:.0f} MB"
        table.add_row(
            package.release, f"{package.name} {package.version}", package.suite, fetch, "yes" if package.release in built else "no"
        )
    if as_json:
        give(rows_of(table))
        return
    out.print(table)
    out.print("polypath linux build RELEASE builds one; nothing is installed of a suite that this machine does not use")


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
