"""The report: one self-contained page from a study and its tables.

Fixed words stand in `page.html.j2` and `pcap.html.j2`; sentences made from numbers in `_headlines`
and `_against` ("What came out"), `_claims`, `_answers`, `_fairness`, `_events`, `_compare`,
`_notes`, `_segments`, `_timing` and `_page`, those of captures in `_pcap`; what a column
means in `_tables`. What limited a flow, and why, comes from `analysis._limits` and
`analysis._causes`.
"""

import lazy_loader

# What stands in __init__.pyi is loaded when it is asked for: figures take longer to load than most
# commands to run.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
