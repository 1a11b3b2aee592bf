"""ONNX operator sets that language models are exported at. Imports nothing: the command line needs the bounds early."""

# Newest operator set that the parser of a TensorRT release reads in full and that PyTorch's tracing exporter writes.
OPSETS = {"8.6": 17, "10": 20, "11": 20}
OLDEST_OPSET, NEWEST_OPSET = 14, 20
DEFAULT_OPSET = OPSETS["8.6"]
