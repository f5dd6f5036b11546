"""Numbers and verdicts as words, one way for the whole page."""

from __future__ import annotations

import math
from typing import Any

MISSING = "–"


def number(value: Any, digits: int = 2) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING
    return f"{float(value):,.{digits}f}"


def mean_ci(value: Any, ci: Any, digits: int = 2) -> str:
    """A mean with its interval; the interval is left out where there is none or it is nothing."""
    text = number(value, digits)
    if text == MISSING or ci is None or not math.isfinite(float(ci)) or float(ci) < 0.5 * 10**-digits:
        return text
    return f"{text} ± {number(ci, digits)}"


def percent(value: Any, digits: int = 1, *, signed: bool = False) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING
    text = f"{100 * float(value):+.{digits}f}" if signed else f"{100 * float(value):.{digits}f}"
    return f"{text.replace('-', '−')} %"


def count(value: Any) -> str:
    return MISSING if value is None or (isinstance(value, float) and not math.isfinite(value)) else f"{round(float(value)):,}"


def several(items: list[str]) -> str:
    """a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def share_of_paths(share: str, paths: str) -> str:
    """A share of what was possible, and of how many paths that is, if not of all that were asked
    for.
    """
    return f"{share}, {paths}" if share and paths else share
