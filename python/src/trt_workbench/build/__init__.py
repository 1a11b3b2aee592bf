"""`build-engine` and `refit-engine`: from an ONNX model to an engine in the cache, with its manifest."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
