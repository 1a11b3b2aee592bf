"""`setup-tensorrt`, `build-ort`, `doctor` and `backends`: what a machine has, lacks, and how it gets it."""
