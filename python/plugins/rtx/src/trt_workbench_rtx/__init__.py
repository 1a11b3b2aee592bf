"""TensorRT-RTX: the command `check-target`, and the backend `ort-rtx`."""
