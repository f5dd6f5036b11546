"""What the models of a study take, as type checkers see it: a time or "5s", a model or its fields,
a placeholder for anything.

    python tools/inputs.py          # writes the `__init__` that only checkers read into each model of python/polypath/study
    python tools/inputs.py --check  # fails if one is not what this program would write

A field's annotation says what a study has. What may be given is derived from it, and from `MORE`
where validators take other forms too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from polypath.study._model import Model, Undecided

FOLDER = Path(inspect.getfile(Model)).parent
# Models that nobody builds: `Setup` is made of cells alone, and `Study` has the fields of
# `Question`.
LEFT_OUT = ("Model", "Undecided", "Setup", "Question")
MORE = {"seeds": ["int"], "reorder": ["bool"], "fec": ["bool"]}
# A host with nothing special may be nothing at all.
INSTEAD = {"nodes": ["Mapping[str, Node | Mapping[str, Any] | str | None]", "str"]}
# Types that are called by their names, and what else may be given for them.
NAMED = {
    "Aqm": ["Aqm", "Mapping[str, Any]", "str"],
    "Element": ["Element", "Mapping[str, Any]", "str"],
    "LinkRate": ["LinkRate", "str"],
    "Scalar": ["Scalar", "str"],
    "Where": ["Mapping[str, Any]", "str"],
}
MARK = "    if TYPE_CHECKING:  # tools/inputs.py writes it.\n"
_BLOCK = re.compile(rf"\n{re.escape(MARK)}\n        def __init__\(.*?\) -> None: \.\.\.\n", re.DOTALL)
_WIDE = 140
# Forms that stand behind the classes in a union.
_LAST = ("Mapping[str, Any]", "str", "None")


def forms(value: Any, module: ModuleType) -> list[str]:
    """The parts of the union that may be given for a field of this type. A placeholder, which is a
    text, may stand for anything.
    """
    origin, parts = get_origin(value), get_args(value)
    for name, given in NAMED.items():
        if getattr(module, name, None) == value:
            return given
    if value is None or value is type(None):
        return ["None"]
    if value is Any:
        return ["Any"]
    if origin is Annotated:
        return forms(parts[0], module)
    if origin is Literal or value is str:
        return ["str"]
    if origin in (Union, UnionType):
        return [form for part in parts for form in forms(part, module)]
    if origin is tuple:
        return [f"Sequence[{union(forms(parts[0], module))}]", "str"]
    if origin is not None and issubclass(origin, Mapping):
        return [f"Mapping[str, {union(forms(parts[1], module))}]", "str"]
    if issubclass(value, Undecided):
        return []
    return [value.__name__, "Mapping[str, Any]", "str"] if issubclass(value, Model) else [value.__name__, "str"]


def union(found: Iterable[str]) -> str:
    """The parts as a union, each once, the classes first."""
    once = list(dict.fromkeys(found))
    return " | ".join([*(form for form in once if form not in _LAST), *(form for form in _LAST if form in once)])


def init(model: type[Model], module: ModuleType) -> str:
    """The `__init__` of a model for checkers."""
    hints = get_type_hints(model, include_extras=True)
    fields = []
    for name, field in model.model_fields.items():
        given = union(INSTEAD.get(name) or [*forms(hints[name], module), *MORE.get(name, [])])
        fields.append(f"{name}: {given}" + ("" if field.is_required() else " = ..."))
    line = f"        def __init__(self, *, {', '.join(fields)}) -> None: ..."
    if len(line) <= _WIDE:
        return f"{MARK}\n{line}"
    lines = "".join(f"            {field},\n" for field in fields)
    return f"{MARK}\n        def __init__(\n            self,\n            *,\n{lines}        ) -> None: ..."


def written(file: Path) -> str:
    """The file with the `__init__` of each of its models."""
    text = _BLOCK.sub("", file.read_text(encoding="utf-8"))
    module = importlib.import_module(f"polypath.study.{file.stem}")
    lines = text.split("\n")
    for node in reversed(ast.parse(text).body):
        model = getattr(module, node.name) if isinstance(node, ast.ClassDef) else None
        if isinstance(model, type) and issubclass(model, Model) and model.model_fields and model.__name__ not in LEFT_OUT:
            assert node.end_lineno is not None
            lines[node.end_lineno : node.end_lineno] = ["", *init(model, module).split("\n")]
    return "\n".join(lines)


def main() -> None:
    """Writes, or checks."""
    check = "--check" in sys.argv
    stale = []
    for file in sorted(FOLDER.glob("_*.py")):
        new = written(file)
        if new != file.read_text(encoding="utf-8"):
            stale.append(file.name)
            if not check:
                file.write_text(new, encoding="utf-8")
    if stale and check:
        raise SystemExit(f"{', '.join(stale)}: not what `python tools/inputs.py` writes")
    print(f"inputs: {', '.join(stale) or 'nothing'} written")


if __name__ == "__main__":
    main()
