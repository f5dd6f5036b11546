"""The traces that come with the package. They are made, not recorded: drawn once, to have what such
links are known for.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

_FOLDER = Path(__file__).with_name("files")

_ABOUT = {
    "starlink": (60.0, "60 s of a satellite link: 160 to 230 Mbit/s, every 15 s a cut of 100 to 300 ms and another rate and delay"),
    "lte-drive": (120.0, "120 s of LTE in a moving car: 3 to 60 Mbit/s, two holes of some seconds, delays of 24 to 46 ms"),
}


class Packaged(NamedTuple):
    """A trace of the package."""

    file: Path
    length: float
    """Seconds."""
    about: str


def packaged() -> dict[str, Packaged]:
    """Those there are, by name."""
    return {name: Packaged(_FOLDER / f"{name}.csv", length, about) for name, (length, about) in _ABOUT.items()}
