"""Profiles: time by layer, node and kernel, joined with one another and with the nodes of the ONNX model."""
