"""All tests, and what they start, find the programs that the project's list names and no others."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))

import listed_only


def pytest_configure(config: pytest.Config) -> None:
    os.environ["PATH"] = listed_only.path()
