"""`polypath init`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from polypath.study import FILE_NAME, SCHEMA_FILE, Study, StudyError, unknown

from ._console import give, out
from ._work import AsJson

# Editors with a YAML language server complete and check the file by the schema that its first line
# names: the installed one, which is as new as the program.
_MODELINE = f"# yaml-language-server: $schema={SCHEMA_FILE.as_uri()}\n"


def init(
    name: Annotated[str, typer.Argument(help="Name of the study; its folder is made here.")],
    template: Annotated[
        str,
        typer.Option(help="What it begins with, a template or an exercise: `polypath list templates` shows what each teaches or asks."),
    ] = "two-paths",
    as_json: AsJson = False,
) -> None:
    """Write a commented study that runs at once, to change to your needs."""
    tasks = exercises()
    there = templates() | tasks
    if template not in there:
        raise StudyError(unknown("template", template, there))
    folder = Path(name)
    file = folder / FILE_NAME
    if file.exists():
        raise StudyError(f"{file} is there already; choose another name or remove it")
    if folder.exists() and not folder.is_dir():
        raise StudyError(f"{folder} is a file, so no study can be made there; choose another name")
    missing = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        file.write_text(_MODELINE + there[template].replace("NAME", folder.name), encoding="utf-8")
        Study.load(file)
    except (OSError, StudyError):
        # The name is at fault, or the disk is full: a folder with a broken study is not left.
        file.unlink(missing_ok=True)
        if missing:
            folder.rmdir()
        raise
    do = "read its first lines, change what they say, and see whether its claims hold:" if template in tasks else "run it with:"
    out.print(f"wrote {file}; {do} polypath run {name}", soft_wrap=True)
    if as_json:
        give({"study": folder.name, "file": str(file), "template": template})


def templates() -> dict[str, str]:
    return _texts("templates")


def exercises() -> dict[str, str]:
    """Studies that ask something, and whose claims judge the answer, by name."""
    return _texts("exercises")


def _texts(folder: str) -> dict[str, str]:
    files = (resources.files("polypath") / folder).iterdir()
    texts = {file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8") for file in files if file.name.endswith(".yaml")}
    return dict(sorted(texts.items()))
