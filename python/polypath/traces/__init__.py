"""What somebody measured of a path, as a link of a study: rate, delay and loss over time."""

from ._csv import KINDS
from ._errors import TraceError
from ._packaged import packaged
from ._read import intervals, objects, read, text_of
from ._samples import FIGURES, Measurement, Sample, lasting
from ._write import as_chances, as_table

__all__ = [
    "FIGURES",
    "KINDS",
    "Measurement",
    "Sample",
    "TraceError",
    "as_chances",
    "as_table",
    "intervals",
    "lasting",
    "objects",
    "packaged",
    "read",
    "text_of",
]
