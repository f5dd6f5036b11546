"""`polypath linux qualify`."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.table import Table

from polypath import linux
from polypath.engines import CONDITIONS, Replay, conditions, proof, replay
from polypath.study import DEFAULT_KERNEL

from ._console import err, give, out, rows_of
from ._work import AsJson

_SECONDS, _SHORT_SECONDS = 5, 1
_REPLAYS, _SHORT_REPLAYS = 100, 12


def qualify(
    kernel: Annotated[str, typer.Option(help="Which kernel; `polypath linux list` shows those there are.")] = DEFAULT_KERNEL,
    replays: Annotated[int | None, typer.Option(min=2, help=f"How many replays; default: {_REPLAYS}.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the run.")] = 1,
    short: Annotated[bool, typer.Option("--short", help=f"{_SHORT_REPLAYS} replays of a run of {_SHORT_SECONDS} s.")] = False,
    as_json: AsJson = False,
) -> None:
    """Prove here that runs on a kernel are exact: the same run again and again while all around it
    is otherwise, and one hash.

    Plain, with all cores busy, stopped and continued at random moments, in another folder, on each
    core, and as another user (root only). Exit status 1 if one replay differs.
    """
    machine = linux.find(kernel)
    wanted = replays or (_SHORT_REPLAYS if short else _REPLAYS)
    scenarios = [proof(machine, number, _SHORT_SECONDS if short else _SECONDS) for number in (seed, seed + 1)]
    names = conditions()
    done: list[Replay] = []
    began = time.monotonic()
    with err.status("", spinner="line") as status:
        for number in range(wanted):
            condition = names[number % len(names)]
            if err.is_terminal:
                status.update(f"replay {number + 1} of {wanted}: {condition}")
            done.append(replay(scenarios[0], condition, kernel=machine, number=number))
        other = replay(scenarios[1], "plain", kernel=machine)
    exact, said = _proved(done, other, seed, time.monotonic() - began)
    table = _table(machine, done, seed)
    out.print(table)
    out.print(said, soft_wrap=True)
    if as_json:
        give({"kernel": machine.name, "seed": seed, "exact": exact, "said": said, "rows": rows_of(table)})
    raise typer.Exit(0 if exact else 1)


def _table(kernel: linux.Kernel, done: list[Replay], seed: int) -> Table:
    table = Table("otherwise", "replays", "stops", "hashes", title=f"Linux {kernel.release}, seed {seed}", title_justify="left")
    for name in dict.fromkeys(run.condition for run in done):
        runs = [run for run in done if run.condition == name]
        stops = sum(run.stops for run in runs)
        short = ", ".join(sorted({run.digest[:12] for run in runs}))
        table.add_row(CONDITIONS[name], str(len(runs)), str(stops) if name == "stopped" else "", short)
    return table


def _proved(done: list[Replay], other: Replay, seed: int, seconds: float) -> tuple[bool, str]:
    """Whether it is, and in words."""
    hashes = {run.digest for run in done}
    if other.digest in hashes:
        return False, f"NOT PROVED: seed {seed + 1} gives the hash of seed {seed}, so that equal hashes say nothing"
    if len(hashes) > 1:
        return False, f"NOT EXACT: {len(done)} replays gave {len(hashes)} hashes"
    (digest,) = hashes
    return True, (
        f"exact: {len(done)} replays, every packet, counter and sample the same (hash {digest[:12]}); seed {seed + 1} gives another "
        f"({other.digest[:12]}); {seconds:.0f} s"
    )
