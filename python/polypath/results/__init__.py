"""Results: the store of finished runs, the runner that fills it, and the tables made from it."""

import lazy_loader

# What stands in __init__.pyi is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
