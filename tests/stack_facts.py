"""What a process of a stack knows: a worker's target, and what a container is asked."""

import os
from typing import Any

from trt_workbench.backends.ort.common import too_old
from trt_workbench.core.workspace import cache_root

VARIABLES = ("NVIDIA_TF32_OVERRIDE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")


def known(_: object) -> dict[str, Any]:
    """Return whether an older ONNX Runtime is taken, where caches are, and the variables that are set."""
    found = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return {"refusal": too_old("1.30.0"), "cache": str(cache_root()), "set": found}
