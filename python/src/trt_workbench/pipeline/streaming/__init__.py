"""Streaming encoders on every backend: the contract of a model's tensors, state and chunks, and its use."""
