"""trt-workbench: from an ONNX file to a TensorRT deployment decision that can be trusted."""

__version__ = "0.1.0"
