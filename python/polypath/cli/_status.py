"""`polypath status`."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from polypath.results import DEFAULT_OUT, Progress, progress_of
from polypath.study import StudyError

from ._console import out

# A client that lives writes once a second; one that is busy writing tables, less often.
_SILENT_S = 60.0


def status(
    folder: Annotated[
        Path, typer.Argument(help="Where results go, as `--out` of `polypath run`; or one study's folder in it.")
    ] = DEFAULT_OUT,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Show how far studies are that run now, in this terminal or another."""
    if not folder.is_dir():
        raise StudyError(f"{folder} is no folder with results; name the one that `polypath run` was given with --out")
    found = [each for place in (folder, *sorted(folder.iterdir())) if (each := progress_of(place)) is not None]
    if as_json:
        told = [
            {**dataclasses.asdict(each), "per_second": each.per_second, "left_s": each.left_s, "stopped": each.stopped} for each in found
        ]
        out.print_json(json.dumps(told))
        return
    if not found:
        out.print(f"nothing runs whose results go to {folder}", soft_wrap=True)
        return
    table = Table("study", "engine", "ended", "failed", "runs/s", "left", "machines", "threads", "state")
    for each in found:
        left = "" if each.left_s is None else _span(each.left_s)
        ended = f"{each.finished + each.failed} of {each.runs}"
        numbers = (f"{each.per_second:.1f}", left, str(each.machines), str(each.threads))
        table.add_row(each.study, each.engine, ended, str(each.failed), *numbers, _state(each))
    out.print(table)


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
