"""TensorRT engines as sessions, by the native core."""
