"""A study file: where it lies, the tree that it holds, and a study written as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ._errors import MistakesError, StudyError, Where, dotted, lines_of
from ._model import Model, plain
from ._traces import FOLDER
from ._yaml import Document, parse

FILE_NAME = "study.yaml"
# So long is none that a person wrote.
MOST_BYTES = 4_000_000

M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class StudyFile:
    """Where a study came from."""

    path: Path
    document: Document

    def error(self, where: Where, sentence: str) -> StudyError:
        field = f"{dotted(where)}: " if where else ""
        return StudyError(f"{self.path}:{self.document.line(where)}: {field}{sentence}")


def read(path: str | Path) -> StudyFile:
    """What a path to a file or to its folder means. Raises `StudyError` for a file that holds no
    fields.
    """
    file = find(Path(path))
    source = StudyFile(file, read_yaml(file))
    if not isinstance(source.document.value, dict):
        raise StudyError(
            f"{file}:1: a study is a list of fields such as `name:`, `topology:` and `flows:`, and this file holds none: "
            "write a mapping, `name: my-study` and so on"
        )
    return source


def read_yaml(file: Path) -> Document:
    """What a YAML file holds. Raises `StudyError`, one sentence, for one that is none or too large."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise StudyError(f"{file}:1: the file has {file.stat().st_size:,} bytes; a study has at most {MOST_BYTES:,}")
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise StudyError(f"{file}:{line}: this is no text in UTF-8: the byte {error.object[error.start]:#04x} stands here") from None
    except OSError as error:
        raise StudyError(f"{file} cannot be read: {error}") from None
    return parse(text, str(file))


def find(path: Path) -> Path:
    """The study file that a path means."""
    if path.is_dir():
        file = path / FILE_NAME
        if not file.is_file():
            raise StudyError(f"{path} is no study: there is no {FILE_NAME} in it; `polypath init NAME` writes one")
        return file
    if path.is_file():
        if path.suffix not in (".yaml", ".yml"):
            raise StudyError(f"{path} is no study file: its name does not end in .yaml")
        return path
    raise StudyError(f"{path} is no study: there is no such file or folder; `polypath list studies` shows those there are")


def validated(model: type[M], source: StudyFile, tree: dict[str, Any], context: Mapping[str, bool] | None = None) -> M:
    """The model that a tree from this file describes. Raises `StudyError`: a line for each mistake,
    with file, line and field.
    """
    token = FOLDER.set(source.path.parent)
    try:
        return model.model_validate(tree, context=context)
    except MistakesError as error:
        raise StudyError(lines_of(str(source.error(each.where, each.sentence)) for each in error.wrong)) from None
    finally:
        FOLDER.reset(token)


def dump(study: Model) -> str:
    """The study as YAML; reading it gives an equal study."""
    return yaml.safe_dump(written(study), sort_keys=False, allow_unicode=True, width=140)


def written(study: Model) -> Any:
    """The study as plain values, with what was set and as people write it."""
    return _written(plain(study))


def _written(value: Any) -> Any:
    """Plain values with quantities as people write them."""
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_written(item) for item in value]
    # Quantities and placeholders are kinds of number and text with a text of their own.
    return value if value is None or type(value) in (bool, int, float) else str(value)
