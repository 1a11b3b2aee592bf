"""`setup-tensorrt`, `build-ort`, `doctor` and `backends`: what a machine has, what it lacks, and how to get it.

In: `run.setup_tensorrt`, `ort_build.py`, `doctor.examine`. Out: libraries under extern/, with their origin.
"""
