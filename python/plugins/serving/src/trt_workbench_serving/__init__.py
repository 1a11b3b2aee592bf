"""The plug-in `serving`: models on servers. `backends/` runs them there, `export-triton` makes repositories for Triton.

In: `sources.py` reads plans, manifests and models. `config.py` makes Triton's configuration of them, and that
of the steps around a detector. Out: `run.py` writes folders, whose configuration Triton's own format has parsed.

`steps.py` is what those steps execute in the server: letterbox, boxes, and a model on ONNX Runtime.
"""
