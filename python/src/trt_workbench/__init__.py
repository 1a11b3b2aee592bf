"""trt-workbench: from an ONNX file to a TensorRT deployment decision that can be trusted."""

import os

__version__ = "0.2.0"

# Libraries read these once, when they are loaded; every process of ours imports this package first. ONNX Runtime's
# telemetry keeps a device's number in the home folder, and Hugging Face's sends what is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# OpenCV refuses a larger image by its header, before a pixel is decoded: 2^27 pixels take 400 MB, and a file of 750 kB
# can ask for 2^30 of them, OpenCV's own limit.
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(2**27))
