"""The extension module. What a build lacks for want of CUDA or TensorRT headers is absent at run time."""

from trt_workbench_native._builder import *  # noqa: F403
from trt_workbench_native._options import *  # noqa: F403
from trt_workbench_native._runner import *  # noqa: F403
from trt_workbench_native._streams import *  # noqa: F403
