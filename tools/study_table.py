"""A table of a study's results in the simulator, or with `kernel=` on that Linux kernel, as Markdown; what is missing runs first.

    study_table.py STUDY EXPERIMENT[,...] rows=COLUMN[,COLUMN] [columns=COLUMN] [join=COLUMN] [table=subflows]
                   METRIC[:DIGITS]... [kernel=KERNEL] [COLUMN=VALUE[,...]...]

Means over all that is not named: repetitions, and flows of one kind. `join` puts the values of one column into a cell, with commas.
Columns are those of runs.parquet, or of subflows.parquet (docs/reference/results.md).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pandas as pd
from figure_tables import on_linux, simulated, table

NAMES = {
    "goodput_receiver_mbps": "Mbit/s",
    "total_receiver_mbps": "Mbit/s of all",
    "srtt_ms": "RTT, ms",
    "completion_s": "s",
    "segment_usual_bytes": "bytes",
}


def main(arguments: Sequence[str]) -> None:
    """Prints the table."""
    study, experiments, *rest = arguments
    options = dict(part.split("=", 1) for part in rest if "=" in part)
    metrics = [(name, int(digits or 1)) for name, _, digits in (part.partition(":") for part in rest if "=" not in part)]
    rows, columns = options.pop("rows").split(","), [name for name in (options.pop("columns", None), options.pop("join", None)) if name]
    joined = "join=" in " ".join(rest)
    kernel, only = options.pop("kernel", None), {"experiment": experiments.split(",")}
    results = simulated(study, only=only) if kernel is None else on_linux(study, kernel, only=only)
    runs = results.to_pandas(options.pop("table", "runs"))
    wanted = runs["engine"] == "sim" if kernel is None else (runs["engine"] == "linux") & (runs["kernel"] == kernel)
    runs = runs[wanted & runs["experiment"].isin(only["experiment"])]
    for name, values in options.items():
        runs = runs[runs[name].astype(str).isin(values.split(","))]
    if runs.empty:
        raise SystemExit(f"no run of {study} is like that")
    print(pivot(runs, rows, columns, metrics, joined=joined))


def pivot(runs: pd.DataFrame, rows: list[str], columns: list[str], metrics: list[tuple[str, int]], *, joined: bool) -> str:
    """Rows and columns in the order of the study."""
    across = columns[:-1] if joined else columns
    heads = list(dict.fromkeys(zip(*(runs[name].astype(str) for name in across), strict=True))) if across else [()]
    sides = list(dict.fromkeys(runs[columns[-1]].astype(str))) if joined else [None]
    lines = []
    for key, own in runs.groupby(rows, sort=False):
        line = [str(part) for part in key]
        for head in heads:
            part = own
            for name, value in zip(across, head, strict=True):
                part = part[part[name].astype(str) == value]
            for metric, digits in metrics:
                each = [part if side is None else part[part[columns[-1]].astype(str) == side] for side in sides]
                line.append(", ".join(_mean(one[metric], digits) for one in each if len(one)))
        lines.append(line)
    units = [NAMES.get(metric, metric) for metric, _ in metrics]
    names = [": ".join(filter(None, (" ".join(head), unit if len(units) > 1 or not head else ""))) for head in heads for unit in units]
    note = f" ({columns[-1]} {', '.join(sides)})" if joined else ""  # type: ignore[arg-type]
    first = rows[0] + (f"; {units[0]}" if len(units) == 1 and across else "") + note
    return table([first, *rows[1:], *names], lines, left=len(rows))


def _mean(values: pd.Series, digits: int) -> str:
    known = values.dropna()
    return f"{known.mean():.{digits}f}" if len(known) else "–"


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(sys.argv[1:])
