"""Which study an argument means: a folder, a file, or the name of one below ./studies."""

from __future__ import annotations

import difflib
from pathlib import Path

from polypath.results import DEFAULT_OUT
from polypath.study import FILE_NAME, Study, StudyError

from ._console import say

FOLDER = Path("studies")
_MANIFEST = "manifest.json"


def load(argument: str) -> Study:
    return load_all([argument])[0]


def load_all(arguments: list[str]) -> list[Study]:
    """The studies that arguments mean, each of which can be decided; no two may share a name, since
    results are kept by name.
    """
    studies = read_all(arguments)
    check(studies)
    return studies


def check(studies: list[Study]) -> None:
    """Raises `StudyError` if a claim of one could never be decided."""
    for study in studies:
        if study.claims or study.published is not None or study.conclusion is not None:
            # Knows the columns of all tables, and with them the libraries of tables.
            from polypath.results import check_claims

            check_claims(study)


def read_all(arguments: list[str]) -> list[Study]:
    """The studies that arguments mean, their claims unchecked."""
    studies = [Study.load(path(argument)) for argument in arguments]
    seen: dict[str, str] = {}
    for study, argument in zip(studies, arguments, strict=True):
        if study.name in seen:
            raise StudyError(f'two studies are called "{study.name}": {seen[study.name]} and {argument}; rename one')
        seen[study.name] = argument
    return studies


def out_of(study: Study) -> Path:
    """Where its results go on."""
    return DEFAULT_OUT if study.folder is None else out_beside(study.folder, study.name)


def out_beside(folder: Path, name: str) -> Path:
    """Where the results of a study in this folder go on: beside it, as those of `polypath advise`,
    or where it lies among them.
    """
    beside = folder / DEFAULT_OUT
    if (beside / name / _MANIFEST).is_file():
        return beside
    return folder.parent if folder.name == name and (folder / _MANIFEST).is_file() else DEFAULT_OUT


def results_of(argument: str) -> Path:
    """The folder of results that an argument means: one itself, the name of one in ./results, or a
    study by whatever name; it need not be there.
    """
    named, by_name = Path(argument), DEFAULT_OUT / argument
    if (named / "runs.parquet").exists():
        return named
    if by_name.is_dir():
        return by_name
    try:
        folder = path(argument)
    except StudyError:
        return named
    if not folder.is_file() and not (folder / FILE_NAME).is_file():
        return named
    return own_results(read_all([argument])[0])


def own_results(study: Study) -> Path:
    """The folder of a study's results, which need not be there. Raises `StudyError` where it has those
    of another one of the same name.
    """
    from polypath.results import changed_files, check_owner

    folder = out_of(study) / study.name
    check_owner(folder, study)
    for name in changed_files(folder, study):
        say(f"{name} has changed since {folder} was run: these are the results of the old one; run the study again")
    return folder


def files() -> list[Path]:
    """The study files in the folders of ./studies, and in those of this folder."""
    return sorted(FOLDER.glob(f"*/{FILE_NAME}")) + sorted(Path().glob(f"*/{FILE_NAME}"))


def path(argument: str) -> Path:
    """The file or folder of a study that an argument means."""
    named = Path(argument)
    if named.exists() or "/" in argument:
        return named
    if (FOLDER / argument / FILE_NAME).is_file():
        return FOLDER / argument
    if (beside := Path(f"{argument}.yaml")).is_file():
        return beside
    if (DEFAULT_OUT / argument / FILE_NAME).is_file():
        # As it was run.
        return DEFAULT_OUT / argument
    names = [file.parent.name for file in files()]
    near = difflib.get_close_matches(argument, names, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else "; `polypath list studies` shows those there are"
    raise StudyError(f'"{argument}" is no study: there is no such file or folder, nor one of this name in {FOLDER}{hint}')
