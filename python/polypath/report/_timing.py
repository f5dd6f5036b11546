"""How well links in real time kept their times, and which runs are not to be trusted therefore."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from polypath.analysis import PLATFORM

from ._format import number, several
from ._material import Material, label, varied
from ._tables import Cell, Column, Table

LATE = "late_p99_ms"
UNTRUSTED_MARK = "*"
"""Stands beside figures that hold runs which are not to be trusted."""


def untrusted(runs: pd.DataFrame) -> int:
    """How many of the runs are not to be trusted."""
    return int(runs.loc[runs["trusted"].eq(False), "key"].nunique())


def warnings(runs: pd.DataFrame, parameters: Sequence[str] = ()) -> list[str]:
    """A sentence a platform that has runs which are not to be trusted."""
    sentences = []
    if not untrusted(runs):
        return []
    for platform, platform_runs in runs.groupby(PLATFORM, sort=False):
        count, of = untrusted(platform_runs), platform_runs["key"].nunique()
        if not count:
            continue
        bad = platform_runs[platform_runs["trusted"].eq(False)].drop_duplicates("key")
        names = [name for name in parameters if name in platform_runs and platform_runs[name].nunique() > 1]
        which = [f"{label(dict(row), names, 1) if names else row['experiment']} seed {row['seed']}" for _, row in bad.iterrows()]
        latest = number(bad[LATE].max())
        sentences.append(
            f"{count} of {of} runs on {platform} {'is' if count == 1 else 'are'} not to be trusted (up to {latest} ms late at the 99th "
            f"percentile, packets lost by the emulator, or datagrams sent late), marked {UNTRUSTED_MARK}: {several(which[:6])}"
            f"{' and others' if count > 6 else ''}; "
            "the machine was busy with something else, so run them again (--again) when it is not"
        )
    return sentences


def timing(material: Material) -> Table | None:
    """A row a cell of an engine in real time; None where nothing ran in real time."""
    runs = material.runs
    if LATE not in runs or not bool(runs[LATE].notna().any()):
        return None
    timed = runs[runs[LATE].notna()].drop_duplicates("key")
    columns = [
        Column(title="Cell", numeric=False),
        Column(title="Runs", help="Those that are not to be trusted are told apart"),
        Column(
            title="Median",
            unit="ms",
            help="How much later than the model says half of all packets left; the latest direction of a run, mean of the runs",
        ),
        Column(title="99 %", unit="ms", help="The same of 99 in 100 packets"),
        Column(title="Worst 99 %", unit="ms", help="Of the latest run"),
        Column(title="Latest packet", unit="ms", help="Of all runs"),
    ]
    body = []
    for experiment, experiment_runs in timed.groupby("experiment", sort=False):
        names = [name for name in varied(material, experiment_runs) if name in experiment_runs]
        for _, cell in experiment_runs.groupby(names, sort=False, dropna=False) if names else [("", experiment_runs)]:
            words = label(dict(cell.iloc[0]), names, 1) if names else str(experiment)
            bad = untrusted(cell)
            body.append(
                [
                    Cell(text=f"{experiment}: {words}" if timed["experiment"].nunique() > 1 else words, css="name"),
                    Cell(text=str(len(cell)) + (f", {bad} not to be trusted" if bad else ""), css="far" if bad else ""),
                    Cell(text=number(cell["late_median_ms"].mean(), 3)),
                    Cell(text=number(cell[LATE].mean(), 3)),
                    Cell(text=number(cell[LATE].max(), 3)),
                    Cell(text=number(cell["late_max_ms"].max(), 3)),
                ]
            )
    return Table(columns=columns, rows=body)
