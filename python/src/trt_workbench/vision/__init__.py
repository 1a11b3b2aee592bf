"""`eval-coco` and `predict`: detectors on images. In: a model and images; out: boxes, COCO scores."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
