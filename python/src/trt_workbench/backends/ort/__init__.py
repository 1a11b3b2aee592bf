"""ONNX Runtime with its CPU, CUDA, TensorRT and TensorRT-RTX providers."""
