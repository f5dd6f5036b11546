"""Renews the picture of README.md: python tools/pictures.py. The study of its first commands runs, and
the figure of its report is taken.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pictures"
MOST_BYTES = 150_000
# One cell a scheduler.
COMMANDS = (["init", "home", "--template", "wifi-lte"], ["run", "home", "--only", "wifi_loss=0%"])
FIGURE = "results/home/figures/time-goodput-main.png"


def main() -> None:
    """Makes it."""
    with tempfile.TemporaryDirectory() as folder:
        for words in COMMANDS:
            subprocess.run([Path(sys.executable).with_name("polypath"), *words], cwd=folder, check=True, capture_output=True)
        taken = (Path(folder) / FIGURE).read_bytes()
    if len(taken) > MOST_BYTES:
        sys.exit(f"polypath: the picture has {len(taken)} bytes, more than {MOST_BYTES}: show less in it.")
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "subflows.png").write_bytes(taken)
    print(f"docs/pictures/subflows.png: {len(taken)} bytes")


if __name__ == "__main__":
    main()
