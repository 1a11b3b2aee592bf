"""Models that a server runs: `v2.py` is the backend for the Open Inference Protocol (Triton, KServe).

A session takes the ONNX file that the served model was made from, and the URL of the server. The file says what the
model is; the server's own description of its tensors has to fit it. `address.py` reads URLs, `calls.py` ends what takes
too long. `v2_client.py` speaks the protocol by tritonclient. `openai.py` scores language models, by `openai_client.py`.
"""
