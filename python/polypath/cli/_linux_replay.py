"""`polypath linux replay`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from polypath import linux, selftests
from polypath.pcap import analyse
from polypath.study import DEFAULT_KERNEL, Time

from ._console import err, give, out, say, time_of
from ._linux_selftests import DEFAULT_OUT, Draw, Kernel, Out, Scheduler, Vary, kernel_of, scheduler_of, tests_of, variation_of
from ._work import AsJson

PAGE, LOG = "report.html", "log"
# A person at the shell takes their time.
_PATIENCE_AT_SHELL_S = 86400.0


def replay(
    test: Annotated[str, typer.Argument(help="Such as mptcp/simult_flows.")],
    seed: Annotated[int, typer.Option(min=0, help="The seed of the run.")],
    subtest: Annotated[
        int | None, typer.Option(min=1, help="Keep packets, sockets and events of this subtest alone; its number in the log.")
    ] = None,
    events: Annotated[
        str, typer.Option(help='The kernel\'s own events, as its trace_event= takes them, such as "tcp:*,skb:kfree_skb"; "" for none.')
    ] = selftests.EVENTS,
    dyndbg: Annotated[
        str, typer.Option(help='What dynamic debug prints, such as "file net/ipv4/tcp_input.c +p"; "" for nothing.')
    ] = selftests.DYNDBG,
    shell_at: Annotated[
        str | None, typer.Option(help="Open a shell in the machine at this instant, such as 3.2s; its clock stands while you type.")
    ] = None,
    vary: Vary = None,
    draw: Draw = None,
    scheduler: Scheduler = None,
    plain: Annotated[bool, typer.Option("--plain", help="Run it unwatched and print its log.")] = False,
    kernel: Kernel = DEFAULT_KERNEL,
    out_folder: Out = DEFAULT_OUT,
    to: Annotated[Path | None, typer.Option(help="Where its folder goes; default: replays/TEST-SEED below --out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run one test with one seed again and write down all of it: packets, sockets every 10 ms and
    counters of each namespace, the kernel's own events, dynamic debug, and its log; with a page
    that shows them.

    What is written down changes nothing: packets and log are compared with those of an unwatched
    run. Exit status 1 if they differ.
    """
    if plain and (shell_at is not None or subtest is not None):
        raise selftests.SelftestError(f"--plain writes nothing down: leave {'--shell-at' if shell_at is not None else '--subtest'} out")
    if as_json and (plain or shell_at is not None):
        raise selftests.SelftestError(f"--json tells what was written down: leave {'--plain' if plain else '--shell-at'} out")
    varied = variation_of(vary, draw)
    instant = None if shell_at is None else time_of("--shell-at", shell_at, selftests.SelftestError)
    folder = to or out_folder / "replays" / f"{test.strip('/').replace('/', '-').replace(':', '-')}-{seed}"
    if not plain and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise selftests.SelftestError(f"{folder} is not empty: remove it, or name another folder with --to")
    tests = tests_of([test], kernel, say)
    if len(tests) != 1:
        raise selftests.SelftestError(f"a replay is of one test, and {test} means {len(tests)}")
    machine = kernel_of(kernel, say)
    job = selftests.Job(tests[0], seed, vary=varied, scheduler=scheduler_of(scheduler, machine))
    if plain:
        sys.stdout.write(selftests.run_job(job, kernel=machine.file)[1])
        return
    watch = selftests.Watch(events=events, dyndbg=dyndbg, shell_at=instant)
    folder.mkdir(parents=True, exist_ok=True)
    if instant is not None:
        _at_shell(job, machine, watch, folder)
        return
    same, outcome = _compared(job, machine, watch, subtest, folder)
    if as_json:
        give({"folder": str(folder), "test": job.test.name, "seed": seed, "same": same, **outcome})
    if not same:
        err.print("polypath: the watched run is another one than the plain run: do not trust its files for what happens there")
        raise typer.Exit(1)


def _compared(
    job: selftests.Job, machine: linux.Kernel, watch: selftests.Watch, subtest: int | None, folder: Path
) -> tuple[bool, dict[str, Any]]:
    """Whether the run that is written down is the plain one, and what there is."""
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(max_workers=2) as pool:
        beside = Path(name)
        unwatched = pool.submit(selftests.run_job, job, kernel=machine.file, out=beside)
        window = None
        if subtest is not None:
            log = unwatched.result()[1]
            window = selftests.window_of(log.encode(), selftests.observation_of(beside).marks, subtest, job.test.name)
            watch = selftests.during(watch, window)
        status, log = selftests.run_job(job, kernel=machine.file, out=folder, watch=watch)
        plain_log = unwatched.result()[1]
        plain, watched = selftests.observation_of(beside), selftests.observation_of(folder)
    outcome = _show(job, folder, status, log, watch, watched, subtest, window)
    if (plain_log, plain.packets) != (log, watched.packets):
        return False, outcome
    out.print(f"it is the plain run to the byte: what it printed, and its {watched.packets[0]} packets with their times", soft_wrap=True)
    return True, outcome


