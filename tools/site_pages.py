"""Pages of the site that no one writes by hand: the commands, a study's fields, the Python
interface.
"""

from __future__ import annotations

import html
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from polypath.study import json_schema

# The packages whose public names are documented, with what they are for.
PACKAGES = {
    "polypath": "Everything a study is made of, and the functions that load, plan and run one",
    "polypath.results": "Results in their folder, and what runs a study step by step",
    "polypath.analysis": "Tables to tables: bounds, fairness, claims, statistics",
    "polypath.plot": "Tables to figures",
    "polypath.report": "The report",
    "polypath.engines": "What runs a study",
    "polypath.study": "Files, cells and quantities",
    "polypath.advise": "The advisor",
    "polypath.benchmark": "The benchmark",
    "polypath.pcap": "Captures explained",
    "polypath.emu": "Emulated links in real time",
    "polypath.doctor": "Why MPTCP does not do what it should on a host",
    "polypath.customcc": "Custom congestion control",
    "polypath.linux": "Kernels of the engine linux",
}
# What few look up, on one page.
SMALL = tuple(package for package in PACKAGES if package not in ("polypath", "polypath.results"))
_APP = "from polypath.cli._app import build\n\napp = build()\n"
# What pydantic gives each model.
_UNSAID = "model_config, model_fields, model_computed_fields, model_post_init, model_copy"
# Stands for a value that a parameter gives.
_PLACEHOLDER = r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"


def commands(scratch: Path) -> str:
    """Every command with its options, as the program itself tells them."""
    app = scratch / "command_line.py"
    app.write_text(_APP, encoding="utf-8")
    command = [sys.executable, "-m", "typer", str(app), "utils", "docs", "--name", "polypath"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    told = html.unescape(told.replace('<span style="font-weight: bold">', "`").replace("</span>", "`"))
    first = "# Commands\n\nWhat `polypath COMMAND --help` shows, for every command. Generated from the program.\n"
    # The first heading is the program's name.
    return first + told.partition("\n")[2]


def study_fields() -> str:
    """Every field of a study file."""
    schema = json.loads(json_schema())
    kinds = {name: kind for name, kind in sorted(schema["$defs"].items()) if name != "Undecided"}
    kinds = {"Study": schema, **kinds}
    pages = [
        "# Fields of a study file\n\nGenerated from the schema that checks study files; [the study file](../guide/study-file.md) explains "
        "how they belong together. `${parameter}` may stand for any value. Begin with [Study](#study).\n"
    ]
    for name, kind in kinds.items():
        pages.append(f"## {name}\n\n{kind.get('description', '')}\n")
        if kind.get("properties"):
            rows = [_row(field, found, field in kind.get("required", ())) for field, found in kind["properties"].items()]
            pages.append("| field | takes | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(pages)


def _row(field: str, found: dict[str, Any], required: bool) -> str:
    default = found.get("default")
    # A table cell ends at a bar; of a value that is a table, its kind says enough.
    if isinstance(default, dict):
        default = default.get("kind", "")
    shown = "" if required or default in (None, "", [], {}) else f"`{json.dumps(default, ensure_ascii=False)}`".replace('"', "")
    options = " or ".join(dict.fromkeys(_options(found))).replace("|", "\\|")
    meaning = " ".join(found.get("description", "").split()).replace("|", "\\|")
    return f"| `{field}`{' (required)' if required else ''} | {options} | {shown} | {meaning} |"


def _options(found: dict[str, Any]) -> list[str]:
    """What may stand there, in words."""
    if "$ref" in found:
        name = found["$ref"].rsplit("/", 1)[1]
        return [] if name == "Undecided" else [f"[{name}](#{name.lower()})"]
    if "anyOf" in found or "oneOf" in found:
        return [each for option in found.get("anyOf", found.get("oneOf", [])) for each in _options(option)]
    if "const" in found:
        return [f"`{found['const']}`"]
    if "enum" in found:
        return [f"`{json.dumps(value)}`".replace('"', "") for value in found["enum"]]
    if found.get("pattern") == _PLACEHOLDER or found.get("type") == "null":
        return []
    match found.get("type"):
        case "string":
            examples = found.get("examples", [])
            return [" or ".join(f"`{example}`" for example in examples) if examples else "text"]
        case "array":
            return [f"list of {' or '.join(dict.fromkeys(_options(found.get('items', {})))) or 'values'}"]
        case "object":
            return [f"names with {' or '.join(dict.fromkeys(_options(found.get('additionalProperties', {})))) or 'values'}"]
        case "boolean":
            return ["`true` or `false`"]
        case "integer":
            return ["whole number"]
        case "number":
            return ["number"]
        case _:
            return []


def python_pages() -> dict[str, str]:
    """The pages of the Python interface by file name."""
    pages = {f"{package}.md": f"# {_package(package, about)}" for package, about in PACKAGES.items() if package not in SMALL}
    pages["more.md"] = "# More packages\n\n" + "\n".join(f"## {_package(package, PACKAGES[package])}" for package in SMALL)
    rows = [f"| [{package}]({page_of(package)}.md) | {about} |" for package, about in PACKAGES.items()]
    inside = "\n".join(pages)
    pages["index.md"] = (
        "# Python\n\nThe public names, from their docstrings; [studies in Python](../../guide/python.md) shows them at work. Tables are "
        "pandas frames, and [results](../results.md) has the unit and meaning of each column. Times are seconds, round-trip times "
        "milliseconds, rates Mbit/s, sizes bytes, unless a name says otherwise. What a person can mend raises `PolypathError` with one "
        "sentence.\n\n"
        f"| package | for |\n|---|---|\n{chr(10).join(rows)}\n\n```{{toctree}}\n:hidden:\n\n{inside}\n```\n"
    )
    return pages


def page_of(package: str) -> str:
    return "more" if package in SMALL else package


def _package(package: str, about: str) -> str:
    module = importlib.import_module(package)
    parts = [f"{package}\n\n{about}.\n"]
    constants = []
    # What one does, then what one does it with.
    for name in sorted(module.__all__, key=lambda name: not inspect.isroutine(getattr(module, name))):
        found = getattr(module, name)
        if package != "polypath" and getattr(importlib.import_module("polypath"), name, None) is found:
            continue  # It stands on the first page.
        if inspect.isclass(found):
            directive = "autoexception" if issubclass(found, BaseException) else "autoclass"
            parts.append(f"```{{eval-rst}}\n.. {directive}:: {package}.{name}\n   :members:\n   :exclude-members: {_UNSAID}\n```\n")
        elif inspect.isroutine(found):
            parts.append(f"```{{eval-rst}}\n.. autofunction:: {package}.{name}\n```\n")
        else:
            constants.append(f"`{name}`")
    if constants:
        parts.insert(1, f"Constants and names of types: {', '.join(constants)}.\n")
    return "\n".join(parts)
