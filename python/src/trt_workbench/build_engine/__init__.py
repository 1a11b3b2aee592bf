"""`build-engine` and `refit-engine`: from an ONNX model to an engine in the cache, with its manifest.

In: `cli.py` reads settings; `engine/builder.py` builds. Out: a plan and its manifest.

    model ─► cache key ─► a plan whose manifest matches, else: parser, profiles, timing cache ─► plan, manifest, verdict
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
