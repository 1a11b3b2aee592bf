"""`decide`: a model in every precision on every runtime, scored, measured and judged on one page.

In: `run.DecideRun` of a `DecideRequest`. Out: `document.Decision`.

    model ─► candidates, kept by hash ─┬► eval-coco, each in a process of its own ─► paired loss ─┬► recommendation
                                       └► bench, all files as one model, in turns ─► latency ─────┘

A candidate that fails is a row with its reason. The page is drawn from `decision.json` and the scores' files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
