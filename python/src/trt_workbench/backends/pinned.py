"""Page-locked host memory from the CUDA runtime that a provider has already loaded, as numpy arrays."""

from __future__ import annotations

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Any

from trt_workbench.core.cuda_libraries import mapped_file
from trt_workbench.core.device_errors import cuda_error
from trt_workbench.core.errors import ComponentMissing

if TYPE_CHECKING:
    import onnxruntime as ort
    from numpy.typing import NDArray


# cudaMemcpyDeviceToHost
_TO_HOST = 2
# cudaMemcpy2D takes no larger pitch, which the logits of a long text exceed.
_MAX_PITCH = (1 << 31) - 1


class PageableHost:
    """Ordinary memory, for a session whose device is the CPU."""

    kind = "pageable"

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Return an array whose contents are undefined."""
        import numpy as np

        return np.empty(shape, dtype)

    def fetch_at(self, value: ort.OrtValue, dtype: str, index: int) -> NDArray[Any]:  # noqa: ARG002 - the interface's
        """Return a copy of an existing index of the second dimension of a tensor."""
        found: NDArray[Any] = value.numpy()[:, index].copy()
        return found


class PinnedHost:
    """Page-locked memory: the device reads and writes it by DMA, without a staging copy by the driver."""

    kind = "pinned"

    def __init__(self, name: str = "libcudart.so") -> None:
        """Take the CUDA runtime that is open, whichever version a provider was built with.

        Args:
            name: how its file begins.

        Raises:
            ComponentMissing: none is.
        """
        file = mapped_file(name)
        if file is None:
            raise ComponentMissing(f"Page-locked memory needs CUDA's runtime ({name}), which no provider has opened.")
        self._runtime = ctypes.CDLL(file)

    def array(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Return an array whose contents are undefined; its memory is freed with it.

        Raises:
            DeviceFailure: the memory cannot be allocated.
        """
        import numpy as np

        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size == 0:
            return np.empty(shape, dtype)
        address = ctypes.c_void_p()
        # cudaHostAlloc(void** pHost, size_t size, unsigned int flags); 0 is cudaHostAllocDefault
        code = self._runtime.cudaHostAlloc(ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_uint(0))
        if code or not address.value:
            raise cuda_error(code)(
                f"CUDA did not allocate {size} bytes of page-locked memory (error {code}); use a smaller batch."
            )
        block = (ctypes.c_byte * size).from_address(address.value)
        weakref.finalize(block, self._runtime.cudaFreeHost, address)
        return np.frombuffer(memoryview(block), np.dtype(dtype)).reshape(shape)

    def fetch_at(self, value: ort.OrtValue, dtype: str, index: int) -> NDArray[Any]:
        """Return a copy of an existing index of the second dimension of a tensor on the device, in ordinary memory.

        The device's work on the tensor must be done. Nothing else of it is copied.

        Raises:
            DeviceFailure: the copy failed.
        """
        import numpy as np

        rows, length, *inner = value.shape()
        found = np.empty((rows, *inner), dtype)
        if found.size == 0:
            return found
        width = found.nbytes // rows
        pitch = length * width
        first = value.data_ptr() + index % length * width
        if pitch <= _MAX_PITCH:
            self._copy_rows(found.ctypes.data, first, pitch, width, rows)
        else:
            for row in range(rows):
                self._copy_rows(found.ctypes.data + row * width, first + row * pitch, width, width, 1)
        return found

    def _copy_rows(self, target: int, source: int, pitch: int, width: int, rows: int) -> None:
        # cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, kind)
        code = self._runtime.cudaMemcpy2D(
            ctypes.c_void_p(target),
            ctypes.c_size_t(width),
            ctypes.c_void_p(source),
            ctypes.c_size_t(pitch),
            ctypes.c_size_t(width),
            ctypes.c_size_t(rows),
            ctypes.c_int(_TO_HOST),
        )
        if code:
            raise cuda_error(code)(
                f"CUDA failed to copy {width * rows} bytes from the device (error {code}); start a new process."
            )
