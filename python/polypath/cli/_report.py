"""`polypath report`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polypath.results import chosen
from polypath.study import StudyError

from . import _console, _studies
from ._against import Against
from ._against import against as against_parts
from ._work import AsJson, CcPath, choices, names_in, use_custom

if TYPE_CHECKING:
    import pandas as pd

    from polypath.report import Material
    from polypath.results import Results


# Those of `polypath.plot`, which takes longer to load than a mistake should take to be told.
FIGURE_KINDS = ("svg", "png", "pdf")
_WIDTH, _FONT_SIZE = "85mm", 8.0


def report(
    results: Annotated[
        str,
        typer.Argument(metavar="RESULTS|STUDY", help="Folder of results, the name of a study in ./results, or a study's file or folder."),
    ],
    figures: Annotated[
        str | None,
        typer.Option(help="Kinds of file for the figures: svg, png, pdf, or several with commas; default: svg,png, with --figure pdf."),
    ] = None,
    against: Against = None,
    figure: Annotated[
        str | None,
        typer.Option(
            help="In place of the report one figure for a paper: a metric such as goodput, delay or completion, a column of the runs, or "
            "cwnd or srtt over time."
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="With --figure: box, cdf, bar, or line (over a number that the matrix varies, or over time).")
    ] = None,
    width: Annotated[str, typer.Option(help="With --figure: how wide it is on paper.")] = _WIDTH,
    font_size: Annotated[float, typer.Option(help="With --figure: size of its letters in points.")] = _FONT_SIZE,
    only: Annotated[
        list[str] | None,
        typer.Option(help="With --figure: the cells and their order, such as cc=lia,olia; may be repeated."),
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="VALUE=TEXT", help="With --figure: what a value is called; repeat it.")] = None,
    cc_path: CcPath = None,
    out_file: Annotated[Path | None, typer.Option("--out", help="With --figure: the file, such as figure.pdf, .svg or .png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of finished results again: one HTML file that opens offline, and every
    figure as a file, for slides and papers.
    """
    use_custom(cc_path)
    if figure is not None and out_file is not None:
        own = out_file.suffix.removeprefix(".")
        if figures is not None and own not in names_in(figures):
            raise StudyError(f"--out {out_file} is no file of --figures {figures}: leave --figures out, or end the name in .{figures}")
        figures = figures or own
    asked = figures or ("svg,png" if figure is None else "pdf")
    kinds = names_in(asked)
    wrong = [name for name in kinds if name not in FIGURE_KINDS]
    if wrong or not kinds:
        raise StudyError(f'figures cannot be "{asked}"; they are written as {", ".join(FIGURE_KINDS)}, or several like "svg,pdf"')
    asked_of_one: dict[str, object] = {"--kind": kind, "--only": only, "--label": label, "--out": out_file}
    asked_of_one |= {"--width": width != _WIDTH, "--font-size": font_size != _FONT_SIZE}
    given = [name for name, value in asked_of_one.items() if value]
    if figure is None and given:
        raise StudyError(f"{given[0]} is about one figure: say which, like --figure goodput")
    if figure is not None:
        if against is not None:
            raise StudyError("--against is of the report, whose figure of it is figures/against.svg: leave it or --figure out")
        opened = open_results(results)
        files = _draw(
            opened,
            figure,
            kinds,
            out_file,
            kind=kind,
            only=choices(only),
            width=width,
            font_size=font_size,
            labels=_labels(label),
        )
        if as_json:
            _console.give({"study": opened.folder.name, "folder": str(opened.folder), "figures": files})
        return
    opened = open_results(results)
    pair = None if against is None else chosen(against)
    tables = None if pair is None else material_of(opened, pair)
    for part in against_parts(tables) if tables is not None and not as_json else ():
        _console.out.print(part)
    page = write(opened, tables, figures=kinds)
    _console.out.print(f"report: {page}", soft_wrap=True)
    if as_json:
        _console.give({**as_plain(opened, pair, tables), "report": str(page)})


def _draw(results: Results, what: str, kinds: Sequence[str], out_file: Path | None, **how: Any) -> list[str]:
    """Writes one figure for a paper; its files."""
    from polypath.report import FIGURES, as_printed, paper_figure, replace

    drawn = paper_figure(results, what, **how)
    folder = results.folder / FIGURES if out_file is None else out_file.parent
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for each in kinds:
        file = folder / (f"{drawn.name}.{each}" if out_file is None else f"{out_file.stem}.{each}")
        replace(file, as_printed(drawn, each))
        _console.out.print(f"figure: {file}", soft_wrap=True)
        files.append(str(file))
    for sentence in filter(None, [drawn.caption, *results.notes]):
        _console.out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    return files


def _labels(texts: Sequence[str] | None) -> dict[str, str]:
    """What values are called."""
    labels = {}
    for text in texts or ():
        value, equals, called = text.partition("=")
        if not (value and equals and called):
            raise StudyError(f"--label {text} names nothing; write a value and what it is called, like dlia=D-LIA")
        labels[value] = called
    return labels


def open_results(argument: str) -> Results:
    """The results that an argument means."""
    from polypath.results import Results

    return Results.open(_studies.results_of(argument))


def as_plain(results: Results, against: tuple[str, str] | None = None, tables: Material | None = None) -> dict[str, Any]:
    """The summary and the notes of results, for programs, the verdicts on their study's claims, and
    where it is asked for one value against the others; what was not measured is null. `tables`:
    their material where it is there.
    """
    plain = {"study": results.folder.name, "folder": str(results.folder), "notes": list(results.notes), "summary": _rows(results.summary())}
    if results.study is not None and results.study.claims and not results.runs.empty:
        plain["claims"] = _verdicts(tables or material_of(results))
    return plain if against is None else {**plain, "against": _rows(results.against(**dict([against])))}


def _verdicts(tables: Material | None) -> list[dict[str, str]]:
    """A row for each claim and platform."""
    from polypath.report import claims_of

    return [
        {"id": claim.id, "sentence": claim.sentence, "platform": said.platform, "verdict": str(said.verdict), "why": said.why}
        for claim in (claims_of(tables) if tables is not None else ())
        for said in claim.decisions
    ]


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return rows


def write(results: Results, material: Material | None = None, figures: Sequence[str] = ("svg", "png")) -> Path:
    """Writes the report into the folder of the results; `material` is of them, where it is there
    already.
    """
    from polypath.report import write_report  # The drawing library takes longer to load than most commands take to run.

    return write_report(results, tables=material, figures=figures)


def material_of(results: Results, against: tuple[str, str] | None = None) -> Material | None:
    """What is printed of the results and what the report is made of; nothing without a finished
    run. `against`: the parameter and the value that all others are compared with.
    """
    from polypath.report import material

    return None if results.runs.empty else material(results, against)
