"""`polypath report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polypath.results import DEFAULT_OUT

from ._console import out

if TYPE_CHECKING:
    from polypath.report import Material
    from polypath.results import Results


def report(
    results: Annotated[str, typer.Argument(metavar="RESULTS", help="Folder of results, or the name of a study in ./results.")],
) -> None:
    """Write the report of finished results again: one HTML file that opens offline, and every figure as SVG and PNG."""
    out.print(f"report: {write(open_results(results))}", soft_wrap=True)


def open_results(argument: str) -> Results:
    """The results that an argument means: a folder of results, or the name of one in ./results, which is the study's."""
    from polypath.results import Results

    by_name = DEFAULT_OUT / argument
    return Results.open(by_name if not (Path(argument) / "runs.parquet").is_file() and by_name.is_dir() else argument)


def write(results: Results, made: Material | None = None) -> Path:
    """Writes the report into the folder of the results; `made` is their material where it is there already."""
    from polypath.report import write_report  # The drawing library takes longer to load than most commands take to run.

    return write_report(results, made=made)


def material_of(results: Results) -> Material | None:
    """What is printed of the results and what the report is made of; nothing without a finished run."""
    from polypath.report import material

    return None if results.runs.empty else material(results)
