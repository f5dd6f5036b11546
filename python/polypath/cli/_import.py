"""`polypath import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polypath.study import FILE_NAME, StudyError

from . import _console, _studies
from ._work import AsJson, Only, choices

_HEAD = "# Of the links a rate is the most that was carried in a second, and queue and loss are not known: put in what you know.\n"
_BOUNDS = "what was possible and what limited are of links that carry what was measured, and no more: put in what you know of them"


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="JSON of iperf3, a .flent.gz, a folder of NeST's dumps, or text of `date +%s.%N; ss -tinM` again and again. Several are "
            "repetitions.",
        ),
    ],
    study: Annotated[
        str | None,
        typer.Option(help="The study of what was measured. Default: one is written, in a folder of its name."),
    ] = None,
    only: Only = None,
    name: Annotated[str | None, typer.Option(help="What the study that is written is called; default: as the first file.")] = None,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Where the results go. Default: where those of the study are.")] = None,
    as_json: AsJson = False,
) -> None:
    """Take what other tools measured into the results of a study: report, compare and claims then
    read it beside what is simulated.
    """
    from polypath.measured import measured, study_of, take, without_cc
    from polypath.results import replace_file

    if study is not None and name is not None:
        raise StudyError("--name is of a study that is written, and --study of one that is there: take one of them")
    if study is None and only:
        raise StudyError("--only chooses a cell of a study that is there: add --study")
    if twice := [file for number, file in enumerate(files) if file.resolve() in [other.resolve() for other in files[:number]]]:
        raise StudyError(f"{twice[0]} is named twice, and one measurement is no two repetitions: leave it out")
    read = [(str(file), measured(file)) for file in files]
    is_written = study is None
    if study is None:
        own = study_of(_name(name, files[0]), [each for _, each in read])
        place = Path(own.name) / FILE_NAME
        if place.exists():
            raise StudyError(f"{place} is there already: take --study {own.name}, or another --name")
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, (_HEAD + own.to_yaml()).encode())
        _console.out.print(f"wrote {place}", soft_wrap=True)
        for sentence in without_cc([each for _, each in read]):
            _console.out.print(sentence, markup=False, highlight=False, soft_wrap=True)
        study = str(place)
    loaded = _studies.load(study)
    results, short = take(loaded, read, out_folder or _studies.out_of(loaded), choices(only))
    for file, each in read:
        for sentence in each.said:
            _console.out.print(f"{file}: {sentence}", markup=False, highlight=False, soft_wrap=True)
    for sentence in short:
        _console.out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    from . import _report

    if as_json:
        said = {file: [*each.said, *([_BOUNDS] if is_written else [])] for file, each in read}
        _console.give({**_report.as_plain(results), "file": study, "said": said, "windows": short})
        return
    from ._summary import summary

    _console.out.print(summary(results, _report.material_of(results), []))
    if is_written:
        _console.out.print(_BOUNDS, soft_wrap=True)
    _console.out.print(f"tables: {results.folder}; `polypath run {study}` simulates the same beside it", soft_wrap=True)


def _name(name: str | None, file: Path) -> str:
    if name is not None:
        return name
    from polypath.measured import named

    return named(file.resolve().name.removesuffix(".gz").rsplit(".", 1)[0] if file.is_file() else file.resolve().name)[:64]
