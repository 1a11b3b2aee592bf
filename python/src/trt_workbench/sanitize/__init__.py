"""`sanitize-onnx`: rewrites of what TensorRT refuses or runs badly (`model/sanitize/`), each proved.

In: `model/sanitize`. Out: an ONNX file and its proof: `parity.check_parity` runs both models on the same inputs.
"""
