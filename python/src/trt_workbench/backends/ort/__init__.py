"""ONNX Runtime with its CPU, CUDA and TensorRT providers."""
