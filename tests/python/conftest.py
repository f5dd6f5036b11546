"""What several test files use."""

import sys

import pytest

from polypath import cli
from polypath.plot import _export


@pytest.fixture
def polypath(monkeypatch, capsys):
    """Runs the command line in this process: exit code, stdout, stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["polypath", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return end.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture(autouse=True, scope="session")
def checked_charts():
    """A chart that its schema does not allow is a mistake, also where the renderer shrugs."""
    _export.CHECKED = True
