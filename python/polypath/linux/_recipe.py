"""What is known of a built kernel, and how an executable is made of it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

FILE = "recipe.json"
# The headers that an algorithm's glue includes, laid out as in the kernel's tree.
TREE = "tree"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The contents of recipe.json. Commands name only the compiler and what lies in the recipe's folder."""

    name: str
    release: str
    mptcp: str
    # Hash of the sources, of the configuration and of the edits.
    made_of: str
    # The kernel's own congestion controls.
    algorithms: tuple[str, ...]
    # Compiles one algorithm, in TREE; "-o FILE" and the source come behind.
    compile: tuple[str, ...]
    # Compiles host.c; "-o FILE" and the source come behind.
    compile_host: tuple[str, ...]
    # Links, in the folder; objects replace "{objects}" and the executable "{output}".
    link: tuple[str, ...]
    # Which configuration: "" is the plain one.
    variant: str = ""
    # What makes the table of the functions' names, with its options; nothing where the kernel has none.
    kallsyms: tuple[str, ...] = ()
    # Hash of the configuration and the edits alone.
    settings: str = ""
    # Where it lies; known by who loads it.
    place: Path = field(default=Path(), compare=False)

    @classmethod
    def load(cls, place: Path) -> Recipe:
        """The recipe in this folder."""
        found = json.loads((place / FILE).read_text(encoding="utf-8"))
        lists = {key: tuple(value) for key, value in found.items() if isinstance(value, list)}
        return cls(**{**found, **lists, "place": place})

    def save(self, place: Path) -> None:
        """Writes it there."""
        values = dataclasses.asdict(self)
        del values["place"]
        (place / FILE).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
