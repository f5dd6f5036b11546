"""What Polypath uses of the machine beside itself (`list.tsv`): where each program is, and which Debian package has it.

Whoever needs a program asks `need` for it or lets `run` start it. A name that the list lacks is a mistake in Polypath.
"""

from ._list import DEBIAN, THINGS, Thing
from ._look import ProgramError, find, lacks, missing, need, not_built, packages, run

__all__ = ["DEBIAN", "THINGS", "ProgramError", "Thing", "find", "lacks", "missing", "need", "not_built", "packages", "run"]
