"""The guide's examples run."""

import re
import shlex
from pathlib import Path

import pytest
from study_data import written

from polypath.engines import SimEngine, check
from polypath.study import cells

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
PAGES = sorted(GUIDE.glob("*.md"))


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)


def pages_with(language):
    return [pytest.param(page, id=page.stem) for page in PAGES if blocks(page, language)]


@pytest.mark.parametrize("page", pages_with("console"))
def test_commands(page, tmp_path, monkeypatch, polypath):
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "console"):
        for line in block.splitlines():
            assert line.startswith("$ polypath "), line
            code, _, err = polypath(*shlex.split(line.removeprefix("$ polypath ")))
            assert code == 0, (line, err)


@pytest.mark.parametrize("page", pages_with("python"))
def test_python(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    for number, block in enumerate(blocks(page, "python"), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("page", pages_with("yaml"))
def test_studies(page, tmp_path):
    studies = [block for block in blocks(page, "yaml") if block.startswith("name:")]
    assert studies
    for text in studies:
        study = written(tmp_path, text)
        # The simulator runs cells of one kernel; which does not matter to it.
        kernels = {cell.setup.kernel for cell in cells(study)} if study.varies_kernel else {None}
        for kernel in kernels:
            check(SimEngine(), study, chosen=[cell for cell in cells(study) if kernel in (None, cell.setup.kernel)])


@pytest.mark.parametrize("page", [pytest.param(page, id=page.stem) for page in PAGES])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
