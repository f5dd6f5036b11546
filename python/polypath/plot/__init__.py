"""Figures from tables and scenarios: Altair and one drawing of our own. Takes tables, gives text; never touches the disk."""

from ._charts import goodput_bars, over_time
from ._export import Figure, inline
from ._topology import topology

__all__ = ["Figure", "goodput_bars", "inline", "over_time", "topology"]
