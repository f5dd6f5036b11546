"""What several test files use."""

import sys

import pytest

from polypath import cli


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
