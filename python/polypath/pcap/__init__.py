"""Captures of any program, read and explained: pcap and pcapng, one place or several, TCP and MPTCP of both versions."""

from ._analyse import PcapError, analyse, series_table, subflow_table

__all__ = ["PcapError", "analyse", "series_table", "subflow_table"]
