"""Reads YAML as people mean it, and keeps the line of every field.

Of YAML's implicit types only those of version 1.2's core schema are known: `on`, `off`, `yes` and `no` are words, 12:30 is text.
A key that stands twice is an error, since the first one would be lost without a word.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from ._errors import StudyError, Where


class Document:
    """Plain values and the line each of them begins on, counted from 1."""

    def __init__(self, value: Any, lines: dict[Where, int]) -> None:
        self.value = value
        self._lines = lines

    def line(self, where: Where) -> int:
        """The line of a field, or of the nearest one around it that is written down."""
        while where not in self._lines and where:
            where = where[:-1]
        return self._lines.get(where, 1)


def parse(text: str, file: str) -> Document:
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        if "'\\t'" in (error.problem or ""):
            raise StudyError(f"{file}:{line}: a tab stands here: YAML is indented with spaces") from None
        hint = '; inside braces a placeholder stands in quotes, like "${cc}"' if _has_bare_placeholder(text, line) else ""
        raise StudyError(f"{file}:{line}: this is no YAML: {error.problem or error.context}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise StudyError(f"{file}:{line}: this is no text: the character number {error.character:#x} may not stand in YAML") from None
    lines: dict[Where, int] = {}
    loader = _Loader("")
    value = None if node is None else _build(loader, node, (), lines, file)
    return Document(value, lines)


def _has_bare_placeholder(text: str, line: int) -> bool:
    """Whether `${` stands without quotes in a line with braces around it."""
    return re.search(r"""\{[^'"]*[^'"$]\$\{""", text.splitlines()[line - 1]) is not None


def _build(loader: _Loader, node: yaml.Node, where: Where, lines: dict[Where, int], file: str) -> Any:
    lines.setdefault(where, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node)
            if isinstance(key, list | dict):
                raise StudyError(f"{file}:{key_node.start_mark.line + 1}: a field's name must be a word")
            # Names are words even where they look like numbers: a flow may be called 1.
            key = key_node.value if not isinstance(key, str) else key
            if key in mapping:
                raise StudyError(f'{file}:{key_node.start_mark.line + 1}: the field "{key}" stands here twice')
            lines[(*where, key)] = key_node.start_mark.line + 1
            mapping[key] = _build(loader, value_node, (*where, key), lines, file)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, item, (*where, index), lines, file) for index, item in enumerate(node.value)]
    if node.tag.startswith("!"):
        raise StudyError(f"{file}:{node.start_mark.line + 1}: tags such as {node.tag} are not used in studies")
    return loader.construct_object(node)


class _Loader(yaml.SafeLoader):
    """SafeLoader with the implicit types of YAML 1.2's core schema."""


_Loader.yaml_implicit_resolvers = {}

for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
):
    # "\0" stands for the empty text, which PyYAML looks up under "".
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), [c.replace("\0", "") for c in _first])


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(node.value)


def _construct_float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    return float(node.value)


# PyYAML's own would read 010 as eight and 1e3 as text.
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
