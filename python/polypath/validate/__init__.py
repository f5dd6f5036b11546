"""Holds the simulator against measurements of real Linux kernels.

`run` takes a summary.csv, simulates the set-up behind each of its runs and gives a verdict a cell;
`validate` is the command around it. Nothing here knows a measured figure: names of runs are parsed
into set-ups, and the figures come from the file.
"""

from polypath.validate._command import validate
from polypath.validate._ids import Setup, UnknownRunError, parse
from polypath.validate._judge import Verdict
from polypath.validate._run import Selection, run
from polypath.validate._scenario import build
from polypath.validate._show import to_json, to_markdown
from polypath.validate._table import Cell, TableError, read

__all__ = [
    "Cell",
    "Selection",
    "Setup",
    "TableError",
    "UnknownRunError",
    "Verdict",
    "build",
    "parse",
    "read",
    "run",
    "to_json",
    "to_markdown",
    "validate",
]
