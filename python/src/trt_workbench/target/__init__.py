"""`check-target`: whether a model can be compiled for RTX cards that are not here, by TensorRT-RTX."""
