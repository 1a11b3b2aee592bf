"""`eval-llm` and `export-llm`: causal language models on every backend, compared with PyTorch in fp32."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
