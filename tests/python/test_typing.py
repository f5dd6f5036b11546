"""Studies, and the examples of guide and recipes, as a person's type checker sees them."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from requirement import lacking

ROOT = Path(__file__).resolve().parents[2]
PAGES = [page for folder in ("guide", "recipes") for page in sorted((ROOT / "docs" / folder).glob("*.md"))]


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """A folder with a module for each page that has Python in it."""
    folder = tmp_path_factory.mktemp("examples")
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        if blocks:
            (folder / f"{page.stem.replace('-', '_')}.py").write_text("\n".join(blocks), encoding="utf-8")
    assert len(list(folder.iterdir())) >= 5
    settings = {
        "include": ["."],
        "extraPaths": [str(ROOT / "python")],
        "typeCheckingMode": "standard",
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    (folder / "studies.py").write_text((ROOT / "tests/typing/studies.py").read_text(encoding="utf-8"), encoding="utf-8")
    # One that must be found, so that a checker which looks at nothing fails.
    (folder / "wrong.py").write_text("import polypath\n\npolypath.run(3, workers='two')\n")
    return folder


def told(folder, *command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if re.search(r"\berror\b.*\S", line) and ".py:" in line]
    assert any("wrong.py" in line for line in lines), done.stdout + done.stderr
    return [line for line in lines if "wrong.py" not in line]


def test_mypy_takes_the_examples(examples, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(ROOT / "python"))
    missing = ("altair", "pyarrow", "scipy", "vl_convert", "pyroute2")
    (examples / "mypy.ini").write_text("[mypy]\n" + "".join(f"[mypy-{name}.*]\nignore_missing_imports = True\n" for name in missing))
    assert told(examples, "mypy", "--strict", "--follow-imports=silent", ".") == []


def test_pyright_takes_the_examples(examples):
    if find_spec("pyright") is None:
        lacking("web", "the Python package pyright is not installed")
    assert told(examples, "pyright", "--pythonpath", sys.executable) == []
