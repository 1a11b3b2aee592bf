"""trt-workbench: from an ONNX file to a TensorRT deployment decision that can be trusted."""

import os

__version__ = "0.1.0"

# OpenCV reads this once, when it is loaded, and refuses a larger image by its header, before a pixel is decoded: 2^27
# pixels take 400 MB, and a file of 750 kB can ask for 2^30 of them, OpenCV's own limit.
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(2**27))
