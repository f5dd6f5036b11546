"""Analysis maps tables to tables: bounds, what limited a flow, confidence, published beside
measured, claims. Never touches the disk.
"""

import lazy_loader

# What stands in __init__.pyi is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
