"""Scripts of packets: the program that plays them, here against the simulator's endpoint, in a
machine against its kernel.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from polypath import programs

from . import _machine
from ._errors import NotBuiltError
from ._script import run_script

PLAYER = _machine.PROGRAMS / "polypath-script"
# Seconds of processor time after which a machine counts as hanging; a script takes a hundredth of one.
PATIENCE_S = 600.0


def run_packets(files: Sequence[Path], *, kernel: str | None = None, machine: Path | None = None) -> tuple[int, str]:
    """Plays scripts of packets; returns the exit status, 0 if all passed, and a line for each with
    what went wrong before it.

    The endpoint is the kernel in the executable `machine`, one machine for all scripts, or the
    simulator's without one. `kernel` is its name, which selects lines and leaves out scripts about
    others; the simulator's endpoint without it does as each of the kernels that a script is about.
    """
    return play(files, machine, *(["--kernel", kernel] if kernel else []))


def play(files: Sequence[Path], machine: Path | None, *options: str, folder: Path | None = None) -> tuple[int, str]:
    """Has the program play files, here or in a machine; returns exit status and output. What is said of
    files in `folder` has their names alone.
    """
    if not PLAYER.is_file():
        raise NotBuiltError(programs.not_built(PLAYER.name))
    if machine is None:
        done = programs.run(PLAYER.resolve(), *options, *(file.relative_to(folder) if folder else file for file in files), cwd=folder)
        return done.returncode, done.stdout + done.stderr
    # It has a /tmp of its own, so the files travel in the job.
    lines = ['cd "$(mktemp -d)"']
    for file in files:
        lines.append(f"cat > {shlex.quote(file.name)} <<'END OF THE SCRIPT'\n{file.read_text(encoding='utf-8')}\nEND OF THE SCRIPT")
    lines.append(shlex.join([str(PLAYER.resolve()), "--engine", "linux", *options, *(file.name for file in files)]))
    with tempfile.TemporaryDirectory() as name:
        job = Path(name) / "job.sh"
        job.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return run_script(job, kernel=machine, seed=1, out=None, timeout_s=PATIENCE_S)
