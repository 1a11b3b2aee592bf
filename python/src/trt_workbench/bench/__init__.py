"""`bench` and `compare`: runtimes against one another on the same work, outputs checked, ranked with intervals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
