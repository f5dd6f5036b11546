"""Builds the documentation as a site: python tools/site.py [FOLDER]; into build/site, unless a
folder is named.

It lays the pages out as they lie in the project, adds those that are generated, and has Sphinx make
them. A warning is a mistake: a link that leads nowhere, a page in no table of contents. The site
opens from the disk and asks no network: search, fonts and scripts are in it.

`docs/conf.py` and `docs/_static/site.css` say how the site looks. A recipe is a page of
`docs/recipes` and a row of its README.
`tests/python/test_recipes.py` does what its blocks say, as root `tests/kernel/test_recipes.py`; its
claims are committed before their first result.
"""

from __future__ import annotations

import html
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from polypath.study import json_schema

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FIRST = ("README.md", "CHANGELOG.md")
# What is for those who change the project is read in the project: of a link to it the words stay.
_FOR_THE_PROJECT = (
    "CONTRIBUTING.md",
    "STYLE.md",
    "SECURITY.md",
    "studies/advice",
    "studies/one-tcp-many-paths",
    "docs/decisions",
    "specs",
    "tests",
)
# A link of Markdown to a file, and what it is called there.
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)
# The guide's pages by what somebody wants; one that is in none of these is a mistake.
_GUIDE = {
    "Start": ("first-study", "playground", "study-file"),
    "My links and my machine": ("advise", "bond-two-uplinks", "live-subflows", "captures", "emulator"),
    "Research": ("compare", "custom-algorithm", "python", "many-machines"),
    "Real kernels": ("linux-engine", "linux-kernels", "for-kernel-developers", "congestion-control-in-the-kernel", "host-engine"),
}
MOST_PAGES = 80
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


def build(out: Path) -> Path:
    """Builds the site there, and gives its first page."""
    with tempfile.TemporaryDirectory(prefix="polypath-site.") as folder:
        source = Path(folder) / "source"
        lay_out(source)
        generate(source, Path(folder))
        contents(source)
        # And the search.
        if (pages := sum(1 for _ in source.rglob("*.md")) + 1) > MOST_PAGES:
            sys.exit(f"polypath: the site has {pages} pages, and at most {MOST_PAGES} are found through: take some out, or join them.")
        options = ["-b", "html", "-W", "--keep-going", "-q", "-E", "-j", "auto"]
        command = [sys.executable, "-m", "sphinx", *options, "-c", str(DOCS), str(source), str(out)]
        # Signatures are read from the sources that stand beside this file.
        search = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": search}, capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.replace(str(source), "") or done.stdout
            sys.exit(f"{said}\npolypath: the site was not built; mend what stands above.")
    shutil.rmtree(out / ".doctrees", ignore_errors=True)
    return out / "index.html"


def lay_out(source: Path) -> None:
    """Copies the pages and whatever they link to."""
    docs = [page for page in sorted(DOCS.rglob("*.md")) if not _is_for_the_project(page)]
    waiting = [
        *(ROOT / name for name in FIRST),
        *docs,
        *(page for page in sorted(ROOT.glob("studies/*/README.md")) if not _is_for_the_project(page)),
    ]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        text = page.read_text(encoding="utf-8")
        parts = _CODE.split(text)
        for index in range(0, len(parts), 2):
            parts[index] = _LINK.sub(partial(_followed, page, seen, waiting), parts[index])
        to = source / page.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text("".join(parts), encoding="utf-8")
    for file in seen:
        if file.suffix != ".md":
            to = source / file.relative_to(ROOT)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, to)


def _followed(page: Path, seen: set[Path], waiting: list[Path], link: re.Match[str]) -> str:
    """The link as the site has it. A folder's is to its README; one without is a name alone."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    found = (page.parent / target).resolve()
    if found.is_dir():
        if not (found / "README.md").is_file():
            return text
        target, found = f"{target.rstrip('/')}/README.md", found / "README.md"
    if not found.exists():
        # Sphinx says so.
        return link[0]
    if _is_for_the_project(found):
        return text
    if found == ROOT / "README.md":
        # It is the first page.
        return f"[{text}]({target.removesuffix('README.md')}index.md{anchor})"
    if found not in seen:
        seen.add(found)
        if found.suffix == ".md":
            waiting.append(found)
    return f"[{text}]({target}{anchor})"


def _is_for_the_project(page: Path) -> bool:
    return any(page.is_relative_to(ROOT / name) for name in _FOR_THE_PROJECT)


def generate(source: Path, scratch: Path) -> None:
    """Writes the generated pages."""
    reference = source / "docs" / "reference"
    (reference / "commands.md").write_text(commands(scratch), encoding="utf-8")
    (reference / "study-fields.md").write_text(study_fields(), encoding="utf-8")
    (reference / "python").mkdir()
    for name, text in python_pages().items():
        (reference / "python" / name).write_text(text, encoding="utf-8")


def contents(source: Path) -> None:
    """Writes the first page, which is the README with the table of contents of all pages."""
    there = {str(page.relative_to(source)) for page in source.rglob("*.md")}
    guide = {group: [f"docs/guide/{name}.md" for name in names] for group, names in _GUIDE.items()}
    if others := {name for name in there if name.startswith("docs/guide/")} ^ {name for names in guide.values() for name in names}:
        sys.exit(f"polypath: the site's sidebar lacks {', '.join(sorted(others))}, or has no such page: say where it stands in _GUIDE.")
    # A folder with a README is a page with its others below it.
    sections = sorted(name for name in there if re.fullmatch(r"docs/[^/]+/README\.md", name))
    reference = ("study-fields", "commands", "results", "python/index", "kernels", "agreement", "glossary")
    groups = {
        "Start": ["docs/README.md", *guide["Start"], "docs/limitations.md"],
        "Questions and answers": ["docs/recipes/README.md"],
        "My links and my machine": guide["My links and my machine"],
        "Research": [*guide["Research"], "studies.md"],
        "Real kernels": [*guide["Real kernels"], *(name for name in sections if name != "docs/recipes/README.md")],
        "How it works": sorted(name for name in there if name.startswith("docs/concepts/")),
        "Look up": [f"docs/reference/{name}.md" for name in reference],
        "Project": ["CHANGELOG.md"],
    }
    listed = {
        **{page: sorted(name for name in there if Path(name).parent == Path(page).parent and name != page) for page in sections},
        "studies.md": sorted(name for name in there if name.startswith("studies/")),
    }
    titles = {"studies.md": "Studies"}
    for page, names in listed.items():
        inside = "\n".join(f"/{name}" for name in names)
        tree = f"\n```{{toctree}}\n:maxdepth: 1\n\n{inside}\n```\n"
        file = source / page
        file.write_text((f"# {titles[page]}\n" if page in titles else file.read_text(encoding="utf-8")) + tree, encoding="utf-8")
    trees = "".join(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{chr(10).join(names)}\n```\n" for caption, names in groups.items())
    (source / "README.md").rename(source / "index.md")
    with (source / "index.md").open("a", encoding="utf-8") as first:
        first.write(trees)


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


if __name__ == "__main__":
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    print(f"The site is built: {build(to.resolve())}")
