"""`polypath report`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.results import DEFAULT_OUT
from polypath.study import FILE_NAME, StudyError

from . import _console, _studies

if TYPE_CHECKING:
    from polypath.report import Material
    from polypath.results import Results


# Those of `polypath.plot`, which takes longer to load than a mistake should take to be told.
FIGURE_KINDS = ("svg", "png", "pdf")


def report(
    results: Annotated[
        str,
        typer.Argument(metavar="RESULTS|STUDY", help="Folder of results, the name of a study in ./results, or a study's file or folder."),
    ],
    figures: Annotated[str, typer.Option(help="Kinds of file for the figures: svg, png, pdf, or several with commas.")] = "svg,png",
) -> None:
    """Write the report of finished results again: one HTML file that opens offline, and every
    figure as a file, for slides and papers.
    """
    kinds = [kind.strip() for kind in figures.split(",") if kind.strip()]
    wrong = [kind for kind in kinds if kind not in FIGURE_KINDS]
    if wrong or not kinds:
        raise StudyError(f'figures cannot be "{figures}"; they are written as {", ".join(FIGURE_KINDS)}, or several like "svg,pdf"')
    _console.out.print(f"report: {write(open_results(results), figures=kinds)}", soft_wrap=True)


def open_results(argument: str) -> Results:
    """The results that an argument means: a folder of results, the name of one in ./results, which
    is the study's, or a study.
    """
    from polypath.results import Results

    folder, by_name = Path(argument), DEFAULT_OUT / argument
    if (folder / "runs.parquet").exists():
        return Results.open(folder)
    if by_name.is_dir():
        return Results.open(by_name)
    if folder.is_file() or (folder / FILE_NAME).is_file():
        study = _studies.read_all([argument])[0]
        return Results.open(_studies.out_of(study) / study.name)
    return Results.open(folder)


def as_plain(results: Results) -> dict[str, Any]:
    """The summary and the notes of results, for programs; what was not measured is null."""
    rows = json.loads(results.summary().to_json(orient="records", double_precision=15))
    return {"study": results.folder.name, "folder": str(results.folder), "notes": list(results.notes), "summary": rows}


def write(results: Results, material: Material | None = None, figures: Sequence[str] = ("svg", "png")) -> Path:
    """Writes the report into the folder of the results; `material` is of them, where it is there
    already.
    """
    from polypath.report import write_report  # The drawing library takes longer to load than most commands take to run.

    return write_report(results, tables=material, figures=figures)


def material_of(results: Results) -> Material | None:
    """What is printed of the results and what the report is made of; nothing without a finished
    run.
    """
    from polypath.report import material

    return None if results.runs.empty else material(results)
