"""Arrays in a GPU's memory, made by PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray


@runtime_checkable
class DeviceArraySession(Protocol):
    """What a session offers besides `run` if it takes and returns arrays in device memory."""

    def run_on_device(
        self, inputs: Mapping[str, NDArray[Any]], upload: Callable[[NDArray[Any]], Any] | None
    ) -> dict[str, NDArray[Any]]:
        """Execute the model once as `run` does, with its outputs, and its inputs too, in device memory.

        Args:
            inputs: as `run` takes them.
            upload: makes an array in device memory of one on the host; None leaves the inputs on the host.

        Returns:
            The outputs, copied to the host afterwards.

        Raises:
            UsageProblem: as `run`.
            DeviceFailure: the device failed while executing.
        """


def uploader(device: int) -> Callable[[NDArray[Any]], Any] | None:
    """Return what copies an array to a CUDA device, as a tensor of PyTorch; None where PyTorch or its CUDA is absent.

    Args:
        device: index of the CUDA device.
    """
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    from trt_workbench.backends.torch.onnx_torch.dtypes import as_torch

    return lambda array: as_torch(array).to(f"cuda:{device}")
