"""What all parts of a study share: frozen, keyword-only, nothing unknown, and a placeholder may
stand for any value.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from ._errors import MistakesError, SetupError, StudyError
from ._mistakes import problems
from ._placeholder import PLACEHOLDER_PATTERN, UNDECIDED, Placeholder, is_placeholder, is_unclosed


class FrozenDict(dict[Any, Any]):
    """A dictionary that stays as it was made; its repr is a dictionary's, and it may be a key where
    its values may.
    """

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a study is frozen, and so is what is in it: make another one with `replace`")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[Any, Any]]]:
        return FrozenDict, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


@contextmanager
def _sentences_for(model: type[Model], tree: Any) -> Iterator[None]:
    """Says what pydantic finds wrong with a tree as Polypath says it. Raises `MistakesError`."""
    try:
        yield
    except ValidationError as error:
        raise MistakesError([SetupError(where, sentence) for where, sentence in problems(error, tree, model)]) from None


class Model(BaseModel):
    """A frozen part of a study; its repr rebuilds it."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    # Checkers would take it for what a model is built from.
    if not TYPE_CHECKING:
        # `wraps` carries pydantic's mark of its own `__init__` over: models inside of models are
        # made without calling this one, and their mistakes are told by the outermost, which knows
        # the way to them.
        @wraps(BaseModel.__init__)
        def __init__(self, /, **named: Any) -> None:
            """Who builds a model in Python hears of a mistake as who writes a file does: a sentence
            for each, with its field.
            """
            with _sentences_for(type(self), named):
                super().__init__(**named)

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        # What has its default value goes without saying.
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if field.is_required() or value != field.get_default(call_default_factory=True):
                yield name, value

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values in some fields, checked as a new one is. Raises `StudyError` for
        a wrong one.
        """
        if not update:
            return super().model_copy(deep=deep)
        # Pydantic's own takes whatever it is given.
        return type(self)(**{**self._said(), **update})

    @classmethod
    def model_validate(cls, obj: Any, **how: Any) -> Self:
        """The model that a tree of plain values describes. Raises `StudyError`, a sentence for each
        mistake, with its field.
        """
        with _sentences_for(cls, obj):
            return super().model_validate(obj, **how)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **how: Any) -> Self:
        """As `model_validate`, of JSON text."""
        try:
            tree = json.loads(json_data)
        except ValueError as error:
            raise StudyError(f"this is no JSON: {error}") from None
        with _sentences_for(cls, tree):
            return super().model_validate_json(json_data, **how)

    def with_checked(self, **changes: Any) -> Self:
        """A copy with values that were checked already, quicker than `model_copy`."""
        return BaseModel.model_copy(self, update=changes)

    def _said(self) -> dict[str, Any]:
        """The fields that were set, and what a part without a kind has beside them."""
        known = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return {**(self.model_extra or {}), **known}

    @field_validator("*", mode="wrap")
    @classmethod
    def _leave_placeholders(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, str) and is_unclosed(value):
            raise ValueError(f'"{value}" begins a placeholder that does not end: write it as "${{name}}", with both braces')
        if is_placeholder(value):
            return Placeholder(value)
        return _frozen(check(value))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        json_schema = handler(schema)
        inner = handler.resolve_ref_schema(json_schema)
        for name, sentence in _sentences(cls).items():
            if name in inner.get("properties", {}):
                inner["properties"][name]["description"] = sentence
        return json_schema


def _sentences(model: type[Model]) -> dict[str, str]:
    """What the line below each field says of it.

    Pydantic would read the source of all models whenever they are loaded, a quarter of the time
    that a command needs to begin.
    """
    sentences: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if not issubclass(each, Model) or each is Model:
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in zip(body.body, body.body[1:], strict=False):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    sentences[name] = inspect.cleandoc(text)
    return sentences


def plain(value: Any) -> Any:
    """Models as the plain values they were written as; placeholders stay."""
    if isinstance(value, Model):
        # Only what was set: a validator may ask whether a field was given.
        tree = {name: plain(getattr(value, name)) for name in type(value).model_fields if name in value.model_fields_set}
        if "kind" in type(value).model_fields:
            tree["kind"] = getattr(value, "kind")  # noqa: B009  # Only these models have it.
        tree |= value.model_extra or {}
        return tree
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _frozen(value: Any) -> Any:
    """A value that was checked, with all its mappings frozen; models are already."""
    if isinstance(value, dict):
        return FrozenDict({key: _frozen(each) for key, each in value.items()})
    return tuple(map(_frozen, value)) if type(value) is tuple else value


class Undecided(Model):
    """One whose kind a parameter decides: its other fields are checked in each cell, where the kind
    is known.
    """

    model_config = ConfigDict(defer_build=True, extra="allow")

    kind: Annotated[str, Field(pattern=f"^({PLACEHOLDER_PATTERN})$")]


def kind_of(value: Any) -> Any:
    """The discriminator of unions over `kind`; pydantic's own cannot stand beside the check for
    placeholders.
    """
    kind = value.get("kind") if isinstance(value, Mapping) else getattr(value, "kind", None)
    return UNDECIDED if is_placeholder(kind) else kind


MOST_LETTERS = 64
"""Of a name: it stands in names of files and folders, several of them in one."""


def _checked_name(value: str) -> str:
    if len(value) > MOST_LETTERS:
        raise ValueError(f'"{value[:20]}..." has {len(value)} letters; a name has at most {MOST_LETTERS}')
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", value):
        raise ValueError(f'"{value}" is no name; use letters from a to z, digits, ".", "_" and "-", beginning with a letter or digit')
    return value


Name = Annotated[str, AfterValidator(_checked_name)]
"""A name of a study, node, link, flow or experiment: it stands in file names and tables."""
