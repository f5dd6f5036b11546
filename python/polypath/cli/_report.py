"""`polypath report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polypath.report import write_report
from polypath.results import DEFAULT_OUT, Results

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
    return write_report(results)
