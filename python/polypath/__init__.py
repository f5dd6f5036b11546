"""Polypath: a laboratory for multipath transport.

    import polypath

    study = polypath.load("studies/nitk")
    results = polypath.run(study)
    results.runs            # a pandas frame: a row a run and flow
    results.to_polars()     # the same for polars

A study is a frozen value; `polypath.Study(...)` builds one in Python. The guide is in docs/guide.
"""

import lazy_loader

# What stands in __init__.pyi is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
