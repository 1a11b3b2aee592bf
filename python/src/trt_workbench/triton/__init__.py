"""`export-triton`: a repository of models for Triton, from a plan or a model and what its manifest says.

In: `sources.py` reads plans, manifests and models. `config.py` makes Triton's configuration of them, `ensemble.py` that
of the steps around a detector. Out: `run.py` writes folders, whose configuration Triton's own format has parsed.

`steps.py` is what those steps execute in the server: letterbox, boxes, and a model on ONNX Runtime.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
