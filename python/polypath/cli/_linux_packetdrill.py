"""`polypath linux packetdrill`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from polypath import linux, selftests
from polypath.study import DEFAULT_KERNEL

from ._console import out, steps
from ._linux_selftests import (
    Draw,
    Kernel,
    Out,
    Seeds,
    Vary,
    Workers,
    carry_out,
    end,
    kernel_of,
    list_tests,
    sources_of,
    table_of,
    variation_of,
    write,
)
from ._work import AsJson

# The kernel's own scripts, below tools/testing/selftests.
_OWN = "net/packetdrill"


def packetdrill(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A folder with scripts (*.pkt), however deep, or one script. Default: the kernel's own net/packetdrill."),
    ] = None,
    player: Annotated[
        Path | None,
        typer.Option(
            "--packetdrill", help="The program packetdrill, which you have built (google/packetdrill); default: the one in /usr/local/bin."
        ),
    ] = None,
    family: Annotated[str, typer.Option(help=f"Families of addresses, of {', '.join(selftests.FAMILIES)} (IPv4 in IPv6 sockets).")] = "4,6",
    kernel: Kernel = DEFAULT_KERNEL,
    seeds: Seeds = "1",
    workers: Workers = None,
    out_folder: Out = Path("results/packetdrill"),
    junit: Annotated[Path | None, typer.Option(help="A further place for junit.xml.")] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show the scripts that always pass, too.")] = False,
    vary: Vary = None,
    draw: Draw = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the scripts and run nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Play packetdrill's scripts, unchanged, on a real kernel in virtual time: without root, the
    same packets at the same nanosecond each time.

    A machine for each script, family of addresses and seed, on all cores. Exit status 1 if
    something failed. The folder gets table.csv, results.tap and junit.xml.
    """
    wanted = selftests.seeds_of(seeds)
    families = selftests.families_of(family)
    varied = variation_of(vary, draw)
    program = selftests.player_of(player)
    with tempfile.TemporaryDirectory() as archives:
        with steps() as step:
            sources, variant = sources_of(kernel)
            where = folder or linux.selftests(sources, step, variant=variant) / linux.TESTS / _OWN
            scripts = selftests.scripts_of(where, families, program, Path(archives))
            machine = None if list_only else kernel_of(kernel, step)
            if machine:
                step("trying the program")
                selftests.check_player(program, machine)
        if machine is None:
            list_tests([script.name for script in scripts], as_json=as_json)
            return
        runner = selftests.Runner(machine, out_folder / "runs")
        records, failed = carry_out(runner, selftests.jobs(scripts, wanted, varied), workers, f"{len(scripts)} scripts", varied)
    rows = selftests.script_rows(records)
    write(out_folder, records, rows)
    if junit:
        junit.parent.mkdir(parents=True, exist_ok=True)
        junit.write_text(selftests.as_junit(records), encoding="utf-8")
    out.print(table_of(rows, title="packetdrill", show_all=show_all))
    first: dict[str, selftests.Record] = {}
    for record in records:
        if record.status:
            first.setdefault(record.test, record)
    faults = [{"test": name, "seed": record.seed, "said": selftests.fault_of(record.log)} for name, record in first.items()]
    for fault in faults:
        out.print(f"{fault['test']} with seed {fault['seed']}: {fault['said']}", markup=False, highlight=False, soft_wrap=True)
    end(rows, failed, "scripts", out_folder, as_json=as_json, faults=faults)
