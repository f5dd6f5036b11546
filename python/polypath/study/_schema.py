"""The JSON Schema of a study file, for editors that check while one writes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from polypath import _native

from ._aqm import SHORT
from ._flows import PATH_MANAGERS, kinds_alone
from ._placeholder import PLACEHOLDER_PATTERN
from ._study import Study
from ._tunnels import REORDER_RULES

SCHEMA_FILE = Path(__file__).with_name("study.schema.json")
"""The schema as it is installed; a test compares it with `json_schema`."""


def json_schema() -> str:
    """The schema as text, the same for every build."""
    schema = Study.model_json_schema()
    for definition in [schema, *schema["$defs"].values()]:
        for name, field in definition.get("properties", {}).items():
            definition["properties"][name] = _with_placeholder(_short_forms(definition.get("title"), name, field))
        for described in [definition, *definition.get("properties", {}).values()]:
            if "description" in described:
                # Where docstrings wrap, editors do not.
                described["description"] = re.sub(r"(?<!\n)\n(?!\n)", " ", described["description"])
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return json.dumps(schema, indent=2, sort_keys=False, ensure_ascii=False) + "\n"


def _with_placeholder(field: dict[str, Any]) -> dict[str, Any]:
    """A placeholder may stand for any value; texts and quantities allow it by themselves."""
    plain_text = field.get("type") == "string" and not {"enum", "const", "pattern"} & field.keys()
    if plain_text or PLACEHOLDER_PATTERN in field.get("pattern", "") or "const" in field:
        return field
    kept = _pop(field, "title", "description", "default")
    options = field.pop("anyOf") if set(field) == {"anyOf"} else [field]
    return {**kept, "anyOf": [*options, {"type": "string", "pattern": PLACEHOLDER_PATTERN}]}


def _pop(field: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: field.pop(key) for key in keys if key in field}


def _suggesting(field: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """A text of which editors offer these; another one is allowed too, such as an algorithm of
    one's own.
    """
    kept = _pop(field, "title", "description", "default")
    return {**kept, "anyOf": [{"enum": sorted(names)}, *field.pop("anyOf", [field])]}


def _short_forms(owner: str | None, name: str, field: dict[str, Any]) -> dict[str, Any]:
    """What validators accept besides the full form, which pydantic cannot know."""
    match owner, name:
        case "Link", "ends":
            end = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/End"}]}
            kept = _pop(field, "title", "description")
            return {**kept, "type": "array", "items": end, "minItems": 2, "maxItems": 2}
        case "Topology", "nodes":
            return {**field, "additionalProperties": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}
        case "Tunnel", "reorder":
            kept = _pop(field, "title", "description", "default")
            names = [rule.model_fields["kind"].default for rule in REORDER_RULES]
            return {**kept, "anyOf": [{"enum": [*names, False]}, field]}
        case "Tunnel", "fec":
            kept = _pop(field, "title", "description", "default")
            return {**kept, "anyOf": [{"enum": ["off", False]}, {"type": "string", "pattern": "^[0-9]+\\+[0-9]+$"}, *field["anyOf"]]}
        case (("Flow" | "Baselines"), "cc"):
            return _suggesting(field, [name for name, *_ in _native.algorithms()])
        case "Flow", "scheduler":
            return _suggesting(field, [name for name, _ in _native.schedulers()])
        case "Node", "mtu_search":
            return _suggesting(field, [name for name, _ in _native.mtu_searches()])
        case "Flow", "path_manager":
            kept = _pop(field, "title", "description", "default")
            return {**kept, "anyOf": [{"enum": kinds_alone(PATH_MANAGERS)}, field]}
        case "Route", "via":
            kept = _pop(field, "title", "description", "default")
            return {**kept, "anyOf": [{"type": "string"}, field]}
        case (("RateLimit" | "Shape" | "Table"), "aqm"):
            kept = _pop(field, "title", "description", "default")
            return {**kept, "anyOf": [{"enum": [*SHORT, "none"]}, *field.get("anyOf", [field])]}
        case "Measure", "capture":
            return {**field, "items": {"anyOf": [{"type": "string"}, field["items"]]}}
        case (("Study" | "Experiment"), "seeds"):
            kept = _pop(field, "title", "description", "default")
            options = field.get("anyOf", [field])
            return {**kept, "anyOf": [{"type": "integer", "minimum": 1}, *options]}
        case _:
            return field
