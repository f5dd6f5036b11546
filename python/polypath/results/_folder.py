"""Where results go if nobody says where."""

from __future__ import annotations

from pathlib import Path

DEFAULT_OUT = Path("results")
