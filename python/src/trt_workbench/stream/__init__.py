"""`eval-stream`, `check-contract` and `make-contract`: streaming models, chunk by chunk, by their contract."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
