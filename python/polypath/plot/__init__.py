"""Figures from tables and scenarios: Altair and one drawing of our own. Takes tables, gives text;
never touches the disk.
"""

from ._captures import progress, size_histogram
from ._charts import Marks, goodput_bars, over_time
from ._deviations import deviations
from ._differences import differences
from ._drawers import Drawing
from ._export import KINDS, Figure, drawn_as, inline, pictures
from ._fairness import harm_matrix, share_dots
from ._paper import PAPER_KINDS, PaperKind, paper, paper_over_time
from ._theme import INK
from ._topology import topology

__all__ = [
    "INK",
    "KINDS",
    "PAPER_KINDS",
    "Drawing",
    "Figure",
    "Marks",
    "PaperKind",
    "deviations",
    "differences",
    "drawn_as",
    "goodput_bars",
    "harm_matrix",
    "inline",
    "over_time",
    "paper",
    "paper_over_time",
    "pictures",
    "progress",
    "share_dots",
    "size_histogram",
    "topology",
]
