"""`verify`: whether an engine computes what its model says, at every batch and shape.

Its gate asks for the verdict before an engine is measured or scored.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
