"""The playground: the simulator as a web page. What the page takes from Python, and who serves it.

The page itself is in web/ and the simulator's module in crates/web; `make playground` puts all of
it into the folder `SITE`.
"""

from ._declared import declared
from ._errors import PlayError
from ._serve import SITE, other_build, serve

__all__ = ["SITE", "PlayError", "declared", "other_build", "serve"]
