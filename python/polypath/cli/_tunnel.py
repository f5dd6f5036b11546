"""`polypath tunnel`: a tunnel of GRE in UDP over several paths, carried by the program
polypath-tunnel.
"""

from __future__ import annotations

import os
from typing import Annotated, NoReturn

import typer
from rich.table import Column, Table

from polypath import tunnel as _tunnel

from ._console import give, out, renamed
from ._work import AsJson

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
    as_json: AsJson = False,
) -> None:
    """Show what passed each path, what was dropped and why, and what reordering did."""
    _start("status", *([name] if name else []), *(["--json"] if as_json else []))


@app.command("import")
def import_(folder: Annotated[str, typer.Argument(help="MPT's folder with interface.conf and connections/.")]) -> None:
    """Print our file for each connection of MPT's files."""
    _start("import", folder)


@app.command("keygen")
def keygen(file: Annotated[str, typer.Argument(metavar="FILE.key", help="Where the private key goes. What is there is kept.")]) -> None:
    """Write a new private key to a file, and print its public key, which goes into the other end's
    file.
    """
    _start("keygen", file)


@app.command("pubkey")
def pubkey(file: Annotated[str, typer.Argument(metavar="FILE.key", help="A private key's file.")]) -> None:
    """Print the public key of a private key."""
    _start("pubkey", file)


@app.command("bench", hidden=True)
def bench(
    as_json: AsJson = False,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of each of the measurements, eight to a row and repetition.")] = 1.0,
    repeat: Annotated[int, typer.Option(min=1, help="Repetitions; the medians count.")] = 3,
) -> None:
    """The same as `polypath bench --engine tunnel`."""
    renamed("tunnel bench", "bench --engine tunnel")
    measure(seconds, repeat, as_json=as_json)


def measure(seconds: float, repeat: int, *, as_json: bool) -> None:
    """Measures what the tunnel carries over two veth pairs of this machine, beside a bare one and, if
    it is installed, wireguard-go.
    """
    from polypath.tunnel import _bench

    rows = _bench.bench(seconds, repeat)
    if as_json:
        give(rows)
        return
    heads = ("TCP Gbit/s", "UDP packets/s, nothing lost", "sent as fast as can be", "of which received", "processor s/GB")
    table = Table("between two namespaces", *(Column(head, justify="right") for head in heads))
    for name, row in rows.items():
        if "missing" in row:
            table.add_row(name, row["missing"])
            continue
        counts = (f"{row[key]:,.0f}" for key in ("lossless_per_s", "sent_per_s", "received_per_s"))
        name += f" ({row['version']})" if "version" in row else ""
        table.add_row(name, f"{row['tcp_bits_per_s'] / 1e9:.2f}", *counts, f"{row['cpu_s_per_gb']:.2f}")
    out.print(table)
    out.print("UDP packets have 1400 bytes. TCP is one connection. Medians; the rows of a repetition are measured one after the other.")
