"""Placeholders: "${cc}" stands for the value that the matrix gives to the parameter `cc`.

A study may hold one wherever a value stands; a resolved set-up (see `_resolve`) never does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from ._errors import Where

PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# For JSON Schema: any text with a placeholder in it.
PLACEHOLDER_PATTERN = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"

Scalar = str | int | float | bool

UNDECIDED = "undecided"
"""The kind of a part whose kind a parameter decides."""


class Placeholder(str):
    """A text that holds at least one placeholder and so cannot be checked yet."""

    __slots__ = ()


def is_placeholder(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and PLACEHOLDER.search(value) is not None


def is_unclosed(value: str) -> bool:
    """Whether a placeholder begins that has no end."""
    return "${" in value.rpartition("}")[2]


def names_in(value: Any) -> Iterator[str]:
    """The parameters that a tree of plain values refers to, in order of appearance."""
    if isinstance(value, str):
        yield from PLACEHOLDER.findall(value)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from names_in(key)
            yield from names_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from names_in(item)


def first_use(tree: Any, parameter: str, where: Where = ()) -> Where:
    """The way to the first value of the tree that refers to a parameter."""
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else ()
    for key, item in items:
        if parameter in names_in(item):
            return first_use(item, parameter, (*where, key))
    return where


def substitute(value: Any, parameters: Mapping[str, Scalar]) -> Any:
    """The tree with parameters in place of placeholders.

    A text that is nothing but one placeholder takes the parameter's own type; inside a longer text
    it is written out. A parameter that is not there is left as it stands, so that the check that
    follows can name it.
    """
    if isinstance(value, str):
        whole = PLACEHOLDER.fullmatch(value)
        if whole is not None:
            return parameters.get(whole[1], value)
        return PLACEHOLDER.sub(lambda match: str(parameters.get(match[1], match[0])), value)
    if isinstance(value, Mapping):
        return {substitute(key, parameters): substitute(item, parameters) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [substitute(item, parameters) for item in value]
    return value
