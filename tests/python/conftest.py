"""What several test files use."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from requirement import lacking

from polypath import programs
from polypath.plot import _export


@pytest.fixture(autouse=True, scope="session")
def checked_charts():
    """A chart that its schema does not allow is a mistake, also where the renderer shrugs."""
    _export.CHECKED = True


@pytest.fixture(scope="module")
def chromium():
    """A browser that reaches nothing but this machine."""
    if programs.find("chromium") is None:
        lacking("web", programs.lacks("chromium"))
    if find_spec("playwright") is None:
        lacking("web", "the Python package playwright is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Debian's script uses other programs; the sandbox refuses root.
        binary = Path("/usr/lib/chromium/chromium")
        path = str(binary) if binary.is_file() else programs.need("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
