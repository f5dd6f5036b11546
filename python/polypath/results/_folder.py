"""Where results go by default."""

from __future__ import annotations

from pathlib import Path

DEFAULT_OUT = Path("results")
