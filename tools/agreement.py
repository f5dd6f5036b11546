"""How the simulator and the bundled tables of real kernels agree, as Markdown; blocks of figures
use it.

One of these:

    counts                      cells that agree by the rule of `polypath validate`, by table and group
    differs TABLE... [--without GROUP]
                                the cells that do not agree, kernels and simulator side by side
    rows TABLE ID...            goodput there and here, of cells by name or pattern
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from figure_tables import table

from polypath.validate import Selection, Verdict, run

TABLES = Path(__file__).resolve().parent.parent / "tests" / "data" / "reference"
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


def main(arguments: Sequence[str]) -> None:
    kinds: dict[str, Callable[..., str]] = {
        "counts": counts,
        "differs": differs,
        "rows": rows,
    }
    if not arguments or arguments[0] not in kinds:
        raise SystemExit(__doc__)
    print(kinds[arguments[0]](*arguments[1:]))


if __name__ == "__main__":
    main(sys.argv[1:])
