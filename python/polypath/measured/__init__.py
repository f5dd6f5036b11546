"""What other tools measured, as results of a study: iperf3, Flent, NeST, and text of `ss`."""

from ._import import study_of, take, without_cc
from ._model import Flow, Measured, Sample, Subflow, named
from ._read import measured

__all__ = ["Flow", "Measured", "Sample", "Subflow", "measured", "named", "study_of", "take", "without_cc"]
