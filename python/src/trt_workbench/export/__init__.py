"""`export`: the figures of a run in the forms that other tools read.

In: a run directory. Out: `records.parquet`, or the figures (`figures.py`) for Bencher or
github-action-benchmark (`formats.py`).

    run directory ─► figures with intervals ─► one file a format, read back before it counts as written
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
