"""How wide a text in the figures' font is, so that nothing is drawn over anything else."""

from __future__ import annotations

from collections.abc import Iterable

# Advance widths of Liberation Sans (which are Arial's) in thousandths of the font's size, from the
# space to the tilde.
_WIDTHS = (
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556, 556,
    556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778,
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556, 556, 278, 556,
    556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
)  # fmt: skip
_OTHERS = {"→": 1000, "±": 549, "µ": 576, "–": 556, "·": 333, "×": 584}
# Any other letter; those of Chinese or an emoji are as wide as they are high.
_LETTER, _SQUARE = 700, 1000
_WIDER, _GAP = 1.2, 8
BOLD = 1.09
"""Bold letters are at most so many times as wide."""


def room_of(labels: Iterable[str], size: float, most: float) -> float:
    """Room in px for the labels of an axis, `most` at most, with the gap to the axis.

    Figures are measured in a font that a reader's browser may not have; DejaVu Sans, which many
    take in its place, is wider.
    """
    return min(max((_WIDER * width_of(label, size) for label in labels), default=0.0), most) + _GAP


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Width of a line in px at a size of the font in px."""
    thousandths = 0
    for letter in text:
        code = ord(letter)
        thousandths += _WIDTHS[code - 32] if 32 <= code < 127 else _OTHERS.get(letter) or (_SQUARE if code > 0x2E00 else _LETTER)
    return thousandths * size / 1000 * (BOLD if bold else 1.0)
