"""Which class of error a runtime's failure is: by CUDA's number or Python's class, by words only where there are none.

The native core raises its own classes (`engine/native.py`). No other module reads messages for this.
"""

from __future__ import annotations

import re

from trt_workbench.core.errors import DeviceFailure, DeviceLost, OutOfMemory

_OUT_OF_MEMORY = 2
# After these, by CUDA's documentation, every further call of the process returns the same error.
_FOR_GOOD = frozenset({214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 810})
# "CUDA failure 700: an illegal memory access was encountered" of ONNX Runtime
_NUMBER = re.compile(r"cuda (?:failure|error):? (\d+)|cudaerror (\d+)")
_NO_MEMORY = (
    "bad allocation",
    "bad_alloc",
    "failed to allocate",
    "out of memory",
    "cudaerrormemoryallocation",
    "can't allocate memory",
    "not enough memory",
    "status_alloc_failed",
    "pthread_create",  # its stack finds no room
    "can't start new thread",
)
_FAILED = (
    "cuda failure",
    "cudnn failure",
    "cublas failure",
    "cudnn_status",
    "cublas_status",
    "cuda error",
    "cudnn error",
)


def cuda_error(code: int) -> type[DeviceFailure]:
    """Return the class for a cudaError_t that is no success."""
    if code == _OUT_OF_MEMORY:
        return OutOfMemory
    return DeviceLost if code in _FOR_GOOD else DeviceFailure


def device_error(error: BaseException) -> type[DeviceFailure] | None:
    """Return the class for what a runtime raised; None where neither memory nor a device failed."""
    # torch.OutOfMemoryError is none of Python's
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return OutOfMemory
    text = str(error).lower()
    code = getattr(error, "error_code", None)  # of torch.AcceleratorError
    if not isinstance(code, int):
        found = _NUMBER.search(text)
        code = int(found[1] or found[2]) if found else None
    if code:
        return cuda_error(code)
    if any(sign in text for sign in _NO_MEMORY):
        return OutOfMemory
    return DeviceFailure if any(sign in text for sign in _FAILED) else None


def device_message(kind: type[DeviceFailure], what: str, said: str) -> str:
    """Return the sentences for an error of the class: what was tried, what the runtime said and what may help."""
    if kind is OutOfMemory:
        return f"Out of memory. {what} ({said}). Use a smaller batch or fewer runs at once"
    return f"The device failed. {what} ({said}). Start a new process before trying again"
