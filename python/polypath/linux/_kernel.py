"""The kernels that are there. Below `folder()` each has a folder of its own, `<name>-<hash>`, which
is complete or absent.

recipe.json     what the kernel is, and the commands that compile an algorithm and link the
executable vmlinux.o ...   what the link takes, and under tree/ the headers that the files of
cc/kernel include linux-<hash>    an executable with the algorithms of that hash linked in, and
linux-<hash>.json about it
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polypath import customcc

from . import _config, _edits
from ._errors import KernelError
from ._link import link
from ._recipe import FILE, FORMAT, Recipe


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel that can be started."""

    # "6.12"; what `kernel: 6.12` in a study means.
    name: str
    # "6.12.117", as `uname -r` says.
    release: str
    # The executable.
    file: Path
    # Hash of all of the kernel that can change a result: of the executable.
    key: str
    # Names of its congestion controls: its own, and ours as "pp_lia".
    algorithms: tuple[str, ...]
    # Version of MPTCP: 0 out of tree (RFC 6824), 1 upstream (RFC 8684); None without MPTCP.
    mptcp: int | None
    # Which configuration it has: "" the plain one, or a name such as "selftests".
    variant: str = ""
    # Whether it was built as this version of polypath would build it.
    current: bool = True
    # Names of the MPTCP schedulers that were linked into it: ours, as "pp_blest".
    schedulers: tuple[str, ...] = ()

    @property
    def mptcp_in_words(self) -> str:
        return "none" if self.mptcp is None else f"version {self.mptcp}"


def settings_hash(variant: str = "") -> str:
    """Hash of the configuration and of the edits that kernels of this variant are built with, and
    of what is kept of them.
    """
    return hashlib.sha256(f"{_config.fragment(variant)}\0{_edits.EDITS!r}\0{FORMAT}".encode()).hexdigest()


def folder() -> Path:
    """Where kernels are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "polypath" / "linux"


def find(name: str, custom: Sequence[customcc.Algorithm] = ()) -> Kernel:
    """The kernel of this name, with the present algorithms of cc/ and the `custom` ones linked in.

    Raises `KernelError` if it was not built, or if the `custom` ones do not compile for it.
    """
    return of_recipe(recipe_of(name), custom)


def recipe_of(name: str) -> Recipe:
    """The recipe of the kernel of this name; raises `KernelError` if it was not built."""
    recipes = _recipes()
    recipe = _called(name, recipes)
    if recipe is None:
        raise KernelError(f"{_missing(name, recipes)}; build it with: {_build(name)}")
    return recipe


def is_there(name: str) -> bool:
    """Whether a kernel of this name was built."""
    return _called(name, _recipes()) is not None


def listed(what: str, variant: str = "") -> Recipe | None:
    """The kernel that `what` names as `installed` does, with or without its variant; a release or a
    path means sources.
    """
    if re.fullmatch(r"\d+\.\d+", what) or Path(what).expanduser().exists():
        return None
    recipes = _recipes()
    recipe = recipes.get(f"{what}-{variant}" if variant else what) or recipes.get(what)
    return recipe if recipe and recipe.variant == variant else None


def _called(name: str, recipes: dict[str, Recipe]) -> Recipe | None:
    """The recipe of this name; `5.4-mptcp` also stands for the newest release of that series, such
    as 5.4.230-mptcp.
    """
    series, _, kind = name.partition("-")
    releases = [recipe for other, recipe in recipes.items() if kind == "mptcp" and re.fullmatch(rf"{re.escape(series)}\.\d+-mptcp", other)]
    return recipes.get(name) or (releases[-1] if releases else None)


def installed() -> list[Kernel]:
    """All kernels that were built, in the order of their releases."""
    return [of_recipe(recipe) for recipe in _recipes().values()]


def remove(name: str) -> None:
    """Takes a kernel away."""
    recipes = _recipes()
    if name not in recipes:
        raise KernelError(_missing(name, recipes))
    for folder in [folder for folder in places() if Recipe.load(folder).name == name]:
        # Out of the way at once, then piece by piece: what is half removed must not be taken for a
        # kernel.
        gone = folder.with_name(f".removed-{folder.name}-{os.getpid()}")
        folder.rename(gone)
        shutil.rmtree(gone)


def _missing(name: str, there: dict[str, Recipe]) -> str:
    near = difflib.get_close_matches(name, list(there), n=1)
    hint = f' (did you mean "{near[0]}"?)' if near else ""
    have = f"there are {', '.join(there)}" if there else "there are none yet"
    return f'there is no kernel "{name}"{hint}; {have}'


def _build(name: str) -> str:
    release = re.fullmatch(rf"(\d+\.\d+)(?:-({'|'.join(_config.VARIANTS)}))?", name)
    if release is None:
        return "polypath linux build FOLDER, the folder with its sources"
    return f"polypath linux build {release[1]}" + (f" --variant {release[2]}" if release[2] else "")


def places() -> list[Path]:
    """The folders of all kernels, oldest first."""
    folders = []
    for file in folder().glob(f"[!.]*/{FILE}"):
        try:
            Recipe.load(file.parent)
        except (OSError, ValueError, TypeError):
            # Written by another version of polypath, or taken away at this moment.
            continue
        folders.append(file.parent)
    return sorted(folders, key=lambda kernel_folder: (kernel_folder / FILE).stat().st_mtime_ns)


def is_newest(recipe: Recipe) -> bool:
    """Whether its name means it, and no later kernel of this name."""
    return _recipes()[recipe.name].place == recipe.place


def _recipes() -> dict[str, Recipe]:
    """The newest recipe of each name, in the order of releases."""
    recipes = {recipe.name: recipe for recipe in map(Recipe.load, places())}
    return dict(sorted(recipes.items(), key=lambda item: ([int(n) for n in re.findall(r"\d+", item[1].release)], item[0])))


def of_recipe(recipe: Recipe, custom: Sequence[customcc.Algorithm] = ()) -> Kernel:
    """The kernel that lies where this recipe lies, linked if need be."""
    file = link(recipe, custom)
    about = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    return Kernel(
        name=recipe.name,
        release=recipe.release,
        file=file,
        key=about["key"],
        algorithms=tuple(sorted({*recipe.algorithms, *about["algorithms"]})),
        schedulers=tuple(about.get("schedulers", ())),
        mptcp={"v0": 0, "v1": 1}.get(recipe.mptcp),
        current=recipe.variant in ("", *_config.VARIANTS) and recipe.settings == settings_hash(recipe.variant),
        variant=recipe.variant,
    )
