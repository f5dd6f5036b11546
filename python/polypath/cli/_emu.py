"""`polypath emu`: a topology's network on this machine, its links in real time."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from polypath import emu
from polypath.study import load_setup

from . import _studies
from ._console import give, out, renamed, time_of
from ._work import AsJson

app = typer.Typer(
    help="Emulated links on this machine, for any program: a topology's nodes as network namespaces. Needs root.", no_args_is_help=True
)


@app.command("up")
def up(
    file: Annotated[str, typer.Argument(metavar="FILE|STUDY", help="A file with a `topology:`, or a study (its first cell).")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of jitter and random losses.")] = 1,
    late_limit: Annotated[
        str, typer.Option(help="A link whose packets are later than this at the 99th percentile is not to be trusted.")
    ] = "1ms",
    mptcp: Annotated[
        bool,
        typer.Option("--mptcp", help="Give the flows' clients and servers endpoints and limits, so that MPTCP uses all paths."),
    ] = False,
) -> None:
    """Build the network and start its emulator; then `polypath emu exec NODE -- PROGRAM` runs
    programs in it.
    """
    emu.require_root()
    limit = time_of("--late-limit", late_limit, emu.EmuError)
    path = _studies.path(file)
    lab = emu.up(str(path), load_setup(path), seed=seed, late_limit_ns=limit, mptcp=mptcp)
    table = Table("node", "address", "device", "link", title=f"up: {path}", title_justify="left")
    for node, rows in lab.addresses.items():
        for number, (address, device, link) in enumerate(rows):
            table.add_row("" if number else node, address, device, link)
    out.print(table)
    for node, words in lab.mptcp.items():
        out.print(f"MPTCP at {node}: {words}", soft_wrap=True)
    first = next(iter(lab.addresses))
    out.print(f"enter a node: polypath emu exec {first} -- bash; how it fares: polypath emu status; the end: polypath emu down")


@app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def exec_(
    node: Annotated[str, typer.Argument(help="A node of the network that is up.")],
    command: Annotated[list[str] | None, typer.Argument(help="A program and its arguments; default: a shell.")] = None,
) -> None:
    """Run a program on a node."""
    # `exec h1 -- bash` and `exec h1 bash` mean the same.
    program = command[1:] if command and command[0] == "--" else command
    words = emu.entrance(node, program or [os.environ.get("SHELL", "/bin/sh")])
    os.execv(words[0], words)


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Show what passed each link, what was dropped, and how late packets left."""
    report = emu.status()
    if as_json:
        give(report.status)
        return
    heads = ("packets", "MB", "queue full", "lost", "too long", "down", "in it", "late: median", "99 %", "most")
    table = Table("link", *(Column(head, justify="right") for head in heads), title=report.lab.file, title_justify="left")
    ends = _ends(report.lab)
    for row in report.status["directions"]:
        drops = [str(row[f"{kind}_drops"]) for kind in ("queue", "loss", "mtu", "down")]
        late = [_span(row[f"late_{statistic}_us"]) if row["packets"] else "" for statistic in ("median", "p99", "max")]
        a, b = ends[row["link"]] if row["a_to_b"] else reversed(ends[row["link"]])
        table.add_row(f"{row['link']}: {a} to {b}", str(row["packets"]), f"{row['bytes'] / 1e6:.1f}", *drops, str(row["held"]), *late)
    out.print(table)
    for row in report.status["directions"]:
        for sentence in _doubts(row, report.status["late_limit_ns"] / 1e3):
            where = f": {row['link']} {'forward' if row['a_to_b'] else 'backward'}: {sentence}"
            out.print(Text.assemble(("not to be trusted", "bold"), where), soft_wrap=True)


@app.command("down")
def down() -> None:
    """Take the network down, and end what still runs in it."""
    lab = emu.down()
    out.print("nothing was up" if lab is None else f"down: {lab.file}")


@app.command("bench", hidden=True)
def bench(
    as_json: AsJson = False,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of each of some twenty measurements.")] = 2.0,
) -> None:
    """The same as `polypath bench --engine emu`."""
    renamed("emu bench", "bench --engine emu")
    measure(seconds, as_json=as_json)


def measure(seconds: float, *, as_json: bool) -> None:
    """Measures the emulator: packets and TCP through one link beside a bare veth pair, delays beside
    a bare timer, in one run.
    """
    figures = emu.bench(seconds)
    if as_json:
        give(figures)
        return
    plain, through = figures["plain"], figures["through"]
    table = Table("through one link, one direction", *(Column(head, justify="right") for head in ("bare veth", "emulated", "share")))
    for name, statistic, unit, digits in (
        ("UDP packets/s of 1500 bytes, nothing lost", "lossless_per_s", 1, 0),
        ("UDP packets/s, sent as fast as can be", "sent_per_s", 1, 0),
        ("    of which received", "received_per_s", 1, 0),
        ("Gbit/s of TCP at MTU 1500", "tcp_bits_per_s", 1e9, 2),
    ):
        share = f"{through[statistic] / plain[statistic]:.0%}" if plain[statistic] else ""
        table.add_row(name, *(f"{row[statistic] / unit:,.{digits}f}" for row in (plain, through)), share)
    out.print(table)
    delay = figures["delay"]
    late = Table(f"later than asked ({_span(delay['asked'])})", *(Column(head, justify="right") for head in ("median", "99 %", "most")))
    for name, prefix in (("emulated delay", "late"), ("bare sleeping timer", "timer_late")):
        late.add_row(name, *(_span(delay[f"{prefix}_{statistic}"]) for statistic in ("median", "p99", "max")))
    out.print(late)
    out.print(f"the emulator takes {figures['cpu_ns_per_packet'] / 1e3:.1f} µs of a processor for a packet, the receiving stack included")


def _doubts(row: dict[str, Any], limit_us: float) -> list[str]:
    doubts = []
    if row["late_p99_us"] > limit_us:
        doubts.append(f"1 % of its packets left more than {_span(row['late_p99_us'])} late (the limit is {_span(limit_us)})")
    for counter, sentence in (
        ("missed", "packets were lost since the machine was too busy to read them"),
        ("overflow", "packets were lost since the emulator's memory was full"),
        ("cut", "packets were longer than the device's MTU and lost: an offload is on"),
    ):
        if row[counter]:
            doubts.append(f"{row[counter]} {sentence}")
    return doubts


def _ends(lab: emu.Lab) -> dict[str, list[str]]:
    """By link: the nodes that it joins, in the file's order of their devices."""
    devices: dict[str, list[str]] = {}
    for node, rows in lab.addresses.items():
        for _, _, link in rows:
            if link:
                devices.setdefault(link, []).append(node)
    return devices


def _span(microseconds: float) -> str:
    return f"{microseconds / 1e3:.2f} ms" if microseconds >= 1000 else f"{microseconds:.0f} µs"
