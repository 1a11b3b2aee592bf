"""`profile`: time by layer, node and kernel, joined with one another and with the nodes of the ONNX model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
