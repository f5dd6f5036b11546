"""Which tests `make test` leaves out, by what they cost."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import sys, time, pytest

@pytest.fixture(scope="module")
def shared():
    time.sleep(3.6 if "--renew-costs" in sys.argv else 0)

def test_quick(): pass
def test_slow(): pass
def test_first(shared): pass
def test_second(shared): pass
"""


@pytest.fixture
def project(tmp_path):
    tests = tmp_path / "tests"
    tests.mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = '-q'\n")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    for name in ("conftest.py", "requirement.py"):
        shutil.copy(ROOT / "tests" / name, tests)
    (tests / "test_x.py").write_text(TESTS)
    (tests / "costs.tsv").write_text(
        "# heading\n9\ttests/test_x.py::test_slow\n8\ttests/test_x.py::test_second\n5\ttests/test_x.py::test_gone\n"
    )
    (tests / "kept.tsv").write_text("# heading\n")
    return tmp_path


def said(project, *options):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options, "tests"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr


def test_what_costs_more_is_left_out_but_one_of_a_kind_and_costs_are_renewed(project):
    told = said(project, "--most-seconds", "7")
    assert "left out: 2 tests that cost more than 7 s each, 17 s together; make test-all runs them" in told
    assert "2 passed, 2 deselected" in told
    (project / "tests/kept.tsv").write_text("a kind\ttests/test_x.py::test_slow\n")
    assert "3 passed, 1 deselected" in said(project, "--most-seconds", "7")
    (project / "tests/kept.tsv").write_text("a kind\ttests/test_x.py::test_gone\n")
    assert "tests/kept.tsv names tests that are not there: tests/test_x.py::test_gone" in said(project, "--most-seconds", "7")
    assert "4 passed" in said(project, "--renew-costs", "--durations-into", "build/x.tsv")
    heading, *lines = (project / "tests/costs.tsv").read_text().splitlines()
    costs = {name.partition("::")[2]: float(cost) for cost, name in (line.split("\t") for line in lines)}
    # A third of what both wait; a machine that is busy makes all of them cost more.
    assert heading == "# heading"
    assert {"test_first", "test_second"} <= costs.keys()
    assert 1.2 <= costs["test_first"] < 8 and 1.2 <= costs["test_second"] < 8
    assert len((project / "build/x.tsv").read_text().splitlines()) == 5
