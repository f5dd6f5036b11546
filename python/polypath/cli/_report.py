"""`polypath report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from polypath.report import Material
from polypath.report import write as write_report
from polypath.results import DEFAULT_OUT, Results
from polypath.study import StudyError, parameter_names

from ._console import out


def report(
    results: Annotated[str, typer.Argument(metavar="RESULTS", help="Folder of results, or the name of a study in ./results.")],
) -> None:
    """Write the report of finished results again: one HTML file that opens offline, and every figure as SVG and PNG."""
    out.print(f"report: {write(open_results(results))}", soft_wrap=True)


def open_results(argument: str) -> Results:
    """The results that an argument means."""
    path = Path(argument)
    return Results.open(path if path.is_dir() or len(path.parts) != 1 else DEFAULT_OUT / argument)


def write(results: Results) -> Path:
    """Writes the report into the folder of the results."""
    study = results.study
    if study is None:
        raise StudyError(f"{results.folder} holds no study.yaml, so there is nothing to report on; run the study again")
    if results.runs.empty:
        raise StudyError(f"{results.folder} holds no finished run; run the study first")
    published = None if study.published is None else pd.read_csv(results.folder / study.published.file)
    material = Material(
        study=study,
        parameters=parameter_names(study),
        runs=results.runs,
        baselines=results.baselines,
        subflows=results.subflows,
        series=results.series,
        scenarios={key: results.scenario(key) for key in dict.fromkeys(results.runs["key"])},
        published=published,
        repeat=[f"polypath run {study.name}"],
        versions=results.manifest["engines"],
    )
    return write_report(material, results.folder)
