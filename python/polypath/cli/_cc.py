"""`polypath cc`: our congestion controls in the running kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from polypath import kernelcc
from polypath.kernelcc import Share

from ._console import give, out
from ._work import AsJson, CcPath, Into, NewName, begin, use_custom

app = typer.Typer(
    help="Congestion controls: begin one of your own; load ours into this machine's kernel and see who uses them, as root and without "
    "building a kernel.",
    no_args_is_help=True,
)

_Names = Annotated[list[str], typer.Argument(help="Algorithms, such as lia; the kernel's name, pp_lia, will do too.", show_default=False)]


@app.command("new")
def new(
    name: NewName,
    into: Into = Path(),
    begin_from: Annotated[
        str | None, typer.Option("--from", metavar="NAME", help="Begin with a copy of this one, such as lia; see `polypath list cc`.")
    ] = None,
    coupled: Annotated[
        bool, typer.Option("--coupled", help="Begin with a small one that sees all subflows of its MPTCP connection.")
    ] = False,
) -> None:
    """Begin a congestion control of your own: NAME.c, which works, for
    `polypath run STUDY --cc-path FOLDER` and `polypath cc load`. It is Reno, unless you say more.
    """
    begin("cc", name, into, begin_from, coupled=coupled)


@app.command("load")
def load(names: _Names, cc_path: CcPath = None) -> None:
    """Load algorithms into the running kernel, which calls them pp_NAME; they stay until they are
    unloaded.
    """
    use_custom(cc_path)
    for name in kernelcc.load(names):
        out.print(f"loaded {name}; choose it with: sysctl net.ipv4.tcp_congestion_control={name}, or setsockopt TCP_CONGESTION")
    state = kernelcc.status()
    coupled = {algorithm.kernel_name for algorithm in state.algorithms if algorithm.coupled}
    if not state.mptcp and any(algorithm.name in coupled for algorithm in state.loaded):
        out.print("MPTCP is switched off here, and without it a coupled algorithm is alone on its path: sysctl net.mptcp.enabled=1")


@app.command("unload")
def unload(
    names: _Names,
    force: Annotated[bool, typer.Option("--force", help="Also if sockets use one; they keep it until they end.")] = False,
) -> None:
    """Take algorithms out of the running kernel."""
    for name in kernelcc.unload(names, force=force):
        out.print(f"unloaded {name}")


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Show which algorithms the kernel has, ours and its own, and who uses them."""
    state = kernelcc.status()
    if as_json:
        give(state.model_dump(mode="json"))
        return
    table = Table("congestion control", "from", "any user", "used by", title=f"Linux {state.release}", title_justify="left")
    words = {"loaded": "polypath", "held": "polypath, while a process holds it", "leaving": "polypath, unloaded"}
    built_in = {algorithm.kernel_name for algorithm in state.algorithms}
    for ours in state.loaded:
        another = ", another build" if ours.name in built_in else ", your own"
        whose = words[ours.how] + ("" if ours.this_build else another)
        table.add_row(ours.name, whose, "yes" if ours.allowed else "no", _users(ours.sockets) or _sockets_text(ours.users))
    for algorithm in state.own:
        table.add_row(algorithm.name, "the kernel", "yes" if algorithm.allowed else "no", _users(algorithm.sockets))
    out.print(table)
    here = {algorithm.name for algorithm in state.loaded}
    rest = [algorithm.name for algorithm in state.algorithms if algorithm.kernel_name not in here]
    if rest:
        out.print(f"can be loaded: {' '.join(rest)}")


@app.command("check")
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Algorithms; default: all, with --cc-path yours.", show_default=False)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random flows.")] = 1,
    cc_path: CcPath = None,
    as_json: AsJson = False,
) -> None:
    """Run every algorithm in this kernel and in the simulator, on scripted and random flows, and
    compare the windows.
    """
    custom = use_custom(cc_path, "cc")
    same, lines = kernelcc.check(names or custom, seed=seed)
    for line in lines:
        out.print(line, soft_wrap=True)
    if as_json:
        verdicts = [(name, said) for name, _, said in (line.partition(": ") for line in lines)]
        give({"same": same, "checked": [{"name": name, "same": said.startswith("same"), "said": said} for name, said in verdicts]})
    if not same:
        raise typer.Exit(1)


def _users(shares: Iterable[Share]) -> str:
    parts = []
    for share in shares:
        if share.sockets:
            parts.append(f"{_sockets_text(share.sockets)} in {share.namespace}")
        if share.default:
            parts.append(f"default of {share.namespace}")
    return ", ".join(parts)


def _sockets_text(sockets: int) -> str:
    return "" if not sockets else f"{sockets} socket{'s' if sockets != 1 else ''}"
