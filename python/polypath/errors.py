"""What every error of the package is: a sentence for the person who can mend it."""

from __future__ import annotations

from typing import ClassVar


class PolypathError(Exception):
    """Its text is one sentence that says who must do what. The command line prints it and ends with the status."""

    exit_status: ClassVar[int] = 2
