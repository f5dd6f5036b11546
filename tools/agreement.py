"""How the simulator and the bundled tables of real kernels agree, as Markdown; blocks of figures use it.

One of these:

    counts                      cells that agree by the rule of `polypath validate`, by table and group
    algorithms TABLE [GROUP..]  the same by algorithm; all groups, or without those named
    differs TABLE... [--without GROUP]
                                the cells that do not agree, kernels and simulator side by side
    rows TABLE ID...            goodput there and here, of cells by name or pattern
    shares TABLE ID...          the same, the flows of a run in one line
    segments                    group e: mean sizes of segments within 5 % by table, and those that are further away
"""

from __future__ import annotations

import csv
import runpy
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path

from figure_tables import table

from polypath.validate import Selection, Verdict, run

TABLES = Path(__file__).resolve().parent.parent / "tests" / "data" / "reference"
PROBING = TABLES.parents[2] / "specs" / "notes" / "mtu-probing"
SEGMENTS_NEAR = 0.05
NAMES = {"linux-6.12": "Linux 6.12", "linux-6.1": "Linux 6.1", "mptcp-v0": "out-of-tree MPTCP 0.96"}


@cache
def verdicts(name: str, ids: tuple[str, ...] = ()) -> tuple[Verdict, ...]:
    """Every cell of a bundled table, or those of these names, judged."""
    if name not in NAMES:
        raise SystemExit(f'there is no table "{name}"; there are {", ".join(NAMES)}')
    return tuple(run(TABLES / f"{name}.csv", selection=Selection(ids=ids)))


def share(judged: Sequence[bool | None], *, percent: bool = False) -> str:
    """How many agree of those that could be judged."""
    known = [agrees for agrees in judged if agrees is not None]
    part = f", {sum(known) / len(known):.0%}".replace("%", " %") if known and percent else ""
    return f"{sum(known)} of {len(known)}{part}" if known else "–"


def counts() -> str:
    """A line a table and group, and one for the whole table."""
    rows = []
    for name, kernel in NAMES.items():
        own = verdicts(name)
        for group in dict.fromkeys(verdict.cell.group for verdict in own):
            part = [verdict for verdict in own if verdict.cell.group == group]
            rows.append([kernel, group, *_both(part)])
        if name == "linux-6.12":
            rows.append([kernel, "reno and cubic", *_both([verdict for verdict in own if verdict.cell.cc in ("reno", "cubic")])])
        if name == "mptcp-v0":
            rows.append([kernel, "all but n", *_both([verdict for verdict in own if verdict.cell.group != "n"])])
        rows.append([kernel, "**all**", *_both(own)])
    return table(["table", "group", "goodput agrees", "mean srtt within 15 %, no loss"], rows, left=2)


def _both(part: Sequence[Verdict]) -> list[str]:
    return [share([verdict.agrees for verdict in part], percent=True), share([verdict.srtt_agrees for verdict in part])]


def algorithms(name: str, *without: str) -> str:
    """A line an algorithm."""
    own = [verdict for verdict in verdicts(name) if verdict.cell.group not in without]
    names = dict.fromkeys(verdict.cell.cc for verdict in own)
    return table(["", "goodput agrees"], [[cc, share([verdict.agrees for verdict in own if verdict.cell.cc == cc])] for cc in names])


def differs(*given: str) -> str:
    """The cells that differ from any of the kernels."""
    names, _, without = " ".join(given).partition("--without")
    kept = {name: [verdict for verdict in verdicts(name) if verdict.cell.group not in without.split()] for name in names.split()}
    found = {name: {(verdict.cell.id, verdict.cell.flow): verdict for verdict in own} for name, own in kept.items()}
    outside = {key for own in found.values() for key, verdict in own.items() if verdict.agrees is False}
    rows = []
    # In the order of the tables: how far apart they are changes more easily.
    for key in dict.fromkeys(key for own in found.values() for key in own if key in outside):
        listed = [own.get(key) for own in found.values()]
        kernels = [f"{verdict.cell.mbps:.2f}" if verdict else "–" for verdict in listed]
        simulated = next(verdict.sim_mbps for verdict in listed if verdict)
        rows.append([f"`{key[0]}`, {key[1]}", *kernels, f"{simulated:.2f}"])
    return table(["run, flow: Mbit/s", *(NAMES[name] for name in found), "here"], rows)


def rows(name: str, *ids: str) -> str:
    """A line a cell."""
    return table(
        ["run", "flow", f"{NAMES[name]}, Mbit/s", "here"],
        [[f"`{own.cell.id}`", own.cell.flow, f"{own.cell.mbps:.2f}", f"{own.sim_mbps:.2f}"] for own in verdicts(name, ids)],
        left=2,
    )


def shares(name: str, *ids: str) -> str:
    """A line a run, its flows with a plus between them."""
    own = verdicts(name, ids)
    lines = []
    for run_id in dict.fromkeys(verdict.cell.id for verdict in own):
        part = [verdict for verdict in own if verdict.cell.id == run_id]
        lines.append([f"`{run_id}`", " + ".join(f"{v.cell.mbps:.2f}" for v in part), " + ".join(f"{v.sim_mbps:.2f}" for v in part)])
    return table(["run", f"{NAMES[name]}, Mbit/s", "here"], lines)


def segments() -> str:
    """A line a table, and a line a subflow whose mean size is further away.

    Sizes here are those of captures at the client, and those there too in `mtu/`.
    In the other tables they are bytes sent by segments sent, which count probes that the host itself refused.
    """
    measure = runpy.run_path(str(PROBING / "measure.py"))
    counted, outside = [], []
    for name in (*NAMES, "mtu/linux-6.12", "mtu/linux-6.1"):
        with (TABLES / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.DictReader(stream) if row["group"] == "e"]
        kernel = name.rpartition("-")[2] if "linux" in name else None
        here = {row["id"]: measure["simulated"](row["id"], kernel) for row in rows}
        near = total = 0
        for row in rows:
            linux = [float(row[f"sf{i}_avg_seg"]) for i in (1, 2) if row.get(f"sf{i}_avg_seg")]
            for i, (theirs, ours) in enumerate(zip_longest(linux, here[row["id"]]), 1):
                if theirs is None and ours is None:
                    continue
                agrees = theirs is not None and ours is not None and abs(ours - theirs) <= SEGMENTS_NEAR * theirs
                total, near = total + 1, near + agrees
                if not agrees:
                    outside.append([name, f"`{row['id']}`", str(i), *("–" if size is None else f"{size:.0f}" for size in (theirs, ours))])
        counted.append([name, f"{near} of {total}"])
    listed = table(["table", "run", "subflow", "kernel, bytes", "here"], outside, left=3)
    return "\n\n".join([table(["table", "mean sizes within 5 %"], counted), listed])


def main(arguments: Sequence[str]) -> None:
    """The command."""
    kinds: dict[str, Callable[..., str]] = {
        "counts": counts,
        "algorithms": algorithms,
        "differs": differs,
        "rows": rows,
        "shares": shares,
        "segments": segments,
    }
    if not arguments or arguments[0] not in kinds:
        raise SystemExit(__doc__)
    print(kinds[arguments[0]](*arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
