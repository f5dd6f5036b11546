"""What is changed in a kernel's sources before it is built: few small edits below arch/um, each
with its reason. Never below net/.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ._config import HZ
from ._errors import KernelError


class Edit(NamedTuple):
    """One replacement. `pattern` must match exactly `times` times in `file`, or not at all where
    the release has no need of it.
    """

    file: str
    pattern: str
    replacement: str
    why: str
    needed: bool = False


EDITS = (
    Edit(
        "arch/um/Kconfig",
        r"(^config HZ\n\tint\n\tdefault) 100$",
        r"\1 250",
        "TCP's timers count in ticks; this is what distributions run with (releases from 6.14 on let the configuration choose)",
    ),
    Edit(
        "arch/um/Makefile",
        r"^\tKBUILD_CFLAGS \+= -mcmodel=large$",
        "\t# no modules: everything lies below 2 GB",
        "with 64-bit addresses every call and every access to a variable takes two instructions; only modules need them",
    ),
    Edit(
        "arch/x86/Makefile.um",
        r"^KBUILD_CFLAGS \+= -fno-builtin -m64 ?$",
        "KBUILD_CFLAGS += -m64",
        "small copies and clearings become calls otherwise; other architectures build without it",
    ),
    Edit(
        "arch/um/kernel/tlb.c",
        r"if \(!pte_young\(\*pte\)\) \{\n\t+r = 0;\n\t+w = 0;\n\t+\} else if \(!pte_dirty\(\*pte\)\)",
        "if (!pte_young(*pte) || !pte_dirty(*pte))",
        "a forked program's pages are old, and each would be a fault only to tell that it was read. That age is for reclaiming memory",
    ),
)


def edits(hz: int) -> tuple[Edit, ...]:
    """The edits for a kernel with so many ticks a second."""
    return tuple(edit._replace(replacement=edit.replacement.replace("250", str(hz))) for edit in EDITS)


def apply(tree: Path, release: str, hz: int = HZ) -> list[str]:
    """Makes the edits; the names of the files that were changed."""
    changed = []
    for edit in edits(hz):
        file = tree / edit.file
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        new, times = re.subn(edit.pattern, edit.replacement, text, flags=re.MULTILINE)
        if times:
            file.write_text(new, encoding="utf-8")
            changed.append(edit.file)
        elif edit.needed:
            raise KernelError(
                f"{edit.file} of Linux {release} is not as expected ({edit.why}): python/polypath/linux/_edits.py must learn this release"
            )
    return changed
