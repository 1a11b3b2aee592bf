"""Page-locked host memory from the CUDA runtime that a provider has already loaded, as numpy arrays."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Any

from trt_workbench.errors import ComponentMissing, DeviceFailure

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PageableHost:
    """Ordinary memory, for a session whose device is the CPU."""

    kind = "pageable"

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Return an array whose contents are undefined."""
        import numpy as np

        return np.empty(shape, dtype)


class PinnedHost:
    """Page-locked memory: the device reads and writes it by DMA, without a staging copy by the driver."""

    kind = "pinned"

    def __init__(self, cuda_major: int) -> None:
        """Open the CUDA runtime.

        Raises:
            ComponentMissing: it is not there.
        """
        name = f"libcudart.so.{cuda_major}"
        try:
            self._runtime = ctypes.CDLL(name)
        except OSError as error:
            msg = f"Page-locked memory needs {name}, which cannot be opened ({error})."
            raise ComponentMissing(msg) from error

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Return an array whose contents are undefined; its memory is freed with it.

        Raises:
            DeviceFailure: the memory cannot be had.
        """
        import numpy as np

        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        address = ctypes.c_void_p()
        # cudaHostAlloc(void** pHost, size_t size, unsigned int flags); 0 is cudaHostAllocDefault
        code = self._runtime.cudaHostAlloc(ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_uint(0))
        if code or not address.value:
            msg = f"CUDA gave no {size} bytes of page-locked memory (error {code}); use a smaller batch."
            raise DeviceFailure(msg)
        block = (ctypes.c_byte * size).from_address(address.value)
        weakref.finalize(block, self._runtime.cudaFreeHost, address)
        return np.frombuffer(memoryview(block), np.dtype(dtype)).reshape(shape)
