"""Reads YAML as people mean it, and keeps the line of every field.

Of YAML's implicit types only those of version 1.2's core schema are known: `on`, `off`, `yes` and
`no` are words, 12:30 is text. A key that stands twice is an error, since the first one would be
lost without a word.
"""

from __future__ import annotations

import math
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


# Some seconds of reading. No study comes near.
MOST_VALUES = 150_000
MOST_DEEP = 50
# Of a whole number; 2**64 has 20.
_MOST_DIGITS = 40


def parse(text: str, file: str) -> Document:
    """Reads the text. Raises `StudyError`, one sentence with file and line."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines: dict[Where, int] = {}
        value = None if node is None else _Builder(lines).build(node, ())
    except _MistakeError as error:
        raise StudyError(f"{file}:{error.line}: {error}") from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        if "'\\t'" in (error.problem or ""):
            raise StudyError(f"{file}:{line}: a tab stands here: YAML is indented with spaces") from None
        hint = '; inside braces a placeholder stands in quotes, like "${cc}"' if _has_bare_placeholder(text, line) else ""
        raise StudyError(f"{file}:{line}: this is no YAML: {error.problem or error.context}{hint}") from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise StudyError(f"{file}:{line}: this is no text: the character number {error.character:#x} may not stand in YAML") from None
    except (ValueError, OverflowError):
        # What YAML's library does not expect, such as "\UFFFFFFFF".
        raise StudyError(f"{file}:{loader.line + 1 if loader else 1}: this is no YAML: an escape here names no character") from None
    return Document(value, lines)


def _has_bare_placeholder(text: str, line: int) -> bool:
    """Whether `${` stands without quotes in a line with braces around it."""
    # A mistake at the end of the file may be told of a line after the last.
    return any(re.search(r"""\{[^'"]*[^'"$]\$\{""", each[:500]) for each in text.splitlines()[line - 1 : line])


class _MistakeError(Exception):
    def __init__(self, at: yaml.Node | yaml.Event | int, sentence: str) -> None:
        super().__init__(sentence)
        mark = None if isinstance(at, int) else at.start_mark
        self.line: int = at if isinstance(at, int) else mark.line + 1 if mark else 1


class _Builder:
    """Makes plain values of nodes. An alias counts for all that it names, each time."""

    def __init__(self, lines: dict[Where, int]) -> None:
        self._lines = lines
        self._values = 0

    def build(self, node: yaml.Node, where: Where) -> Any:
        self._lines.setdefault(where, node.start_mark.line + 1)
        self._values += 1
        if self._values > MOST_VALUES:
            raise _MistakeError(self._lines[where[:1]], _TOO_MANY)
        if len(where) > MOST_DEEP:
            raise _MistakeError(self._lines[where[:1]], _TOO_DEEP)
        if isinstance(node, yaml.MappingNode):
            mapping: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    raise _MistakeError(key_node, "a field's name must be a word")
                # Names are words even where they look like numbers: a flow may be called 1.
                key = _text(key_node)
                if key in mapping:
                    raise _MistakeError(key_node, f'the field "{key}" stands here twice')
                self._lines[(*where, key)] = key_node.start_mark.line + 1
                mapping[key] = self.build(value_node, (*where, key))
            return mapping
        if isinstance(node, yaml.SequenceNode):
            return [self.build(item, (*where, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode), "YAML has no further kind"
        return _scalar(node)


_TOO_MANY = f"the file has more than {MOST_VALUES:,} values, with those that aliases repeat; write fewer"
_TOO_DEEP = f"values stand more than {MOST_DEEP} levels deep here, and no study needs so many"


def _text(node: yaml.ScalarNode) -> str:
    value: str = node.value
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _MistakeError(node, "an escape here names half a character; write the character itself")
    return value


def _scalar(node: yaml.ScalarNode) -> Any:
    value = _text(node)
    match node.tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool":
            return value.lower() == "true"
        case "int":
            if len(value) > _MOST_DIGITS:
                raise _MistakeError(node, f"a number of {len(value)} digits is none that a study needs")
            return int(value)
        case "float":
            number = float(value)
            if not math.isfinite(number):
                raise _MistakeError(node, f"the number {value[:_MOST_DIGITS]} is larger than this program can count")
            return number
    return value


class _Loader(yaml.SafeLoader):
    """SafeLoader with the implicit types of YAML 1.2's core schema, no tags, and no more levels
    than a study needs.
    """

    _depth = 0
    _composed = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]  # Its stubs have no types.
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _MistakeError(event, f"tags such as {tag.replace('tag:yaml.org,2002:', '!!')[:_MOST_DIGITS]} are not used in studies")
        self._composed += 1
        if self._composed > MOST_VALUES:
            raise _MistakeError(event, _TOO_MANY)
        if self._depth > MOST_DEEP:
            raise _MistakeError(event, _TOO_DEEP)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        # A list or mapping has its end once all of it is read.
        if isinstance(event, yaml.AliasEvent) and node is not None and node.end_mark is None:
            raise _MistakeError(event, f"the alias *{event.anchor} stands inside of what it names, which has no end")
        return node


_Loader.yaml_implicit_resolvers = {}

for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
):
    # "\0" stands for the empty text, which PyYAML looks up under "".
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), [c.replace("\0", "") for c in _first])
