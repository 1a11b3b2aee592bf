"""`sanitize-onnx`: rewrites of a model, proved against the original."""
