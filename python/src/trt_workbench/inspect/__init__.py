"""`inspect`, `inspect-engine` and `partitions`: what a model or engine is, without running it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
