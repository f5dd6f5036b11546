"""A person's own script in a fresh machine, as root, with this machine's files read-only."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import _machine
from ._errors import EngineError

# What has our programs.
PACKAGE = Path(__file__).parents[1]


def run_script(
    script: Path,
    *,
    kernel: Path,
    seed: int,
    out: Path | None,
    timeout_s: float,
    files: Mapping[str, Path] | None = None,
    folders: Iterable[Path] = (),
    observe: str = "",
    vary: str = "",
    shell: tuple[int, int] | None = None,
) -> tuple[int, str]:
    """Runs a shell script; returns its exit status and what it printed. Files that it left in
    `$OUT` are put into `out`.

    It finds copies of `files` by their names in /run/polypath, and `folders` and Polypath's own
    programs where they are here, even below /tmp, /run and /dev, which are the machine's own.
    `observe` says what the machine writes down of itself (cc/kernel/observe.c); runs that differ in
    nothing else are equal. `vary` says what varies in it (cc/kernel/vary.c). `shell` has the
    descriptors of a person's input and output.
    """
    _machine.programs_are_there()
    _machine.clean_once()
    with _machine.folder() as where:
        shutil.copyfile(script, where / "script")
        for name, file in (files or {}).items():
            shutil.copyfile(file, where / name)
        _machine.hand_in(where, (PACKAGE, *folders))
        if observe:
            (where / "observe").write_text(observe, encoding="ascii")
        _machine.put_variation(where, vary)
        if shell:
            (where / "shell").write_text(" ".join(map(str, shell)), encoding="ascii")
        _machine.start(where, kernel=kernel, seed=seed, timeout_s=timeout_s, left_open=shell or ())
        status, log = where / "results" / "status", where / "log"
        said = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        if not status.is_file():
            raise EngineError(f"the machine powered off without running the script: {said.strip() or 'it left no word'}")
        code = int(status.read_text(encoding="ascii"))
        status.unlink()
        left = sorted((where / "results").iterdir())
        if out is not None and left:
            out.mkdir(parents=True, exist_ok=True)
            for process in left:
                if process.is_dir():
                    shutil.copytree(process, out / process.name, dirs_exist_ok=True)
                else:
                    shutil.copyfile(process, out / process.name)
        return code, said
