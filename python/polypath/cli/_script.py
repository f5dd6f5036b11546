"""`polypath script`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polypath import linux
from polypath.engines import run_packets
from polypath.study import DEFAULT_KERNEL, StudyError


def script(
    files: Annotated[list[Path], typer.Argument(help="Scripts of packets, as in tests/scripts.")],
    engine: Annotated[str, typer.Option(help="`sim`, the simulator's endpoint, or `linux`, a kernel in virtual time.")] = "sim",
    kernel: Annotated[
        str | None, typer.Option(help=f"Which kernel; default: {DEFAULT_KERNEL} on linux, on sim each that a script is about.")
    ] = None,
) -> None:
    """Run scripts of packets: what one endpoint must answer to which packets, and when.
    `tests/scripts/README.md` says how to write one.
    """
    for file in files:
        if not file.is_file():
            raise StudyError(f"there is no script {file}")
    if engine not in ("sim", "linux"):
        raise StudyError(f"scripts of packets run on the engines sim and linux, not on {engine}")
    if engine == "sim":
        code, said = run_packets(files, kernel=kernel)
    else:
        name = kernel or DEFAULT_KERNEL
        code, said = run_packets(files, kernel=name, machine=linux.find(name).file)
    typer.echo(said, nl=False)
    raise typer.Exit(code)
