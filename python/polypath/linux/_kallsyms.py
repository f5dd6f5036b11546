"""The table of the functions' names that /proc/kallsyms shows.

It holds addresses, so it is made of a linked kernel and linked in again, until nothing moves any
more.

The kernel's own program (scripts/kallsyms) writes the table; a build harvests it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from ._commands import run
from ._errors import KernelError

PROGRAM = "kallsyms"
# A link moves addresses at most twice: when the table gets its size, and when its neighbours get
# theirs.
_PASSES = 5
# What is no name of a function or a variable, as scripts/mksysmap leaves it out: types, compilers'
# own labels, the table itself.
_LEFT_OUT = re.compile(
    r" [aNUw] | \$| \.L| __crc_| __kstrtab(ns)?_| kallsyms_(offsets|addresses|relative_base|num_syms|names|markers|token_table|token_index"
    r"|seqs_of_names)$"
)
_HEADER = "#include <asm/bitsperlong.h>"


def harvest(tree: Path, done: Path, config: str) -> tuple[str, ...]:
    """Takes the program out of a built tree; its name and options, or nothing where the kernel has
    no such table.
    """
    settings = config.splitlines()
    if "CONFIG_KALLSYMS=y" not in settings:
        return ()
    shutil.copy(tree / "scripts" / "kallsyms", done / PROGRAM)
    words = (("ALL", "--all-symbols"), ("ABSOLUTE_PERCPU", "--absolute-percpu"), ("BASE_RELATIVE", "--base-relative"))
    # Later releases know no other form than the relative one, and no option for it.
    knows = (tree / "scripts" / "kallsyms.c").read_text(errors="replace")
    return (PROGRAM, *(word for name, word in words if f"CONFIG_KALLSYMS_{name}=y" in settings and word[2:] in knows))


def settle(command: tuple[str, ...], folder: Path, work: Path, link: Callable[[list[Path]], Path], release: str) -> Path:
    """The executable with its own table in it. `link` links with these further objects; `folder`
    holds the program, `work` gets files.
    """
    file, before = _table(command, folder, work, "", release)
    for _ in range(_PASSES):
        linked = link([file] if file else [])
        names = run("nm", "-n", linked, cwd=folder, purpose=f"listing the names of Linux {release}")
        kept = "".join(line for line in names.splitlines(keepends=True) if not _LEFT_OUT.search(line.rstrip("\n")))
        file, text = _table(command, folder, work, kept, release)
        if text == before:
            return linked
        before = text
    raise KernelError(f"linking Linux {release}: its table of names does not settle within {_PASSES} links")


def _table(command: tuple[str, ...], folder: Path, work: Path, names: str, release: str) -> tuple[Path | None, str]:
    """The table of these names as an object, and as a text. None where a release takes no empty
    one; it links without.
    """
    listed, source, linked = work / "names", work / "kallsyms.S", work / "kallsyms.o"
    listed.write_text(names, encoding="utf-8")
    purpose = f"making the table of names of Linux {release}"
    try:
        # By its path: it is the kernel's own program and none of this machine.
        text = run(folder / command[0], *command[1:], listed, cwd=folder, purpose=purpose)
    except KernelError:
        if names:
            raise
        return None, ""
    # The one thing that the header is read for.
    source.write_text(text.replace(_HEADER, "#define BITS_PER_LONG 64"), encoding="utf-8")
    run("gcc", "-c", "-o", linked, source, cwd=folder, purpose=purpose)
    return linked, text
