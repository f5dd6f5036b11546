"""Renews the pictures of README.md: python tools/pictures.py. A study runs, its report and the
playground are opened in Chromium.

They need `make setup-all` and `make playground`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from polypath import programs
from polypath.play import serve

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
MOST_BYTES = 150_000
PATIENCE_MS = 300_000
WIDTH, HEIGHT = 1100, 760


def main() -> None:
    """Makes both."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(exist_ok=True)
    binary = Path("/usr/lib/chromium/chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = str(binary) if binary.is_file() else programs.need("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light").new_page()
        page.set_default_timeout(PATIENCE_MS)
        _keep("report", _report(page, Path(folder)))
        _keep("playground", _playground(page))
        browser.close()


def _report(page: Any, folder: Path) -> bytes:
    """The beginning of the report of a template."""
    for words in (["init", "home", "--template", "home-line"], ["run", "home"]):
        subprocess.run([Path(sys.executable).with_name("polypath"), *words], cwd=folder, check=True, capture_output=True)
    page.goto((folder / "results" / "home" / "report.html").as_uri())
    taken: bytes = page.screenshot()
    return taken


def _playground(page: Any) -> bytes:
    """The playground as it opens."""
    address, is_up = [], threading.Event()

    def ready(found: str) -> None:
        address.append(found)
        is_up.set()

    threading.Thread(target=serve, args=(0,), kwargs={"ready": ready}, daemon=True).start()
    is_up.wait()
    page.goto(address[0])
    page.wait_for_selector("#side-a[data-digest]")
    taken: bytes = page.screenshot()
    return taken


def _keep(name: str, taken: bytes) -> None:
    if len(taken) > MOST_BYTES:
        sys.exit(f"polypath: the picture {name} has {len(taken)} bytes, more than {MOST_BYTES}: show less in it.")
    (FOLDER / f"{name}.png").write_bytes(taken)
    print(f"docs/pictures/{name}.png: {len(taken)} bytes")


if __name__ == "__main__":
    main()
