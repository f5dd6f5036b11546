"""From a study file to a `Study`; each mistake comes back as one sentence with file, line and field, a line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ._cells import Setup, cells, plain
from ._errors import MistakesError, SetupError, StudyError, Where, dotted, lines_of
from ._study import NETWORK_ONLY, Study
from ._traces import FOLDER, inside
from ._yaml import Document, parse

FILE_NAME = "study.yaml"
# So long is none that a person wrote.
MOST_BYTES = 4_000_000


@dataclass(frozen=True)
class StudyFile:
    """Where a study came from."""

    path: Path
    document: Document

    def error(self, where: Where, sentence: str) -> StudyError:
        field = f"{dotted(where)}: " if where else ""
        return StudyError(f"{self.path}:{self.document.line(where)}: {field}{sentence}")


def load(path: str | Path) -> Study:
    """Reads a study file, or the study.yaml in a folder.

    Args:
        path: The file, whose name ends in .yaml, or the folder.

    Returns:
        The study, each cell of which can be run.

    Raises:
        StudyError: There is no such study, or it is wrong: a line for each mistake, with file, line and field.
    """
    source = _read(path)
    study = _study(source, source.document.value)
    study._file = source
    if study.published is not None:
        try:
            inside(source.path.parent, study.published.file)
        except ValueError as error:
            raise source.error(("published", "file"), str(error)) from None
    return study


def load_setup(path: str | Path) -> Setup:
    """The set-up of a study's first cell, for whoever asks for its network only: the file may hold a `topology:` and nothing else.

    Such a network goes on for as long as somebody wants it, so nothing in it is too late for a run.
    """
    source = _read(path)
    tree = source.document.value
    if "flows" not in tree:
        # A study has a flow; this one joins the two hosts, or leads over the first link where there are more. What is wrong with the
        # topology is told first.
        client, server = _ends(source)
        tree = {"name": "topology", "duration": "1s", **tree, "flows": {"none": {"client": client, "server": server}}}
    return cells(_study(source, tree, network_only=True))[0].setup


def _ends(source: StudyFile) -> list[str]:
    topology = source.document.value.get("topology")
    links = topology.get("links") if isinstance(topology, dict) else None
    if not isinstance(links, dict) or not links:
        raise source.error(("topology",), "there is nothing to build: the file needs a `topology:` with `nodes:` and `links:`")
    nodes = topology.get("nodes")
    known = nodes if isinstance(nodes, dict) else {}
    hosts = [name for name, node in known.items() if not (isinstance(node, dict) and node.get("router"))]
    if len(hosts) == 2:
        return [*map(str, hosts)]
    first = next(iter(links.values()))
    ends = first.get("ends") if isinstance(first, dict) else None
    names = [end.get("node") if isinstance(end, dict) else end for end in ends] if isinstance(ends, list) else []
    return [*map(str, names), "", ""][:2]


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


def _read(path: str | Path) -> StudyFile:
    file = find(Path(path))
    source = StudyFile(file, read_yaml(file))
    if not isinstance(source.document.value, dict):
        raise StudyError(
            f"{file}:1: a study is a list of fields such as `name:`, `topology:` and `flows:`, and this file holds none: "
            "write a mapping, `name: my-study` and so on"
        )
    return source


def _study(source: StudyFile, tree: dict[str, Any], *, network_only: bool = False) -> Study:
    token = FOLDER.set(source.path.parent)
    try:
        return Study.model_validate(tree, context={NETWORK_ONLY: network_only})
    except MistakesError as error:
        raise StudyError(lines_of(str(source.error(each.where, each.sentence)) for each in error.wrong)) from None
    finally:
        FOLDER.reset(token)


def dump(study: Study) -> str:
    """The study as YAML; reading it gives an equal study."""
    return yaml.safe_dump(written(study), sort_keys=False, allow_unicode=True, width=140)


def written(study: Study) -> Any:
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


def located(study: Study, error: SetupError) -> StudyError:
    """A mistake that was found after loading (by an engine), with file and line if the study has them."""
    source: StudyFile | None = study._file
    return error if source is None else source.error(error.where, error.sentence)
