"""The recipes run, and what they say is so."""

import re
import sys
from pathlib import Path

import pytest
from recipe_pages import PAGES, RECIPES, ROOT_PAGES, follow

from polypath import Study

# Written before the first result, and not so; the page says it.
FOUND_WRONG = ("turns",)


def test_there_are_eleven_and_all_are_listed():
    listed = re.findall(r"\]\(([^)]+)\)", (RECIPES / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [page.name for page in PAGES]
    assert len(PAGES) == 11


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES if page.stem not in ROOT_PAGES])
def test_a_recipe_does_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    # A page starts the program, too.
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "polypath"
    program.write_text(f"#!{sys.executable}\nfrom polypath.cli import main\nmain()\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    told = "".join(follow(page, monkeypatch).values())
    claims = [claim.id for file in Path().rglob("*.yaml") if "results" not in file.parts for claim in Study.load(file).claims]
    verdicts = dict(re.findall(r"^ +(\S+) +sim +(holds|does not hold|not measured)", told, re.M))
    assert verdicts == {claim: "does not hold" if claim in FOUND_WRONG else "holds" for claim in claims}
    if page.stem == "buffers":
        assert "receive window" in told
