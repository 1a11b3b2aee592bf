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


class TorchWork:
    """Tensors on a GPU for calls of an engine, and work on them before and after one."""

    def __init__(self, device: str) -> None:
        """Take a device by PyTorch's name."""
        import torch

        self._torch, self._device, self._gpu = torch, device, torch.device(device).index

    def tensor(self, array: NDArray[Any]) -> Any:
        """Return a copy on the device."""
        from trt_workbench.backends.torch.onnx_torch.dtypes import as_torch

        return as_torch(array).to(self._device)

    def stream(self) -> Any:
        """Return the stream that PyTorch's work goes to; None without a GPU."""
        return None if self._gpu is None else self._torch.cuda.current_stream(self._gpu)

    def wait(self) -> None:
        """Wait for what PyTorch's stream was given."""
        if self._gpu is not None:
            self._torch.cuda.current_stream(self._gpu).synchronize()

    def taken(self, array: Any) -> Any:
        """Return an array of the core's as a tensor, without a copy."""
        return self._torch.utils.dlpack.from_dlpack(array)

    def before(self, tensor: Any) -> Any:
        """Return a tensor of the same values in memory of its own."""
        return (tensor * 0.5) * 2 if tensor.is_floating_point() else tensor + 0

    def after(self, outputs: Mapping[str, Any]) -> int:
        """Return where the first output is largest, read on the host."""
        first = next(iter(outputs.values()))
        scores = first.softmax(-1) if first.is_floating_point() and first.dim() else first
        return int(scores.argmax().item())

    def arrays(self, outputs: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Return copies on the host; of bfloat16 its bits."""
        torch = self._torch
        bits = {torch.bfloat16: torch.int16}
        return {name: one.view(bits.get(one.dtype, one.dtype)).cpu().numpy() for name, one in outputs.items()}


def torch_work(device: int) -> TorchWork | str:
    """Return PyTorch's work on a CUDA device, else why there is none.

    Args:
        device: index of the CUDA device.
    """
    return TorchWork(f"cuda:{device}") if uploader(device) else "PyTorch is absent, or sees no GPU"
