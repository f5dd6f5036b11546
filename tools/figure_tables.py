"""The tables that blocks of figures show (tools/figures.py), as Markdown, and what scripts beside
notes and studies share to make others.

    figure_tables.py study STUDY EXPERIMENT[,...] rows=COLUMN[,COLUMN] [columns=COLUMN] [join=COLUMN] [table=subflows]
                     METRIC[:DIGITS]... [kernel=KERNEL] [COLUMN=VALUE[,...]...]
    figure_tables.py claims STUDY [KERNEL...]   which of a study's claims do not hold, and why, and which do
    figure_tables.py verdicts STUDY [KERNEL...] the names alone of those that hold and do not
    figure_tables.py columns GROUP...           rows of docs/reference/results.md
    figure_tables.py applications               the metrics of each kind of application
    figure_tables.py benchmark cc|scheduler FAMILY...   the built-in algorithms in the benchmark

`study` prints means over all that is not named: repetitions, and flows of one kind; `join` puts the
values of one column into a cell. A study is asked in the simulator, or on a kernel in virtual time;
what is missing runs first.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

import pandas as pd

import polypath
from polypath import Results
from polypath.analysis import APPLICATIONS, PLATFORM, ClaimResult, half_width
from polypath.columns import columns_of
from polypath.report import claim_results, material

ROOT = Path(__file__).resolve().parent.parent
# Finished runs are kept here: the next call runs only what a change of the study or the simulator
# calls for.
RESULTS = ROOT / "build" / "figures"
# The longest reason of a claim's verdict, in characters.
LONGEST = 120
NAMES = {
    "goodput_receiver_mbps": "Mbit/s",
    "total_receiver_mbps": "Mbit/s of all",
    "srtt_ms": "RTT, ms",
    "completion_s": "s",
    "segment_usual_bytes": "bytes",
}
PROVENANCE = re.compile(r"# .+ \| recorded \d{4}-\d\d-\d\d, (?:Linux \d+\.\d+|commit [0-9a-f]{7})")


def simulated(study: str | Path, *, only: Mapping[str, Iterable[str]] | None = None) -> Results:
    """The results of a study (its folder, from the project's root) on the simulator; what is
    missing runs first.
    """
    return polypath.run(ROOT / study, out=RESULTS, only=only)


def on_linux(study: str | Path, kernel: str, *, only: Mapping[str, Iterable[str]] | None = None) -> Results:
    """The same on a kernel in virtual time."""
    return polypath.run(ROOT / study, engine="linux", kernel=kernel, out=RESULTS.with_name("figures-linux"), only=only)


def recorded(file: str | Path) -> pd.DataFrame:
    """A table that was measured once: a CSV file whose first line names the command and when and on
    what it ran.
    """
    path = ROOT / file
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    if not PROVENANCE.match(first):
        raise SystemExit(f'{path.relative_to(ROOT)}:1: say where the figures are from: "# COMMAND | recorded 2026-05-17, Linux 6.12.117"')
    return pd.read_csv(path, comment="#", skipinitialspace=True, dtype=str, keep_default_na=False)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, left: int = 1) -> str:
    """A Markdown table whose columns are numbers but for the first `left` ones."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in [head, rule, *rows])


def interval(values: Sequence[float], digits: int) -> str:
    """Mean and the half-width of its 95 % interval."""
    return f"{fmean(values):.{digits}f} ± {half_width(values):.{digits}f}"


def span(values: Sequence[float], digits: int) -> str:
    """Mean, least and most."""
    return f"{fmean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def choose(arguments: Sequence[str], tables: Mapping[str, Callable[[], str]]) -> None:
    """Prints the table that the command line names."""
    if len(arguments) != 2 or arguments[1] not in tables:
        raise SystemExit(f"name one of these tables: {', '.join(tables)}")
    print(tables[arguments[1]]())


def study_table(study: str, experiments: str, *rest: str) -> str:
    """A table of a study's results."""
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
    return pivot(runs, rows, columns, metrics, joined=joined)


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


def decided(study: str, kernels: Sequence[str]) -> dict[str, dict[str, ClaimResult]]:
    """By platform, the claims that were measured."""
    tables = [material(on_linux(study, kernel)) for kernel in kernels][-1:] or [material(simulated(study))]
    platforms = [str(name) for name in dict.fromkeys(tables[0].runs[PLATFORM])]
    if kernels:
        platforms = [name for kernel in kernels for name in platforms if name.split()[-1] == kernel]
    results = {name: claim_results(tables[0], name) for name in platforms}
    return {name: {claim.id: claim for claim in claims if claim.verdict != "not measured"} for name, claims in results.items()}


def claims_table(study: str, *kernels: str) -> str:
    """A line a claim that was measured and does not hold, and the names of those that do."""
    found = decided(study, kernels)
    platforms = list(found)
    rows, holding = [], []
    for claim in dict.fromkeys(claim for claims in found.values() for claim in claims):
        each = {name: claims[claim] for name, claims in found.items() if claim in claims}
        verdicts = [each[name].verdict if name in each else "not measured" for name in platforms]
        if set(verdicts) == {"holds"}:
            holding.append(f"`{claim}`")
            continue
        why = [(f"{name.split()[-1]}: " if len(platforms) > 1 else "") + _short(result.why) for name, result in each.items()]
        rows.append([f"`{claim}`", *verdicts, "<br>".join(why)])
    heads = ["Linux " + name.split()[-1] for name in platforms] if kernels else ["simulator"]
    parts = [table(["claim", *heads, "because"], rows, left=2 + len(heads))] if rows else []
    return "\n\n".join([*parts, *([f"Holds: {', '.join(holding)}."] if holding else [])])


def verdicts_list(study: str, *kernels: str) -> str:
    """The names of claims that hold on every platform, and of those that do not."""
    found = decided(study, kernels)
    names = dict.fromkeys(claim for claims in found.values() for claim in claims)
    holding = [name for name in names if all(name in claims and claims[name].verdict == "holds" for claims in found.values())]
    failing = [name for name in names if name not in holding]
    lists = {"Holds": holding, "Does not hold": failing}
    return "\n\n".join(f"{verdict}: {', '.join(f'`{name}`' for name in of)}." for verdict, of in lists.items() if of)


def _short(why: str) -> str:
    """The first parts of a long reason, and how many more there are."""
    parts = why.split("; ")
    kept: list[str] = []
    for part in parts:
        if kept and len("; ".join([*kept, part])) > LONGEST:
            # The claim itself may have left cells out.
            unsaid = re.search(r" and (\d+) more$", parts[-1])
            return "; ".join(kept) + f"; and {len(parts) - len(kept) + int(unsaid[1] if unsaid else 0)} more"
        kept.append(part)
    return re.sub(r"\s*\|\s*", " / ", "; ".join(kept))


def columns_table(*groups: str) -> str:
    """The columns of groups that are declared in Rust."""
    return _listed(["column", "meaning"], [[f"`{c.name}`", _with_unit(c.name, c.unit, c.meaning)] for c in columns_of(*groups)])


def _with_unit(name: str, unit: str, meaning: str) -> str:
    """The meaning with its unit, where neither the name nor a noun of the sentence says it."""
    said = not unit or unit == "times" or name.endswith(("_s", "_ms", "_mbps", "_bytes", "_packets")) or re.search(rf"\b{unit}\b", meaning)
    return meaning if said else f"{meaning}, {unit}"


def applications() -> str:
    """What stands in tables of each kind of application."""
    rows = []
    for application in APPLICATIONS:
        for number, metric in enumerate(application.metrics):
            name = f"{application.name}: {application.what}" if number == 0 else ""
            best = f"`{metric.best}`" if metric.best else ""
            head = f"{metric.head}, {metric.unit}" if metric.unit else metric.head
            rows.append([name, head, f"`{metric.column}`", metric.meaning, best])
    return _listed(["application", "metric", "column", "meaning", "beside it"], rows)


def benchmark(kind: Literal["cc", "scheduler"], *names: str) -> str:
    """The built-in algorithms' results, which lie in the package: their scores, and those of some families."""
    from polypath.benchmark import built_in, ranking

    rows = []
    for place in ranking(built_in(kind)).ranks:
        tied = "" if place.of_best.tells_apart or place.rank == 1 else " ="
        rows.append(
            [f"`{place.record.title}`", f"{place.rank}{tied}", str(place.score), *(f"{place.families[name]:.0f}" for name in names)]
        )
    return _listed([kind, "place", "score", *names], rows)


def _listed(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> None:
    kinds: dict[str, Callable[..., str]] = {
        "study": study_table,
        "claims": claims_table,
        "verdicts": verdicts_list,
        "columns": columns_table,
        "applications": applications,
        "benchmark": benchmark,
    }
    if len(sys.argv) < 2 or sys.argv[1] not in kinds:
        raise SystemExit(__doc__)
    print(kinds[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
