"""TF32 where a runtime has no switch of its own: NVIDIA's variable for the whole process."""

from __future__ import annotations

import os

from trt_workbench.core.cuda_libraries import mapped_file
from trt_workbench.core.errors import UsageProblem

# Read by CUDA's libraries when they start, and by TensorRT when it is opened: 0 forbids TF32, whatever is asked for.
VARIABLE = "NVIDIA_TF32_OVERRIDE"
_READERS = ("libnvinfer.so", "libtensorrt_rtx.so")


def forbid_tf32() -> str:
    """Forbid TF32 for this process. Returns the words for the record.

    Raises:
        UsageProblem: the variable says otherwise, or TensorRT has read it already.
    """
    if VARIABLE not in os.environ and (opened := next(filter(None, map(mapped_file, _READERS)), None)):
        raise UsageProblem(
            f"TF32 should be off, but this process has opened TensorRT, which then read {VARIABLE}. Load the model in "
            f"a new process, set {VARIABLE}=0 before this one starts, or request TF32: {opened}"
        )
    chosen = os.environ.setdefault(VARIABLE, "0")
    if chosen != "0":
        raise UsageProblem(f"TF32 should be off, but {VARIABLE} is {chosen!r}; unset it or set it to 0.")
    return f"off by {VARIABLE}=0, for the whole process"


def check_tf32_allowed() -> None:
    """Raise UsageProblem if TF32 was asked for and the process forbids it."""
    if os.environ.get(VARIABLE) == "0":
        raise UsageProblem(
            f"TF32 was requested, but {VARIABLE}=0 forbids it in this process; unset it and start again."
        )
