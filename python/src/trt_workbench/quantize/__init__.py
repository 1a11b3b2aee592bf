"""`quantize` and `sensitivity`: candidates in a lower precision, with the evidence of their calibration.

In: `candidates.make_candidate`, `search.Search`, `sensitivity.measure_sensitivity`. Out: an ONNX file and its
evidence, `document.py`.

    model, data ─► calibrate ─► candidate ─► written, loaded and run compared with its origin
    sensitivity: one group at a time ─► losses ─► search: groups left unchanged until the score is kept
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
