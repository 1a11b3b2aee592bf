"""`profile`: time by layer, node and kernel, joined with one another and with the nodes of the ONNX model.

In: `run.profile` of a `ProfileRequest`. Out: `document.py`, a report; `difference.py` compares two profiles.

    session with the runtime's own profiler ─► times by layer ─┬► records ─► report
    nsys, ncu on a process of its own ─► kernels ──────────────┘

Two profiles are compared by the ONNX nodes that their operations share.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
