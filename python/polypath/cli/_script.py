"""`polypath linux script`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from polypath import linux, selftests
from polypath.engines import describe_parting, random_partings, run_packets, script_partings
from polypath.study import DEFAULT_KERNEL, StudyError

from ._console import out as console
from ._console import renamed


def script(
    files: Annotated[list[Path] | None, typer.Argument(help="Scripts of packets, as in tests/scripts.")] = None,
    engine: Annotated[str, typer.Option(help="`sim`, the simulator's endpoint, or `linux`, a kernel in virtual time.")] = "sim",
    kernel: Annotated[
        str | None, typer.Option(help=f"Which kernel; default: {DEFAULT_KERNEL} on linux, on sim each that a script is about.")
    ] = None,
    differential: Annotated[
        bool, typer.Option("--differential", help="Play what the scripts do on both engines, and print the first difference.")
    ] = False,
    random: Annotated[int, typer.Option(metavar="N", min=0, help="The same for N random scripts of TCP and N of MPTCP.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="First seed of random scripts; 0 without.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where random scripts that part are kept, as small as they get.")
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(metavar="MS", min=0, help="How far apart times of the engines may be; 0.1 without.")
    ] = None,
    player: Annotated[
        Path | None,
        typer.Option(
            "--packetdrill",
            metavar="PROGRAM",
            help="The program packetdrill, which you have built: it plays its scripts, or folders of them, on sim.",
        ),
    ] = None,
) -> None:
    """Run scripts of packets: what one endpoint must answer to which packets, and when.
    `tests/scripts/README.md` says how to write one.

    Exits with 1 if a script fails or the engines part.
    """
    if sys.argv[1:2] == ["script"]:
        renamed("script", "linux script")
    files = files or []
    if player is not None:
        others: dict[str, object] = {"--engine": engine != "sim", "--kernel": kernel, "--differential": differential, "--random": random}
        others |= {"--seed": seed is not None, "--out": out, "--tolerance": tolerance is not None}
        if given := [name for name, is_given in others.items() if is_given]:
            raise StudyError(f"with --packetdrill the program plays its scripts on sim, so leave {' and '.join(given)} out")
        _play(selftests.player_of(player), files)
        return
    if not files and not random:
        raise StudyError("no script is given: name files, or write --random N")
    for file in files:
        if not file.is_file():
            raise StudyError(f"there is no script {file}")
    if not random and (seed is not None or out is not None):
        raise StudyError("--seed and --out mean nothing without --random N")
    if not (random or differential) and tolerance is not None:
        raise StudyError("--tolerance means nothing without --differential or --random N")
    if engine not in ("sim", "linux"):
        raise StudyError(f"scripts of packets run on the engines sim and linux, not on {engine}")
    if random or differential:
        tolerance_s = 1e-4 if tolerance is None else tolerance / 1000
        parted = _compare(files, random, seed or 0, kernel or DEFAULT_KERNEL, out, tolerance_s)
        raise typer.Exit(1 if parted else 0)
    if engine == "sim":
        code, said = run_packets(files, kernel=kernel)
    else:
        name = kernel or DEFAULT_KERNEL
        code, said = run_packets(files, kernel=name, machine=linux.find(name).file)
    typer.echo(said, nl=False)
    raise typer.Exit(code)


def _play(player: Path, files: list[Path]) -> None:
    """Plays packetdrill's scripts, and says what came of each that did not pass."""
    if not files:
        raise StudyError("no script is given: name packetdrill's scripts, or folders of them")
    played = selftests.play_on_endpoint(files, player, os.cpu_count() or 1)
    for one in played:
        if one.outcome != "passed":
            typer.echo(f"{one.name}: {one.outcome}: {one.reason}")
    table = Table("folder", "scripts", "passed", "failed", "refused", title="packetdrill on sim", title_justify="left")
    folders = {one.name: one.name.rpartition("/")[0] for one in played}
    for folder in (*dict.fromkeys(folders.values()), None):
        counted = Counter(one.outcome for one in played if folder in (folders[one.name], None))
        name = "all" if folder is None else folder
        table.add_row(name, str(counted.total()), *(str(counted[outcome]) for outcome in ("passed", "failed", "refused")))
    console.print(table)
    if any(one.outcome == "failed" for one in played):
        raise typer.Exit(1)


def _compare(files: list[Path], random: int, seed: int, kernel: str, out: Path | None, tolerance_s: float) -> int:
    """Prints where the engines part, and says in how many scripts they do."""
    machine = linux.find(kernel).file
    parted = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        [one] = script_partings([text], names=[str(file)], kernel=kernel, machine=machine, tolerance_s=tolerance_s)
        parted += one is not None
        typer.echo(f"{file}: {'the engines part' if one else 'the same on both engines'}")
        if one:
            typer.echo(describe_parting(one))
    for protocol in ("TCP", "MPTCP") if random else ():
        seeds = range(seed, seed + random)
        explored = random_partings(seeds, mptcp=protocol == "MPTCP", kernel=kernel, machine=machine, tolerance_s=tolerance_s)
        parted += len(explored)
        for number, (small, one) in explored.items():
            where = ""
            if out is not None:
                out.mkdir(parents=True, exist_ok=True)
                file = out / f"{protocol.lower()}-{number}.pkt"
                file.write_text(small.text(), encoding="utf-8")
                where = f" ({file})"
            typer.echo(f"{protocol} seed {number}: the engines part{where}\n{small.text()}{describe_parting(one)}")
        typer.echo(f"{protocol}, {kernel}: {len(explored)} of {random} random scripts part")
    return parted
