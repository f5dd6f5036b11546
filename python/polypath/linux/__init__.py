"""The kernels of the linux engine: Linux as an ordinary process (User-Mode Linux), built once and
kept in the user's cache folder.

Building gives a folder with everything that a link needs; the congestion controls of cc/ are
compiled and linked in afterwards, within seconds, and again whenever they change. Nothing of a
kernel's sources is changed below net/.
"""

from ._build import available, build
from ._config import VARIANTS
from ._errors import KernelError
from ._kernel import Kernel, find, folder, installed, is_there, remove
from ._schedulers import check_schedulers, export_schedulers
from ._selftests import TESTS, selftests
from ._tools import require

__all__ = [
    "TESTS",
    "VARIANTS",
    "Kernel",
    "KernelError",
    "available",
    "build",
    "check_schedulers",
    "export_schedulers",
    "find",
    "folder",
    "installed",
    "is_there",
    "remove",
    "require",
    "selftests",
]
