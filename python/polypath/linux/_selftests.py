"""A kernel's own network tests, unpacked from its sources: tools/testing/selftests/net, the headers
their programs want, no more.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from . import _source
from ._commands import locked, run
from ._errors import KernelError
from ._kernel import folder, listed

TESTS = "tools/testing/selftests"
# Raise it when other files are unpacked, or changed otherwise.
_FORMAT = 3
# What of the sources is unpacked, as folders and files below their root.
_WANTED = (f"{TESTS}/net", f"{TESTS}/lib", f"{TESTS}/kselftest", f"{TESTS}/*.h", f"{TESTS}/*.sh", "include/uapi", "tools/include")
# Where they are unpacked until they are whole.
_ASIDE = ".tests-"
_KEPT_SECONDS = 3600
# The headers as programs see them: the same replacements that `make headers` makes of what only the
# kernel's compiler knows.
_KERNEL_ONLY = (
    (re.compile(r"\b(__user|__force|__iomem|__attribute_const__)\b[ \t]?"), ""),
    (re.compile(r"^#include <linux/compiler(_types)?\.h>$", re.MULTILINE), ""),
    (re.compile(r"(?<!\w)__packed(?!\w)"), "__attribute__((packed))"),
    (re.compile(r"(?<![\w-])(inline|asm|volatile)(?=[\s(])"), r"__\1__"),
    (re.compile(r"(#ifndef|#define|#endif\s*/\*)\s*_UAPI"), r"\1 "),
)


def selftests(source_of: str, say: Callable[[str], None] = lambda _: None, *, variant: str = "") -> Path:
    """The network tests of the kernel that `source_of` names (as `build` takes it, or the name of a
    kernel of this variant), unpacked once for each state of its sources.

    In it are tools/testing/selftests, tools/include and include/uapi, the latter as programs may
    include it.
    """
    root = folder()
    root.mkdir(parents=True, exist_ok=True)
    recipe = listed(source_of, variant)
    if recipe and not recipe.sources:
        raise KernelError(f"kernel {recipe.name} of an earlier Polypath does not say where its sources are: name their folder instead")
    source = _source.Source("", Path(recipe.sources), recipe.identity) if recipe else _source.resolve(source_of, root / "sources", say)
    target = root / f"selftests-{source.identity[:12]}-{_FORMAT}"
    with locked(root / f".lock-{target.name}", lambda: say("another process unpacks these tests; waiting for it"), remove=True):
        if not target.is_dir():
            if recipe and _source.resolve(recipe.sources, root / "sources", say).identity != source.identity:
                raise KernelError(f"the sources in {recipe.sources} changed since kernel {recipe.name} was built: name the folder instead")
            say("unpacking the kernel's selftests")
            for left in root.glob(f"{_ASIDE}*"):
                # Of a process that was killed; a living one needs minutes.
                if time.time() - left.stat().st_mtime > _KEPT_SECONDS:
                    shutil.rmtree(left, ignore_errors=True)
            work = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=root))
            try:
                _unpack(source.path, work)
                work.rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return target


def _unpack(path: Path, into: Path) -> None:
    if path.is_file():
        wanted = [f"*/{pattern}" for pattern in _WANTED]
        run(
            "tar", "-C", into, "--strip-components=1", "--wildcards", "--no-wildcards-match-slash", "-xf", path, *wanted,
            cwd=into, purpose=f"unpacking the selftests of {path}",
        )  # fmt: skip
    else:
        for wanted_path in _WANTED:
            for source_file in path.glob(wanted_path):
                to = into / source_file.relative_to(path)
                to.parent.mkdir(parents=True, exist_ok=True)
                if source_file.is_dir():
                    shutil.copytree(source_file, to, symlinks=True)
                else:
                    shutil.copy(source_file, to)
    if not (into / TESTS / "net").is_dir():
        raise KernelError(f"{path} holds no {TESTS}/net: the tests come with the whole sources of a kernel")
    for header in (into / "include" / "uapi").rglob("*.h"):
        text = header.read_text(encoding="utf-8", errors="surrogateescape")
        for pattern, replacement in _KERNEL_ONLY:
            text = pattern.sub(replacement, text)
        header.write_text(text, encoding="utf-8", errors="surrogateescape")
