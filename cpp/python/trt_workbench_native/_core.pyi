"""The extension module. A build without CUDA or TensorRT headers lacks the parts that need them."""

from trt_workbench_native._builder import *  # noqa: F403
from trt_workbench_native._options import *  # noqa: F403
from trt_workbench_native._runner import *  # noqa: F403
from trt_workbench_native._streams import *  # noqa: F403
