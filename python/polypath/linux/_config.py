"""The configuration of our kernels: kernel.config on top of "everything off", a variant's file on
top, and whether they took effect.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from ._errors import KernelError

FRAGMENT = Path(__file__).with_name("kernel.config")
_SELFTESTS = Path(__file__).with_name("selftests.config")
# Configurations beside the plain one, by name; each adds its files.
VARIANTS = {"selftests": (_SELFTESTS,), "hz1000": (_SELFTESTS, Path(__file__).with_name("hz1000.config"))}
# Ticks a second; TCP's timers count in them, and this is what distributions run with.
HZ = 250
# From it on the configuration chooses among some numbers of ticks (kernel/Kconfig.hz).
CHOICE_OF_HZ = (6, 14)
# Before it a kernel without block devices mounts no root file system at all, ours neither
# (init/do_mounts.c: mount_root).
ROOT_WITHOUT_BLOCK = (5, 15)
# The newest release that was tried.
NEWEST = (7, 3)


class Option(NamedTuple):
    """A line of kernel.config."""

    name: str
    value: str
    # The engine cannot do without it.
    needed: bool


def files(variant: str = "") -> list[Path]:
    """The files that a variant's configuration is made of; "" is the plain one."""
    return [FRAGMENT, *VARIANTS[variant]] if variant else [FRAGMENT]


def hz(variant: str = "") -> int:
    """Its ticks a second."""
    return next((int(option.value) for option in options(variant=variant) if option.name == "CONFIG_HZ"), HZ)


def options(text: str | None = None, variant: str = "") -> list[Option]:
    """The lines of kernel.config and of the variant's file."""
    names = []
    text = "".join(file.read_text(encoding="utf-8") for file in files(variant)) if text is None else text
    for line in text.splitlines():
        setting, _, comment = line.partition(" #")
        if setting.startswith("CONFIG_"):
            name, _, value = setting.strip().partition("=")
            names.append(Option(name, value, comment.strip().startswith("needed")))
    return names


def fragment(variant: str = "", release: str = "") -> str:
    """What KCONFIG_ALLCONFIG is given; `release` adds what that one cannot do without."""
    more = []
    if release and _numbers(release) < ROOT_WITHOUT_BLOCK:
        more.append(Option("CONFIG_BLOCK", "y", needed=True))
    if release and _numbers(release) >= CHOICE_OF_HZ and hz(variant) != HZ:
        more.append(Option(f"CONFIG_HZ_{hz(variant)}", "y", needed=True))
    return "".join(f"{option.name}={option.value}\n" for option in [*options(variant=variant), *more])


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


def known(tree: Path) -> set[str]:
    """The options that this kernel has."""
    entry = re.compile(r"^\s*(?:menu)?config\s+(\w+)", re.MULTILINE)
    return {f"CONFIG_{name}" for file in tree.rglob("Kconfig*") for name in entry.findall(file.read_text(errors="replace"))}


def check(config: str, known_names: set[str], release: str, variant: str = "") -> list[str]:
    """What this release has and did not accept though we ask for it, where the engine can do
    without. `config` is the text of .config.

    Raises `KernelError` if something needed did not take effect.
    """
    values = dict(line.split("=", 1) for line in config.splitlines() if line.startswith("CONFIG_"))
    wanted = options(variant=variant)
    absent = [o.name for o in wanted if o.needed and o.name not in known_names]
    refused = [o for o in wanted if o.name in known_names and values.get(o.name, "n") != o.value]
    fatal = [o.name for o in refused if o.needed]
    if values.get("CONFIG_HZ") != str(hz(variant)) and "CONFIG_HZ" not in fatal:
        fatal.append(f"CONFIG_HZ={hz(variant)}")
    if absent:
        new = f"this Polypath knows releases to {'.'.join(map(str, NEWEST))}, so {FRAGMENT} must learn this one"
        advice = new if _numbers(release) > NEWEST else "take a release from 5.4 on"
        raise KernelError(f"Linux {release} has no {', '.join(absent)}, without which the engine cannot use it: {advice}")
    if fatal:
        raise KernelError(f"Linux {release} did not accept {', '.join(fatal)} of {FRAGMENT}: adapt that file to this release")
    return [o.name for o in refused]
