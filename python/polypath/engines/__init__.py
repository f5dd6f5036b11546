"""Engines: what can run a scenario. Each is one small class; nothing here knows tables or files."""

import lazy_loader

# What stands in __init__.pyi is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
