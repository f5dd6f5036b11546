"""Many machines: runs go out in chunks to an engine that a lab runs already, and come back as
finished runs. No scheduler of our own.
"""

import lazy_loader

# What stands in __init__.pyi is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
