"""`polypath linux replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polypath import selftests
from polypath.study import DEFAULT_KERNEL

from ._console import err, out
from ._linux_selftests import DEFAULT_OUT, Kernel, Out, kernel_of, tests_of


def replay(
    test: Annotated[str, typer.Argument(help="Such as mptcp/simult_flows.")],
    seed: Annotated[int, typer.Option(min=0, help="The seed of the run.")],
    kernel: Kernel = DEFAULT_KERNEL,
    out_folder: Out = DEFAULT_OUT,
    to: Annotated[Path | None, typer.Option(help="Where its folder goes; default: replays/TEST-SEED below --out.")] = None,
) -> None:
    """Run one test with one seed again and write down all of it: packets, sockets every 10 ms and counters of each namespace, and its log.

    What is written down changes nothing; that the log is the one of the plain run is checked. Exit status 1 if it is another.
    """

    def say(text: str) -> None:
        err.print(text, highlight=False)

    found = tests_of([test], kernel, say)
    if len(found) != 1:
        raise selftests.SelftestError(f"a replay is of one test, and {test} means {len(found)}")
    machine = kernel_of(kernel, say)
    runner = selftests.Runner(machine, out_folder / "runs")
    job = selftests.Job(found[0], seed)
    plain = runner.kept(job) or runner.run(job)
    folder = to or out_folder / "replays" / f"{found[0].name.replace('/', '-')}-{seed}"
    if folder.exists() and any(folder.iterdir()):
        raise selftests.SelftestError(f"{folder} is not empty: remove it, or name another folder with --to")
    folder.mkdir(parents=True, exist_ok=True)
    _, log = selftests.run_job(job, kernel=machine.file, out=folder)
    (folder / "log").write_text(log, encoding="utf-8")
    for file in selftests.readable(folder):
        out.print(str(file), soft_wrap=True)
    for each in selftests.told(plain):
        if each.verdict in ("fail", "ignored"):
            out.print(f"{each.verdict}: {each.name}" + (f", {each.ms} ms" if each.ms is not None else ""), soft_wrap=True)
    if log != plain.log:
        err.print("polypath: what the observed run printed differs from the plain one: do not trust the files for what happened in it")
        raise typer.Exit(1)
    out.print("what it printed is what the plain run printed, to the byte")
