"""What every error of the package is: a sentence for the person who can mend it."""

from __future__ import annotations

import re
from typing import ClassVar


class PolypathError(Exception):
    """Its text is one sentence that says who must do what. The command line prints it and ends with
    the status.
    """

    exit_status: ClassVar[int] = 2


# Control characters but the end of a line and the tab; what reverses the direction of text; halves
# of characters.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with what would steer a terminal, or reorder what one reads, written out: \\x1b."""
    return _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)
