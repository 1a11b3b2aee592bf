"""When CUDA loads kernels: all of a module at once, before any process of ours touches the GPU.

CUDA 12.2 and newer load each kernel at its first launch (lazy loading, CUDA programming guide). The first execution
context of a process then runs as fast as the card allows, every later one of the same engine up to a tenth slower
(ResNet-50 at batch 1 on an H200, TensorRT 8.6.0; docs/benchmarks/tensorrt-h200). With eager loading all run alike.
"""

from __future__ import annotations

import os

VARIABLE = "CUDA_MODULE_LOADING"


def load_kernels_eagerly() -> None:
    """Ask CUDA for eager loading in this process and those that it starts, unless the user chose a mode.

    CUDA reads the variable when it is initialised; where other code did that before, its mode stays.
    """
    os.environ.setdefault(VARIABLE, "EAGER")
