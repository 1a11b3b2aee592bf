"""A model in PyTorch: arrays in, arrays out, on the CPU or a GPU."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trt_workbench.backends.base import Session, SessionOptions, closed
from trt_workbench.backends.torch_common import set_tf32, translated

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from trt_workbench.backends.torch import Module
    from trt_workbench.backends.torch_models import TorchModel


class TorchSession(Session):
    """A module on a device. `run` may be called from several threads; with a lock, runs take turns."""

    def __init__(
        self,
        run: Module,
        loaded: TorchModel,
        model: Path,
        device: torch.device,
        options: SessionOptions,
        record: Mapping[str, Any],
        lock: threading.Lock | None,
    ) -> None:
        self.inputs, self.outputs = loaded.inputs, loaded.outputs
        self.metadata = loaded.metadata
        self.provenance = dict(record)
        self.concurrency = options.concurrency
        self._run: Module | None = run
        self._model, self._device, self._tf32 = model, device, options.tf32
        self._channels_last = bool(record.get("channels_last"))
        self._lock: contextlib.AbstractContextManager[Any] = lock or contextlib.nullcontext()
        self._constants = {tensor.data_ptr() for tensor in (*loaded.module.parameters(), *loaded.module.buffers())}

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        import torch

        try:
            with torch.inference_mode(), self._lock:
                run = self._run
                if run is None:  # closed by another thread since the check
                    raise closed()
                set_tf32(self._tf32)
                tensors = [self._to_device(array) for array in inputs.values()]
                results = run(*tensors)
                taken = {tensor.data_ptr() for tensor in tensors} | self._constants
                return {spec.name: _to_host(result, taken) for spec, result in zip(self.outputs, results, strict=True)}
        except Exception as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            if problem := translated(error, f"PyTorch cannot run the model with {shapes}", self._model):
                raise problem from error
            raise

    def _to_device(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        if self._device.type == "cuda":
            # page-locked, so that the copy is a DMA transfer; PyTorch keeps such blocks for the next run
            staged = torch.empty(array.shape, dtype=_torch_dtype(array), pin_memory=True)
            staged.numpy()[...] = array
            tensor = staged.to(self._device, non_blocking=True)
        else:
            tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
        if self._channels_last and tensor.ndim == 4:
            tensor = tensor.to(memory_format=torch.channels_last)
        return tensor

    def _close(self) -> None:
        self._run = None


def _to_host(result: torch.Tensor, taken: set[int]) -> NDArray[Any]:
    """Return an array of the caller's own: never the memory of an input, a weight or another output."""
    host = result.cpu()
    if host.data_ptr() in taken:
        host = host.clone()
    taken.add(host.data_ptr())
    array: NDArray[Any] = host.numpy()
    return array


def _torch_dtype(array: NDArray[Any]) -> torch.dtype:
    import torch

    return torch.from_numpy(array[:0] if array.ndim else array.copy()).dtype
