"""`polypath sweep`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from polypath.results import DEFAULT_OUT
from polypath.study import StudyError

from . import _studies
from ._console import out

app = typer.Typer(help="Studies as work for other programs.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    pass


@app.command()
def export(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Folder or file of a study, or the name of one in ./studies.")],
    snakemake: Annotated[bool, typer.Option("--snakemake", help="A Snakefile: a rule for the parts, one for tables and report.")] = False,
    parts: Annotated[int, typer.Option(min=1, help="In how many parts the runs go.")] = 10,
    file: Annotated[Path, typer.Option("--file", help="Where to write it.")] = Path("Snakefile"),
    engine: Annotated[str, typer.Option(help="What runs it, as `polypath run --engine`: sim or linux.")] = "sim",
    out_folder: Annotated[Path, typer.Option("--out", help="Where the results go; all jobs must see this folder.")] = DEFAULT_OUT,
) -> None:
    """Write a workflow that runs a study in parts, for a lab that has its own workflow engine."""
    if not snakemake:
        raise StudyError("say what to write: --snakemake is what there is")
    loaded = _studies.load(study)
    from polypath.engines import find
    from polypath.sweep import check_place, snakefile

    check_place(find(engine))
    if file.exists():
        raise StudyError(f"{file} is there already; remove it, or name another with --file")
    words = ["polypath", "run", study, "--engine", engine, "--out", str(out_folder)]
    file.write_text(snakefile(shlex.join(words), str(out_folder / loaded.name), parts), encoding="utf-8")
    out.print(f"{file}: `snakemake --snakefile {file} --cores 4` runs it; on a cluster, with an executor of Snakemake's", soft_wrap=True)