def _at_shell(job: selftests.Job, machine: linux.Kernel, watch: selftests.Watch, folder: Path) -> None:
    """A run with a person's shell in it, which is theirs from that instant on."""
    assert watch.shell_at is not None
    try:
        person = (os.dup(0), os.dup(1))
    except OSError:
        raise selftests.SelftestError("--shell-at needs a standard input and output: type commands, or pipe them in") from None
    try:
        status, log = selftests.run_job(job, kernel=machine.file, out=folder, watch=watch, shell=person, timeout_s=_PATIENCE_AT_SHELL_S)
    finally:
        for descriptor in person:
            os.close(descriptor)
    watched = selftests.observation_of(folder)
    _show(job, folder, status, log, watch, watched)
    if not watched.shell:
        last = watched.marks[-1][0] / 1e9 if watched.marks else 0.0
        raise selftests.SelftestError(
            f"the test ended at {Time.about(last)}, before the shell could open: give --shell-at an earlier instant"
        )
    out.print(f"from {Time.base(watch.shell_at)} on this run is yours: it is not compared with the plain one", soft_wrap=True)


def _show(
    job: selftests.Job,
    folder: Path,
    status: int,
    log: str,
    watch: selftests.Watch,
    observation: selftests.Observation,
    subtest: int | None = None,
    window: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """Says what there is; the same for programs. `window` is when the `subtest` ran."""
    (folder / LOG).write_text(log, encoding="utf-8")
    happened = selftests.events(folder)
    asked = selftests.Watch()
    for event in observation.refused:
        # What was not asked for by name may be missing.
        if (watch.events, watch.dyndbg) != (asked.events, asked.dyndbg):
            err.print(f"polypath: this kernel has no {event}: nothing of it is in the files", markup=False, soft_wrap=True)
    if happened and happened.lost:
        err.print(
            f"polypath: the first {happened.lost} kernel events found no room: narrow --events or --dyndbg, or name a --subtest",
            soft_wrap=True,
        )
    files = selftests.readable(folder, window)
    outcomes = selftests.outcomes(selftests.record(job, status, log))
    captures = [file for file in files if file.suffix == ".pcapng"]
    if captures:
        _write_page(analyse(captures), folder / PAGE, log, observation, outcomes, happened, subtest)
        files.append(folder / PAGE)
    for file in files:
        out.print(str(file), soft_wrap=True, highlight=False)
    for outcome in outcomes:
        if outcome.verdict in ("fail", "ignored"):
            out.print(f"{outcome.verdict}: {outcome.name}" + (f", {outcome.ms} ms" if outcome.ms is not None else ""), soft_wrap=True)
    if window:
        first, last, end = (at / 1e9 for at in (*window, observation.marks[-1][0]))
        out.print(f"kept is {first:.2f} s to {last:.2f} s of {end:.2f} s; log and counters are of the whole run", soft_wrap=True)
    subtests = [{"name": each.name, "verdict": each.verdict, "ms": each.ms} for each in outcomes]
    return {"packets": observation.packets[0], "files": [str(file) for file in files], "subtests": subtests}


def _write_page(
    report: dict[str, Any],
    target: Path,
    log: str,
    observation: selftests.Observation,
    outcomes: Sequence[selftests.Subtest],
    happened: selftests.Events | None,
    subtest: int | None = None,
) -> None:
    """`subtest`: nothing else is kept."""
    from polypath.report import Part, Replayed, write_captures

    verdicts: dict[str, str] = {outcome.name: outcome.verdict for outcome in outcomes}
    first_s = ((report["start_ns"] or 0) - selftests.START_NS) / 1e9

    def during(connection: dict[str, Any]) -> Part | None:
        lasted_s = max(data["lasted_s"] for data in connection["data"])
        # Where a subtest is about to begin, the middle of the connection tells.
        times_s = [first_s + connection["began_s"] + part * lasted_s for part in (0, 0.5)]
        said = [selftests.subtest_at(log.encode(), observation.marks, round(at * 1e9)) for at in times_s]
        words = said[0] or said[1]
        return Part(name=words, verdict=verdicts.get(words.partition(", ")[2], "")) if words else None

    parts = [during(connection) for connection in report["connections"]]
    for connection, part in zip(report["connections"], parts, strict=True):
        is_other = subtest is not None and not (part and part.name.partition(",")[0] == f"subtest {subtest}")
        # What it lacks may come after what is kept.
        if is_other and all(subflow["end"] is None for subflow in connection["subflows"]):
            connection["diagnosis"] = [f"it goes on after subtest {subtest}: the capture has only its beginning"]
    events, drops = (happened.counts, happened.drops) if happened else (None, None)
    write_captures(report, target, Replayed(during=parts, events=events, drops=drops, began_s=first_s))
