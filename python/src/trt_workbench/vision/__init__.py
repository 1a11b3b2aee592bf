"""`eval-coco` and `predict`: detectors on images, scored as COCO does.

In: `run.CocoEvaluation` of a `CocoRequest`; `predict.Predictor`. Out: `document.CocoMetrics`, `document.Prediction`.

    reading: decode, letterbox ──► inference: session.run ──► decode, NMS, restore ──► detections, scores

Each arrow is a bounded queue between threads: memory does not grow with the data set. The order in which threads
finish does not reach the scores. A family (`families/`) is how a model's tensors become boxes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
