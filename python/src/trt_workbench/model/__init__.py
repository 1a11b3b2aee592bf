"""The opened ONNX model: its path, hash, graph, index and facts, read once a process."""
