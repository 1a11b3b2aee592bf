"""Rewrites of what TensorRT refuses or runs badly, each proved against the original."""
