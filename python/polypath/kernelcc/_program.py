"""Runs polypath-cc. The one place that starts processes here: it checks their status and keeps what
they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from polypath import customcc, programs
from polypath.errors import PolypathError

from ._status import Status

PROGRAM = Path(__file__).parent / "bin" / "polypath-cc"
# What the program begins its complaints with.
_COMPLAINT = "polypath-cc: "
# What the kernel's names of ours begin with.
PREFIX = "pp_"
_DIFFERENT = 1


class KernelCcError(PolypathError, RuntimeError):
    """The kernel or the machine lacks something, or somebody else uses it; the text is one sentence
    that says who must do what.
    """


def program() -> Path:
    """Where it is; raises if it was not built."""
    if not PROGRAM.is_file():
        lacks = " ".join(programs.packages(programs.missing("cc")))
        raise KernelCcError(programs.not_built(PROGRAM.name) + (f", on a machine with the Debian packages {lacks}" if lacks else ""))
    return PROGRAM


def complaint(said: str) -> KernelCcError:
    """The program's own sentence."""
    sentence = said.strip().removeprefix(_COMPLAINT)
    return KernelCcError(sentence or "polypath-cc ended without a word; run `polypath cc status` to see what the kernel has")


def _stdout_of(*words: str) -> str:
    done = programs.run(program(), *words)
    if done.returncode:
        raise complaint(done.stderr)
    return done.stdout


def custom_files(names: Iterable[str]) -> list[str]:
    """Where the program finds custom algorithms among these: what they are, and what the kernel
    takes.
    """
    used = customcc.used()
    custom = [used[bare] for bare in dict.fromkeys(name.removeprefix(PREFIX) for name in names) if bare in used]
    return [
        "=".join(map(str, (f"--own={algorithm.name}", customcc.object_for(algorithm), *customcc.bpf_objects_for(algorithm))))
        for algorithm in custom
    ]


def load(names: Iterable[str]) -> list[str]:
    """Loads algorithms, custom ones too (`customcc.use`), until they are unloaded, all or none; the
    kernel's names.
    """
    names = list(names)
    return [line.removeprefix("loaded ") for line in _stdout_of("load", *custom_files(names), *names).splitlines()]


def unload(names: Iterable[str], *, force: bool = False) -> list[str]:
    """Takes algorithms out, all or none; the kernel's names. `force`: also if sockets use one,
    which then keep it until they end.
    """
    return [line.removeprefix("unloaded ") for line in _stdout_of("unload", *(["--force"] if force else []), *names).splitlines()]


def status() -> Status:
    """What the kernel has, and who uses it."""
    return Status.model_validate_json(_stdout_of("status", "--json"))


def available() -> list[str]:
    """The algorithms that can be loaded; needs no root."""
    return _stdout_of("list").split()


def check(names: Iterable[str] = (), *, seed: int = 1) -> tuple[bool, list[str]]:
    """Whether this kernel computes the same windows as the simulator, and a line for each
    algorithm, custom ones too (`customcc.use`).
    """
    names = list(names)
    done = programs.run(program(), "check", *custom_files(names), "--seed", str(seed), *names)
    if done.returncode not in (0, _DIFFERENT) or (done.returncode and not done.stdout):
        raise complaint(done.stderr)
    return done.returncode == 0, done.stdout.splitlines()
