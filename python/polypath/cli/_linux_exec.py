"""`polypath linux exec`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from polypath import linux
from polypath.engines import run_script
from polypath.study import DEFAULT_KERNEL, StudyError


def exec_(
    script: Annotated[Path, typer.Argument(help="A shell script.")],
    kernel: Annotated[str, typer.Option(help="Which kernel; `polypath linux list` shows those there are.")] = DEFAULT_KERNEL,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the kernel's random numbers.")] = 1,
    out_folder: Annotated[Path | None, typer.Option("--out", help="Where the files go that the script leaves in $OUT.")] = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds of processor time, or of none, after which the machine counts as hanging.")
    ] = 3600,
) -> None:
    """Run a shell script as root in a fresh machine: this machine's files read-only, time virtual,
    equal runs equal to the byte.

    What it prints is printed, and its exit status is this command's. /dev, /tmp and /run are the
    machine's own, with nothing of this machine's but the script's folder and the current one, where
    they lie there.
    """
    if not script.is_file():
        raise StudyError(f"there is no script {script}")
    code, said = run_script(
        script, kernel=linux.find(kernel).file, seed=seed, out=out_folder, timeout_s=timeout, folders=(script.parent, Path.cwd())
    )
    sys.stdout.write(said)
    raise typer.Exit(code)
