"""`gate`: correctness, score and latency of a model against limits of a file, in one job with one exit code.

In: `config.GateConfig`, a YAML file. Out: `document.GateDocument`, `summary.md`, `junit.xml`, and the run directory of
each check below this one. The checks are `verify`, `eval-coco`, `bench` and `compare` themselves, called from Python.
"""
