"""`check-target`: whether a model can be compiled for RTX cards that this machine does not have, by TensorRT-RTX.

In: `run.check_targets`. Out: `document.py`: the engine's layers, or the layer, operator and type that stop it.

The compiler (`rtx.py`) runs in a worker process, whose crash is a result.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
