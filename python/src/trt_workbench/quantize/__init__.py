"""`quantize` and `sensitivity`: candidates in a lower precision, with the evidence of their calibration."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
