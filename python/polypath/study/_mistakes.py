"""What pydantic finds wrong with a tree, as Polypath says it: a sentence for each mistake, with its
field.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from ._errors import SetupError, Where, written
from ._fields import models_at, no_such_field
from ._kernel import DEFAULT_KERNEL, FORMERLY
from ._placeholder import UNDECIDED, Scalar, is_placeholder
from ._quantity import several_values

# Of mistakes in one study; looking at each takes as long as there are others.
_MOST_LOOKED_AT = 200


def problems(error: ValidationError, tree: Any, root: type[BaseModel]) -> list[tuple[Where, str]]:
    """The mistakes that pydantic found in a value of the type `root`, as fields of the tree with a
    sentence each.

    Of one place the first is told: the others say why its other forms do not fit either.
    """
    mistakes: list[tuple[Where, str]] = []
    every = error.errors(include_url=False)[:_MOST_LOOKED_AT]
    for number in range(len(every)):
        for where, sentence in _mistakes_in(every[number:], tree, root):
            # A field that is missing has no place of its own in the tree.
            apart = not any(where[: len(known)] == known or known[: len(where)] == where for known, _ in mistakes)
            if apart or (every[number]["type"] == "missing" and (where, sentence) not in mistakes and _another(every, number)):
                mistakes.append((where, sentence))
    return mistakes


def _another(every: Sequence[Any], number: int) -> bool:
    """Whether this field is missing of a model of which other fields are missing too, and nothing
    else is wrong there.
    """
    inside = every[number]["loc"][:-1]
    return all(other["type"] == "missing" for other in every if other["loc"][: len(inside)] == inside)


def _mistakes_in(every: Sequence[Any], tree: Any, root: type[BaseModel]) -> list[tuple[Where, str]]:
    """The first of these mistakes; several where checks of Polypath found them."""
    problem, *others = every
    if problem["type"] == "missing":
        # A field that was misspelled is missing, too; what stands there says more.
        spare = [other for other in others if other["type"] == "extra_forbidden" and other["loc"][:-1] == problem["loc"][:-1]]
        if spare and (near := difflib.get_close_matches(str(problem["loc"][-1]), [str(other["loc"][-1]) for other in spare], n=1)):
            meant = problem["loc"][-1]
            problem = next(other for other in spare if str(other["loc"][-1]) == near[0])
            return [(_place(problem["loc"], tree), f"there is no field `{near[0]}` here; did you mean `{meant}`?")]
    inner = problem.get("ctx", {}).get("error")
    if isinstance(inner, SetupError):
        return [(each.where, each.sentence) for each in (inner, *inner.others)]
    where = _place(problem["loc"], tree)
    last = problem["loc"][-1] if problem["loc"] else ""
    match problem["type"]:
        case "missing" if isinstance(last, int):
            sentence = f"one value is missing: {last + 1} are expected"
        case "missing" if len(problem["loc"]) == 1 and isinstance(tree, Mapping) and tree.get("experiments") and _replaceable(root, last):
            sentence = f"the field `{last}` is missing: experiments may replace it, but it has to stand here once"
        case "missing":
            sentence = f"the field `{last}` is missing"
        case "too_long":
            sentence = f"too many values: at most {problem['ctx']['max_length']} expected"
        case "too_short":
            sentence = f"too few values: at least {problem['ctx']['min_length']} expected"
        case "string_type" if isinstance(problem["input"], list | tuple) and any(other["type"].startswith("int_") for other in others):
            sentence = f"{_stands(problem)} one value or a list of whole numbers is expected; sizes are bytes without a unit"
        case "string_type" | "int_type" | "float_type" | "bool_type" | "literal_error" if _several(problem["input"]):
            sentence = f"{_stands(problem)} {'a text' if problem['type'] == 'string_type' else 'one value'} is expected; "
            sentence += several_values(str(last), problem["input"])
        case "string_type":
            sentence = f"{_stands(problem)} a text is expected"
            sentence += "; put it in quotes if it is one" if isinstance(problem["input"], int | float) else ""
        case "extra_forbidden":
            sentence = _formerly(last, problem["input"]) or no_such_field(root, problem["loc"])
        case "value_error":
            sentence = str(inner)
        case "literal_error":
            allowed = problem["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
            sentence = f"{written(problem['input'])} is not allowed here; allowed are {allowed}"
        case "union_tag_invalid":
            ctx = problem["ctx"]
            kinds = [kind for kind in ctx["expected_tags"].replace("'", "").split(", ") if kind != UNDECIDED]
            sentence = f'there is no kind "{ctx["tag"]}"; there are {", ".join(kinds)}'
        case "union_tag_not_found" if isinstance(problem["input"], str):
            sentence = f'"{problem["input"]}" is a kind, which has fields: write it as `{{kind: {problem["input"]}}}`, with them'
        case "union_tag_not_found":
            sentence = "the field `kind` is missing"
        case "model_type" | "model_attributes_type" | "mapping_type" | "dict_type":
            sentence = f"{_stands(problem)} fields with names are expected"
        case "greater_than_equal":
            sentence = f"{problem['input']} is too small; the least is {problem['ctx']['ge']}"
        case "less_than_equal":
            sentence = f"{problem['input']} is too large; the most is {problem['ctx']['le']}"
        case "tuple_type" | "list_type":
            sentence = f"{_stands(problem)} a list is expected"
            sentence += f"; of one value it is `{written([problem['input']])}`" if isinstance(problem["input"], Scalar) else ""
        case _:
            message = problem["msg"]
            sentence = f"{written(problem['input'])}: {message[:1].lower()}{message[1:]}"
    return [(where, sentence)]


def _stands(problem: Any) -> str:
    return f"{written(problem['input'])} stands where"


def _formerly(field: str | int, value: Any) -> str | None:
    """What to write for a field that there was once."""
    if field != "profile":
        return None
    if not is_placeholder(value) and (not isinstance(value, str) or value not in FORMERLY):
        return "there is no field `profile` any more: `kernel` of the study, an experiment or a host says which Linux a host is"
    kernel = FORMERLY.get(value)
    if kernel == DEFAULT_KERNEL:
        return f'`profile: {value}` is now `kernel: "{kernel}"` of the study, which is the default: take the line out'
    if kernel:
        return f"`profile: {value}` is now `kernel: {kernel}` of the study, an experiment or a host"
    names = ", ".join(f'"{name}" for {old}' for old, name in FORMERLY.items())
    return f'`profile: {value}` is now `kernel: "{value}"` of the study, an experiment or a host, with {names}'


def _replaceable(root: type[BaseModel], field: str | int) -> bool:
    """Whether an experiment of the study may have this field in place of the study's."""
    return "experiments" in root.model_fields and any(field in model.model_fields for model in models_at(root, ("experiments", "")))


def _several(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(each, Scalar) for each in value)


def _place(way: Iterable[str | int], tree: Any) -> Where:
    """Pydantic's way holds names of union members that are no fields: what the tree knows of it."""
    where: list[str | int] = []
    at: Any = tree
    for part in way:
        if isinstance(at, str):
            continue
        try:
            at = at[part]
        except (KeyError, IndexError, TypeError):
            continue
        where.append(part)
    return tuple(where)
