"""C++ core of trt-workbench: builds, inspects and runs TensorRT engines."""

from trt_workbench_native._core import *  # noqa: F403
