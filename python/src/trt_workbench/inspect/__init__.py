"""`inspect` and `partitions`: what a model or engine is, without running it.

In: `model_facts.py`, `engine/inspection.py`, `backends/ort/partitions.py`. Out: tables, or JSON on stdout.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
