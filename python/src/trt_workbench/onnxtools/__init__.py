"""Reading and changing ONNX files."""
