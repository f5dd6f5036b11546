"""What the scripts behind blocks of figures share (tools/figures.py runs them): results of a study, recorded figures, Markdown tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

import pandas as pd

import polypath
from polypath import Results
from polypath.analysis import half_width

ROOT = Path(__file__).resolve().parent.parent
# Finished runs are kept here: the next call runs only what a change of the study or the simulator calls for.
RESULTS = ROOT / "build" / "figures"
PROVENANCE = re.compile(r"# .+ \| recorded \d{4}-\d\d-\d\d, (?:Linux \d+\.\d+|commit [0-9a-f]{7})")


def simulated(study: str | Path, *, only: Mapping[str, Iterable[str]] | None = None) -> Results:
    """The results of a study (its folder, from the project's root) on the simulator; what is missing runs first."""
    return polypath.run(ROOT / study, out=RESULTS, only=only)


def on_linux(study: str | Path, kernel: str, *, only: Mapping[str, Iterable[str]] | None = None) -> Results:
    """The same on a kernel in virtual time."""
    return polypath.run(ROOT / study, engine="linux", kernel=kernel, out=RESULTS.with_name("figures-linux"), only=only)


def recorded(file: str | Path) -> pd.DataFrame:
    """A table that was measured once: a CSV file whose first line names the command and when and on what it ran."""
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
