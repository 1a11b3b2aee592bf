"""The opened ONNX model (`Model.open`), and what changes or cuts graphs.

A file is parsed, checked and hashed once a process; everything else takes the `Model`.
"""
