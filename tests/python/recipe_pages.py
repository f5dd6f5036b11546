"""The recipes' examples: what a page has, and how it is followed."""

import contextlib
import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from polypath import cli

RECIPES = Path(__file__).resolve().parents[2] / "docs" / "recipes"
PAGES = sorted(page for page in RECIPES.glob("*.md") if page.name != "README.md")
# Their commands need root, namespaces and BPF.
ROOT_PAGES = ("missing-subflow", "stock-kernel")
_BLOCK = re.compile(r"^```(yaml|console|python)\n(.*?)^```$", re.M | re.S)


def follow(page, monkeypatch):
    """Does what the page says, in its order, in this folder; gives what each command printed."""
    told = {}
    for language, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "yaml":
            Path(re.search(r"^name: (\S+)", block)[1] + ".yaml").write_text(block)
        elif language == "python":
            exec(compile(block, page.name, "exec"), {"__name__": "example"})
        else:
            for line in block.splitlines():
                assert line.startswith("$ polypath "), line
                told[line] = _command(line.removeprefix("$ "), monkeypatch)
    return told


def _command(line, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as end, contextlib.redirect_stdout(io.StringIO()) as out:
        cli.main()
    # What doctor finds wrong is its answer.
    assert not end.value.code or (line.startswith("polypath doctor") and end.value.code == 1), line
    return out.getvalue()
