"""`bench` and `compare`: runtimes on the same work, their outputs checked, ranked with intervals.

In: `bench_run.prepare_bench`, `regression.changes`. Out: `records.jsonl` (`core/records.py`), a report.

    YAML ─► matrix of points ─► a worker process a runtime; rounds in shuffled order ─► records ─► ranking

A crash, a hang or a lack of memory is a failed record; outputs that do not match those of `ort-cpu` are a wrong one.
Statistics are over repetitions, never over the samples within one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
