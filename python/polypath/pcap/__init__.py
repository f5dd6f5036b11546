"""Captures of any program, read and explained: pcap and pcapng, packed or not, one place or
several, TCP and MPTCP of both versions.
"""

from ._analyse import PcapError, analyse, complaints, contents, series_table, subflow_table
from ._segments import Listed, segments

__all__ = ["Listed", "PcapError", "analyse", "complaints", "contents", "segments", "series_table", "subflow_table"]
