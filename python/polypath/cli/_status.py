"""`polypath status`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from polypath.results import DEFAULT_OUT, Progress, progress_of
from polypath.study import FILE_NAME, StudyError

from . import _studies
from ._console import give, out
from ._work import AsJson

# A client that lives writes once a second; one that is busy writing tables, less often.
_SILENT_S = 60.0


def status(
    what: Annotated[
        str, typer.Argument(metavar="FOLDER|STUDY", help="Where results go, as `--out` of `polypath run`; or a study, or its results.")
    ] = str(DEFAULT_OUT),
    as_json: AsJson = False,
) -> None:
    """Show how far studies are that run now, in this terminal or another."""
    folder = _folder(what)
    live = [progress for entry in (folder, *sorted(folder.iterdir())) if (progress := progress_of(entry)) is not None]
    if as_json:
        rows = [
            {**dataclasses.asdict(progress), "per_second": progress.per_second, "left_s": progress.left_s, "stopped": progress.stopped}
            for progress in live
        ]
        give(rows)
        return
    if not live:
        out.print(f"nothing runs whose results go to {folder}", soft_wrap=True)
        return
    table = Table("study", "engine", "ended", "failed", "runs/s", "left", "machines", "threads", "state")
    for progress in live:
        left = "" if progress.left_s is None else _span(progress.left_s)
        ended = f"{progress.finished + progress.failed} of {progress.runs}"
        numbers = (f"{progress.per_second:.1f}", left, str(progress.machines), str(progress.threads))
        table.add_row(progress.study, progress.engine, ended, str(progress.failed), *numbers, _state(progress))
    out.print(table)


def _folder(what: str) -> Path:
    named = Path(what)
    if named.is_dir() and ((named / "manifest.json").is_file() or not (named / FILE_NAME).is_file()):
        return named
    folder = _studies.results_of(what)
    if not folder.is_dir():
        raise StudyError(f"{folder} is no folder with results; name the one that `polypath run` was given with --out, or a study")
    return folder


def _state(progress: Progress) -> str:
    if progress.stopped:
        return "stopped: its process is gone; the same command goes on from there"
    silent = time.time() - progress.updated
    if silent > _SILENT_S:
        return f"not heard of for {_span(silent)} (process {progress.process} of {progress.host})"
    return progress.note or "running"


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
