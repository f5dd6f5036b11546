"""What Polypath uses of the machine beside itself (`list.tsv`): where each program is, and which
Debian package has it.

Code that needs a program asks `need` for it or lets `run` start it. A name that the list lacks is a
mistake in Polypath: what Polypath, its build or a test runs stands there with its Debian package.
`tools/machine`, `polypath doctor`, messages and the PATH of the tests come from the list, so a
program without its line fails on every machine. What the environment chooses (`RUSTC_WRAPPER`,
`CC`, `CLANG`) is found too; `POLYPATH_ALSO="mold"` names others.
"""

from ._list import DEBIAN, THINGS, Thing
from ._look import ProgramError, find, lacks, missing, need, not_built, packages, run

__all__ = ["DEBIAN", "THINGS", "ProgramError", "Thing", "find", "lacks", "missing", "need", "not_built", "packages", "run"]
