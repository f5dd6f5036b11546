"""The picture of the README: it is there, and small; `tools/figures.py --picture` renews it."""

import re
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import figures  # noqa: E402


def test_the_picture_is_there_and_small():
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert sorted(ROOT / name for name in named) == sorted(figures.PICTURES.iterdir())
    assert len(named) == 1
    for name in named:
        made = (ROOT / name).read_bytes()
        assert made[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", made[16:24])[0] > 1000
        assert len(made) < figures.MOST_BYTES
