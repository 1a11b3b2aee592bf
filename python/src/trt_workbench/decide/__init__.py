"""`decide`: a model in every precision on every runtime, scored, measured and judged on one page."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
