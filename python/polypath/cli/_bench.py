"""`polypath bench`: an engine's speed; for the simulator, beside it what the event queue alone
costs.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from typing import Annotated

import typer
from rich.table import Column, Table

from polypath import _native
from polypath.study import DEFAULT_KERNEL, StudyError, unknown

from . import _bench_linux
from ._console import give, out, passing
from ._work import AsJson

_QUEUE_EVENTS = 20_000_000
_QUEUE_SOURCES = 8

# Each measurement has an interpreter of its own that loads nothing but the compiled module, so that
# the memory is the simulator's (and some 10 MB of bare interpreter) and no case warms another one
# up.
_MEASURE = """
import importlib.util, json, sys, time
path, what = sys.argv[1:3]
spec = importlib.util.spec_from_file_location("_native", path)
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
start, began = time.perf_counter(), time.process_time()
if what == "queue":
    counts = 0, int(sys.argv[4])
    native.bench_queue(int(sys.argv[3]), counts[1])
elif what == "cc":
    counts = native.bench_algorithm(sys.argv[3])
else:
    counts = native.bench_case(what)
wall, cpu = time.perf_counter() - start, time.process_time() - began
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
measured = dict(zip(("packets", "events", "transmissions"), counts))
print(json.dumps({**measured, "wall_s": wall, "cpu_s": cpu, "rss_mb": peak / 1024}))
"""


def bench(
    cases: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...", help="Only these cases; default: all.")] = None,
    as_json: AsJson = False,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each case; the median counts.")] = 3,
    engine: Annotated[str, typer.Option(help="sim or linux; emu (this machine's emulated links) and tunnel, as root.")] = "sim",
    kernel: Annotated[str, typer.Option(help="Kernel of the engine linux.")] = DEFAULT_KERNEL,
    cc: Annotated[
        list[str] | None, typer.Option(help="Compare congestion controls, or `all` of them, on one case: an MPTCP over two paths.")
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON",
            help="Measure another installed Polypath beside this one, in turns: the Python that it is installed in. Prints the ratios.",
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, help="With emu and tunnel: length of each measurement; default: 2 and 1.")
    ] = None,
) -> None:
    """Measure an engine: delivered data packets per wall second on one core, memory; of the
    simulator also events per packet, and packet transmissions per second (each link counted).

    Also shows the cost of the bare event queue, which is a lower bound, and how many such events a
    packet costs: this ratio is comparable between machines. For the linux engine, shows simulated
    seconds per real second.
    """
    if cc and engine != "sim":
        raise StudyError(f"--cc compares congestion controls on the simulator; leave out --engine {engine}, or --cc")
    if pair is not None and (engine != "sim" or cc):
        raise StudyError(f"--pair compares simulators on cases; leave out {'--cc' if cc else f'--engine {engine}'}, or --pair")
    if engine in ("emu", "tunnel"):
        if cases:
            raise StudyError(f"--engine {engine} has no cases; leave out {' '.join(cases)}")
        _elsewhere(engine, seconds, repeat, as_json=as_json)
        return
    if seconds is not None:
        raise StudyError(f"--seconds is for --engine emu and tunnel; leave it out, for {engine} has cases of their own length")
    if engine == "linux":
        _bench_linux.bench(cases or [], repeat, kernel, as_json=as_json)
        return
    if engine != "sim":
        raise StudyError(unknown("engine to measure", engine, ("sim", "linux", "emu", "tunnel")))
    known_cases = _native.bench_cases()
    for case in cases or []:
        if case not in known_cases:
            raise StudyError(unknown("case", case, known_cases))
    if cc:
        if cases:
            raise StudyError(f"--cc compares congestion controls on a case of its own; leave out {' '.join(cases)}, or --cc")
        _print(_algorithms(cc, repeat), "congestion control", None, as_json=as_json)
        return
    if pair is not None:
        _pair(pair, cases or known_cases, repeat, as_json=as_json)
        return
    queue = _bench_linux.median([_measured("queue", str(_QUEUE_SOURCES), str(_QUEUE_EVENTS)) for _ in range(repeat)])
    figures: dict[str, dict[str, float]] = {}
    for case in cases or known_cases:
        passing(case)
        figures[case] = _case(_bench_linux.median([_measured(case) for _ in range(repeat)]))
    _print(figures, "case", queue["wall_s"] * 1e9 / _QUEUE_EVENTS, as_json=as_json)


def _pair(python: str, cases: list[str], repeat: int, *, as_json: bool) -> None:
    """Processor time and memory of the other Polypath over this one's, in turns: a machine that
    others use, too, is as busy for one as for the other.
    """
    other = _module_of(python)
    rows = []
    for case in cases:
        passing(case)
        pairs = [(_measured(case), _measured(case, python=python, module=other)) for _ in range(repeat)]
        # Of the same work: two releases may deliver different numbers of packets.
        ratios = sorted((theirs["cpu_s"] / theirs["packets"]) / (ours["cpu_s"] / ours["packets"]) for ours, theirs in pairs)
        rows.append(
            {
                "name": case,
                "times_as_fast": statistics.median(ratios),
                "least": ratios[0],
                "most": ratios[-1],
                "same_work": all((ours["packets"], ours["events"]) == (theirs["packets"], theirs["events"]) for ours, theirs in pairs),
                "rss_mb": max(ours["rss_mb"] for ours, _ in pairs),
                "other_rss_mb": max(theirs["rss_mb"] for _, theirs in pairs),
            }
        )
    if as_json:
        give({"other": other, "pairs": repeat, "cases": rows})
        return
    heads = ("times as fast", "least", "most", "peak MB", "other's MB")
    table = Table("case", *(Column(head, justify="right") for head in heads), "same work")
    for row in rows:
        speeds = (f"{row[name]:.3f}" for name in ("times_as_fast", "least", "most"))
        memory = (f"{row[name]:.0f}" for name in ("rss_mb", "other_rss_mb"))
        table.add_row(str(row["name"]), *speeds, *memory, "yes" if row["same_work"] else "no")
    out.print(table)
    out.print(f"this Polypath beside {other}; processor time a packet, {repeat} pairs, the median", soft_wrap=True)


def _module_of(python: str) -> str:
    """The compiled module of the Polypath that another Python has."""
    command = [python, "-P", "-c", "from polypath import _native; print(_native.__file__)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise StudyError(f"--pair {python}: {error.strerror}; name the Python that the other Polypath is installed in") from None
    if done.returncode:
        raise StudyError(f"--pair {python}: no Polypath is installed there; name the Python that the other one is installed in")
    return done.stdout.strip()


def _elsewhere(engine: str, seconds: float | None, repeat: int, *, as_json: bool) -> None:
    if engine == "emu":
        from . import _emu

        _emu.measure(seconds or 2.0, as_json=as_json)
        return
    from . import _tunnel

    _tunnel.measure(seconds or 1.0, repeat, as_json=as_json)


def _algorithms(wanted: list[str], repeat: int) -> dict[str, dict[str, float]]:
    """Figures of each congestion control, in turns, so that a busy moment of the machine does not
    hit one alone.
    """
    algorithms = [algorithm[0] for algorithm in _native.algorithms()]
    names = list(dict.fromkeys(name for text in wanted for name in text.split(",")))
    names = algorithms if names == ["all"] else names
    for name in names:
        if name not in algorithms:
            raise StudyError(unknown("congestion control", name, algorithms))
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(repeat):
        for name in names:
            passing(name)
            measured[name].append(_measured("cc", name))
    return {name: _case(_bench_linux.median(repetitions)) for name, repetitions in measured.items()}


def _print(figures: dict[str, dict[str, float]], title: str, bare: float | None, *, as_json: bool) -> None:
    if as_json:
        rows = {"cases" if title == "case" else "cc": [{"name": case, **row, **_ratio(row, bare)} for case, row in figures.items()]}
        give(rows | ({} if bare is None else {"bare_queue_ns_per_event": bare}))
        return
    heads = ["M packets/s", "M transmissions/s", "ns/packet", "events/packet", "ns/event", "wall s", "peak MB"]
    if bare is not None:
        heads.append("bare events/packet")
    table = Table(title, *(Column(head, justify="right") for head in heads))
    for case, row in figures.items():
        per_packet = 1e9 / row["packets_per_s"]
        per_event = per_packet / row["events_per_packet"]
        speeds = (row["packets_per_s"] / 1e6, row["transmissions_per_s"] / 1e6)
        times = (*speeds, per_packet, row["events_per_packet"], per_event, row["wall_s"])
        ratio = () if bare is None else (f"{per_packet / bare:.1f}",)
        table.add_row(case, *(f"{figure:.2f}" for figure in times), f"{row['rss_mb']:.0f}", *ratio)
    out.print(table)
    if bare is not None:
        out.print(f"bare event queue: {bare:.2f} ns/event")


def _ratio(row: dict[str, float], bare: float | None) -> dict[str, float]:
    return {} if bare is None else {"bare_events_per_packet": 1e9 / row["packets_per_s"] / bare}


def _case(measured: dict[str, float]) -> dict[str, float]:
    return {
        "packets_per_s": measured["packets"] / measured["wall_s"],
        "transmissions_per_s": measured["transmissions"] / measured["wall_s"],
        "events_per_packet": measured["events"] / measured["packets"],
        "wall_s": measured["wall_s"],
        "rss_mb": measured["rss_mb"],
    }


def _measured(*arguments: str, python: str = sys.executable, module: str = _native.__file__) -> dict[str, float]:
    return _bench_linux.measured(arguments[0], [python, "-I", "-S", "-c", _MEASURE, module, *arguments])
