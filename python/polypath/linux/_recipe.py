"""What is known of a built kernel, and how an executable is made of it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path

FILE = "recipe.json"
# The headers that the files of cc/kernel include, laid out as in the kernel's tree.
TREE = "tree"
# Kernels of another format are as if they were not there. Raise it when a folder is to keep
# something else, also when a file of cc/kernel includes a header that none included before: earlier
# kernels lack that header, and each is linked anew when cc/ changes.
FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The contents of recipe.json. Commands name only the compiler and what lies in the recipe's
    folder.
    """

    name: str
    release: str
    mptcp: str
    # FORMAT when it was built.
    format: int
    # Hash of the sources, the name, and of what `settings` is a hash of.
    made_of: str
    # The kernel's own congestion controls.
    algorithms: tuple[str, ...]
    # Compiles one algorithm or file of the kernel's side, in TREE; "-o FILE" and the source come
    # behind.
    compile: tuple[str, ...]
    # Compiles a file of the host's side; "-o FILE" and the source come behind.
    compile_host: tuple[str, ...]
    # Links, in the folder; objects replace "{objects}" and the executable "{output}".
    link: tuple[str, ...]
    # Which configuration: "" is the plain one.
    variant: str = ""
    # What makes the table of the functions' names, with its options; nothing where the kernel has
    # none.
    kallsyms: tuple[str, ...] = ()
    # Hash of the configuration, the edits and FORMAT alone.
    settings: str = ""
    # Where its sources are, and the hash of their contents; "" in kernels of earlier versions.
    sources: str = ""
    identity: str = ""
    # Where it lies; known by who loads it.
    place: Path = field(default=Path(), compare=False)

    @classmethod
    def load(cls, folder: Path) -> Recipe:
        """The recipe in this folder. Raises ValueError or TypeError for one of another format."""
        fields = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if fields.get("format") != FORMAT:
            raise ValueError(f"{folder} is of another format")
        lists = {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        return cls(**{**fields, **lists, "place": folder})

    def save(self, folder: Path) -> None:
        """Writes it there."""
        values = dataclasses.asdict(self)
        del values["place"]
        (folder / FILE).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
