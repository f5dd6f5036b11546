"""Builds the documentation as a site: python tools/site.py [FOLDER]; into build/site, unless a
folder is named.

It lays the pages out as they lie in the project, adds those that are generated, and has Sphinx make
them. A warning is a mistake: a link that leads nowhere, a page in no table of contents. The site
opens from the disk and asks no network: search, fonts and scripts are in it.

`docs/conf.py` and `docs/_static/site.css` say how the site looks, `site_pages.py` makes the pages
that no one writes. A recipe is a page of `docs/recipes` and a row of its README.
`tests/python/test_recipes.py` does what its blocks say, as root `tests/kernel/test_recipes.py`; its
claims are committed before their first result.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import site_pages

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
    (reference / "commands.md").write_text(site_pages.commands(scratch), encoding="utf-8")
    (reference / "study-fields.md").write_text(site_pages.study_fields(), encoding="utf-8")
    (reference / "python").mkdir()
    for name, text in site_pages.python_pages().items():
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


if __name__ == "__main__":
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"
    print(f"The site is built: {build(to.resolve())}")
