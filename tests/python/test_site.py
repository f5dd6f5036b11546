"""The documentation as a site."""

import json
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from requirement import lacking

from polypath.cli._app import COMMANDS
from polypath.study import Study

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import site_pages  # noqa: E402


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for package in ("sphinx", "myst_parser", "furo"):
        if find_spec(package) is None:
            lacking("web", f"the Python package {package} is not installed")
    out = tmp_path_factory.mktemp("site")
    # Sphinx calls every link that leads nowhere, and every page that no contents list, a mistake.
    done = subprocess.run([sys.executable, ROOT / "tools/site.py", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def text(site, page):
    return (site / f"{page}.html").read_text(encoding="utf-8")


def test_every_page_is_there_and_nothing_else(site):
    docs = [page for page in ROOT.glob("docs/**/*.md") if page.parent.name != "decisions"]
    # How the advisor was checked, and a search for an algorithm, are for those who change them.
    studies = [page for page in ROOT.glob("studies/*/README.md") if page.parent.name not in ("advice", "one-tcp-many-paths")]
    pages = [*docs, *studies, ROOT / "CHANGELOG.md"]
    assert [page for page in pages if not (site / page.relative_to(ROOT)).with_suffix(".html").is_file()] == []
    listed = text(site, "docs/README")
    for page in ROOT.glob("docs/guide/*.md"):
        assert f'href="guide/{page.stem}.html"' in listed, page
    pages = [str(page.relative_to(site)) for page in site.rglob("*.html")]
    assert len(pages) <= 80
    assert [page for page in pages if "_modules" in page or "decisions" in page or page.startswith("specs")] == []
    fetched = re.compile(r"""(?:src|data-src)="(?:https?:)?//|<link[^>]+href="(?:https?:)?//|(?:url\(|@import\s)["']?(?:https?:)?//""")
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css")]
    assert [str(file) for file in files if fetched.search(file.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "word, page",
    [
        ("bufferbloat", "concepts/queues"),
        ("failover", "recipes/link-fails"),
        ("aggregation", "guide/bond-two-uplinks"),
        ("goodput", "concepts/metrics"),
        ("lag", "recipes/short-delay"),
        ("game", "recipes/short-delay"),
        ("multihoming", "guide/bond-two-uplinks"),
        ("jupyter", "guide/python"),
    ],
)
def test_what_people_call_a_thing_leads_to_its_page(site, word, page):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index[index.index("(") + 1 : index.rindex(")")])
    # The index has stems, as the search makes of what is asked.
    stems = {stem: places for stem, places in found["terms"].items() if word.startswith(stem) and len(stem) > len(word) - 6}
    places = {place for each in stems.values() for place in (each if isinstance(each, list) else [each])}
    assert "docs/reference/glossary" in {found["docnames"][place] for place in places}
    assert f'href="../{page}.html"' in text(site, "docs/reference/glossary")


def test_the_reference_has_every_command_field_and_name(site):
    commands = text(site, "docs/reference/commands")
    assert [name for name in COMMANDS if f'id="polypath-{name}"' not in commands] == []
    fields = text(site, "docs/reference/study-fields")
    kinds = [name for name in Study.model_json_schema()["$defs"] if name != "Undecided"]
    assert [name for name in kinds if f'id="{name.lower()}"' not in fields] == []
    for package in site_pages.PACKAGES:
        page = text(site, f"docs/reference/python/{site_pages.page_of(package)}")
        module = import_module(package)
        first = import_module("polypath")
        names = [name for name in module.__all__ if package == "polypath" or getattr(first, name, None) is not getattr(module, name)]
        assert [name for name in names if f'id="{package}.{name}"' not in page and name not in page] == []


def test_every_field_of_a_study_is_described():
    schema = Study.model_json_schema()
    generic = re.compile(r'A [\w ]+, like "[^"]*"\.')
    bare = [
        f"{kind}.{name}"
        for kind, found in {"Study": schema, **schema["$defs"]}.items()
        for name, field in found.get("properties", {}).items()
        if name != "kind" and (not field.get("description") or generic.fullmatch(field["description"]))
    ]
    assert bare == []
    assert [kind for kind, found in schema["$defs"].items() if not found.get("description")] == []


def test_it_opens_and_searches_from_the_disk(site, chromium):
    for width in (1400, 390):
        page = chromium.new_context(viewport={"width": width, "height": 800}).new_page()
        page.set_default_timeout(120_000)
        mistakes = []
        page.on("pageerror", lambda error, kept=mistakes: kept.append(str(error)))
        page.on("console", lambda said, kept=mistakes: kept.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked, kept=mistakes: None if asked.url.startswith(("file:", "data:")) else kept.append(asked.url))
        for name in ("index", "docs/recipes/buffers", *(f"docs/reference/{each}" for each in ("study-fields", "commands", "kernels"))):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
            cut = "[...document.querySelectorAll('div.highlight pre')].some((code) => code.scrollWidth > code.clientWidth + 1)"
            assert not page.evaluate(cut), name
        page.goto(f"{(site / 'search.html').as_uri()}?q=reinjection")
        page.wait_for_selector("#search-results li")
        assert page.locator("#search-results a[href*='glossary']").count() > 0
        assert mistakes == []
