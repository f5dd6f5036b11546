"""`polypath tunnel`: a tunnel of GRE in UDP over several paths, carried by the program polypath-tunnel."""

from __future__ import annotations

import os
from typing import Annotated, NoReturn

import typer

from polypath import tunnel as _tunnel

app = typer.Typer(help="A tunnel over several paths, for any traffic, encrypted if its file says so. Needs root.", no_args_is_help=True)


def _start(*words: str) -> NoReturn:
    program = str(_tunnel.program())
    os.execv(program, [program, *words])


@app.command("up")
def up(file: Annotated[str, typer.Argument(metavar="FILE.toml", help="The tunnel's file.")]) -> None:
    """Bring a tunnel up, in the background."""
    _start("up", file)


@app.command("down")
def down(name: Annotated[str | None, typer.Argument(help="A tunnel or its file; default: the only one.")] = None) -> None:
    """Take a tunnel down."""
    _start("down", *([name] if name else []))


@app.command("status")
def status(
    name: Annotated[str | None, typer.Argument(help="A tunnel or its file; default: the only one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show what passed each path, what was dropped and why, and what reordering did."""
    _start("status", *([name] if name else []), *(["--json"] if as_json else []))


@app.command("import")
def import_(folder: Annotated[str, typer.Argument(help="MPT's folder with interface.conf and connections/.")]) -> None:
    """Print our file for each connection of MPT's files."""
    _start("import", folder)


@app.command("keygen")
def keygen(file: Annotated[str, typer.Argument(metavar="FILE.key", help="Where the private key goes. What is there is kept.")]) -> None:
    """Write a new private key to a file, and print its public key, which goes into the other end's file."""
    _start("keygen", file)


@app.command("pubkey")
def pubkey(file: Annotated[str, typer.Argument(metavar="FILE.key", help="A private key's file.")]) -> None:
    """Print the public key of a private key."""
    _start("pubkey", file)
