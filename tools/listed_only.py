"""Runs a command that finds no program but those of python/polypath/programs/list.tsv: python tools/listed_only.py COMMAND...

So a program that the list lacks is missing on every machine, not only on one that nothing else is installed on. PATH becomes a folder of
links. Programs that the environment names itself (RUSTC_WRAPPER, CC and the like, or any in POLYPATH_ALSO) are a person's own choice.
"""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
FOLDER = HERE / ".venv" / "listed"
_CHOICES = ("RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CC", "CXX", "AR", "CLANG", "POLYPATH_ALSO")
_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def path(folder: Path = FOLDER) -> str:
    """The PATH; its links lead to what the PATH of now finds."""
    given = os.environ.get("PATH", os.defpath)
    if given == str(folder):
        return given
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {name: shutil.which(name, path=os.pathsep.join((given, *_SBIN))) for name in (*_listed(), *_chosen())}
    # A stand-in that looks for an interpreter on PATH would not find its own programs.
    wanted["python3"] = str(Path(sys.executable).resolve())
    for link in folder.iterdir():
        if wanted.get(link.name) is None:
            link.unlink(missing_ok=True)
    for name, target in wanted.items():
        link = folder / name
        if target is not None and not (link.is_symlink() and str(link.readlink()) == target):
            # Whole at any moment: another run of the tests may be using it.
            fresh = folder / f".{name}.{os.getpid()}"
            fresh.symlink_to(target)
            fresh.replace(link)
    return str(folder)


def _listed() -> list[str]:
    # By its file: the package may not be built yet.
    place = HERE / "python" / "polypath" / "programs" / "_list.py"
    spec = importlib.util.spec_from_file_location("polypath_programs_list", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [thing.name for thing in module.THINGS if thing.kind == "program" and thing.uses != {"fresh"}]


def _chosen() -> list[str]:
    return [word for name in _CHOICES for word in os.environ.get(name, "").split() if not word.startswith(("-", "/"))]


if __name__ == "__main__":
    os.environ["PATH"] = path()
    os.execvp(sys.argv[1], sys.argv[1:])
