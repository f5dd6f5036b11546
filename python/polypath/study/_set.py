"""One value of a study changed, however deep it stands: `Study.set`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._errors import MistakesError, SetupError, Where, unknown
from ._fields import no_field
from ._model import Model

_WHERE: Where = ()


def changed(value: Any, place: str, new: Any, where: Where = _WHERE) -> Any:
    """`value`, which stands at `where` in the study, with `new` at a place in it. Raises
    `StudyError`.
    """
    match value:
        case Model():
            return _of_model(value, place, new, where)
        case Mapping():
            return _of_mapping(value, place, new, where)
        case tuple():
            number, _, rest = place.partition(".")
            if not number.isdigit() or int(number) >= len(value):
                raise SetupError(where, f"there is no number {number} here: {len(value)} values stand here, the first is 0")
            inner = _inner(value[int(number)], rest, new, (*where, int(number)))
            return (*value[: int(number)], inner, *value[int(number) + 1 :])
        case None:
            for name in reversed(place.split(".")):
                new = {name: new}
            return new
    raise SetupError(where, f"{value} stands here, and nothing is in it, so no `{place}`")


def _of_model(value: Model, place: str, new: Any, where: Where) -> Any:
    name, _, rest = place.partition(".")
    there = (*type(value).model_fields, *(value.model_extra or ()))
    if name not in there:
        raise SetupError((*where, name), no_field(name, there))
    inner = _inner(getattr(value, name), rest, new, (*where, name))
    try:
        return value.model_copy(update={name: inner})
    except MistakesError as error:
        # A part knows nothing of what it stands in.
        raise MistakesError([SetupError((*where, *each.where), each.sentence) for each in error.wrong]) from None


def _of_mapping(value: Mapping[Any, Any], place: str, new: Any, where: Where) -> Any:
    # Names may have dots, as those of settings do.
    known = [key for key in map(str, value) if place == key or place.startswith(f"{key}.")]
    name = max(known, key=len, default=place)
    if not known and "." in place and any(isinstance(each, Model) for each in value.values()):
        wanted = place.partition(".")[0]
        raise SetupError((*where, wanted), unknown("entry", wanted, list(map(str, value))))
    return {**value, name: _inner(value.get(name), place[len(name) + 1 :], new, (*where, name))}


def _inner(value: Any, rest: str, new: Any, where: Where) -> Any:
    return changed(value, rest, new, where) if rest else new
