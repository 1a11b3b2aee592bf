"""`verify`: whether an engine computes what its model says, at every batch and shape.

In: `run.verify` of a `VerifyRequest`; `gate.require_verified` before an engine is used. Out: `document.py`, a verdict
in the engine's manifest.

    shapes x inputs ─┬► the target, in several ways ─► outputs ──┬► verdict, diagnosis ─► bisect, workarounds
                     ├► the reference, or a record ─► expected ──┤
                     └► copies with disturbed tensors ─► limits ─┘
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
