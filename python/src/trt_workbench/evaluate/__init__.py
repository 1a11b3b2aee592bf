"""`eval-coco`, `eval-vision`: the score of one model on one runtime.

In: a model, its data and perhaps `--score`. Out: `metrics.json`.

    without --score: by the model's task, as COCO does (`vision`)
    with --score: a function over samples, run and counted by what scores the rows of `decide` (`quantize`)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
