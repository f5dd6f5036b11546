"""Which fields a place in a study may have, to tell of a misspelled one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, get_args, get_origin

from pydantic import BaseModel

# So many names are listed where none is near.
_LISTED = 16


def no_such_field(root: type[BaseModel], place: tuple[str | int, ...]) -> str:
    """One sentence about a field that is not there: where it stands, the nearest one that could
    stand at this place of pydantic's, or all of them.
    """
    name = str(place[-1])
    models = models_at(root, place[:-1])
    fields = {field for model in models for field in model.model_fields}
    if name not in fields and (inner := _having(models, name)):
        return f"the field `{name}` does not stand here but in {', '.join(inner)}"
    if name not in fields and name in root.model_fields:
        return f"the field `{name}` is the study's: it stands at the left margin"
    return no_field(name, fields)


def no_field(name: str, fields: Iterable[str]) -> str:
    """The same where the fields are known."""
    known = sorted(fields)
    if name in known:
        # Of another form that may stand here: the list of a link's elements.
        return f"the field `{name}` goes into an element of a list here: `[{{{name}: ...}}]`"
    if near := difflib.get_close_matches(name, known, n=1):
        return f"there is no field `{name}` here; did you mean `{near[0]}`?"
    if 0 < len(known) <= _LISTED:
        return f"there is no field `{name}` here; there are {', '.join(known)}"
    return f"there is no field `{name}` here"


def _having(models: Iterable[type[BaseModel]], name: str) -> list[str]:
    """The fields of these models in which one of this name stands."""
    fields = {field: info.annotation for model in models for field, info in model.model_fields.items()}
    return [
        f"`{field}.NAME`" if _is_mapping(annotation) else f"`{field}`"
        for field, annotation in fields.items()
        if any(name in inner.model_fields for inner in _inside(annotation))
    ]


def models_at(root: type[BaseModel], place: Iterable[str | int]) -> list[type[BaseModel]]:
    """The models that may stand at a place; a part that is no field of theirs is a name, an index
    or the kind in a union.
    """
    models = [root]
    is_name = False
    for part in place:
        annotations = [] if is_name else [model.model_fields[part].annotation for model in models if part in model.model_fields]
        is_name = False
        if annotations:
            models = list(dict.fromkeys(model for annotation in annotations for model in _inside(annotation)))
            is_name = any(_is_mapping(annotation) for annotation in annotations)
        elif kinds := [model for model in models if "kind" in model.model_fields and model.model_fields["kind"].default == part]:
            models = kinds
    return models


def _inside(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _inside(part)


def _is_mapping(annotation: Any) -> bool:
    origin = get_origin(annotation)
    return (isinstance(origin, type) and issubclass(origin, Mapping)) or any(_is_mapping(part) for part in get_args(annotation))
