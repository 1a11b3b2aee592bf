"""A model in PyTorch: arrays in, arrays out, on the CPU or a GPU."""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from trt_workbench.backends.base import Session, SessionOptions, check_index, closed
from trt_workbench.backends.torch.common import PRECISIONS, plain_strides, set_tf32, translated
from trt_workbench.core.precision import FORMATS, find

# Operators of ATen that multiply and add, below torch.nn and torch.matmul.
_ARITHMETIC = re.compile(r"^(add|b|badd|addb)?mm$|matmul|conv|dot_product|lstm|gru|rnn|linear|^(add)?mv$|^dot$")
_NAMES = {one.torch: one.name for one in FORMATS if one.torch} | {"float64": "fp64"}


@contextmanager
def watched(counts: Counter[str]) -> Iterator[None]:
    """Count the products that are computed in this thread during the block, by the type of their first floats."""
    with _Watching(counts):
        yield


class _Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._counts = counts

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if _ARITHMETIC.search(func.overloadpacket.__name__):
            tensors = (one for one in _pytree.tree_leaves(args) if isinstance(one, torch.Tensor))
            kind = next((one.dtype for one in tensors if one.dtype.is_floating_point), None)
            if kind is not None:
                name = str(kind).removeprefix("torch.")
                self._counts[_NAMES.get(name, name)] += 1
        return func(*args, **(kwargs or {}))


if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    from trt_workbench.backends.torch.backend import Module
    from trt_workbench.backends.torch.models import TorchModel
    from trt_workbench.model.precision import Precision

Result = TypeVar("Result")


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
        self._model, self._source, self._device, self._tf32 = model, loaded.source, device, options.tf32
        self._channels_last = bool(record.get("channels_last"))
        self._lock: contextlib.AbstractContextManager[Any] = lock or contextlib.nullcontext()
        self._asked = options.precision
        self._is_compiled = "compile" in record
        self._multiplied: Counter[str] | None = None  # None before the first run
        self._held = Counter(_type_name(tensor) for tensor in loaded.module.parameters() if tensor.is_floating_point())
        self._constants = {tensor.data_ptr() for tensor in (*loaded.module.parameters(), *loaded.module.buffers())}

    def _precision(self) -> Precision:
        from trt_workbench.model.graph_types import read_precision
        from trt_workbench.model.precision import Precision, shares_of

        choice = ("tf32",) if self._tf32 and self._device.type == "cuda" else ()
        counts = self._multiplied
        if self._source is None:
            found = Precision(shares_of(self._held), "weights", self._held.total(), "program")
        else:
            found = read_precision(self._source)
            if self._asked != "fp32":
                found = found.held_in(self._asked)
            rows = map(find, found.shares)
            if any(row is None or row.is_quantised for row in rows):  # the values of codes, in floats
                return replace(found, native=0.0, may_choose=choice)
        if counts:
            shares, total = shares_of(counts), counts.total()
            found = replace(found, shares=shares, unit="products", counted=total, source="program")
        return replace(found, may_choose=choice)

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        def fetch(results: Mapping[str, torch.Tensor], taken: set[int]) -> dict[str, NDArray[Any]]:
            return {name: _to_host(result, taken) for name, result in results.items()}

        return self._execute(inputs, fetch)

    def _infer_at(self, inputs: dict[str, NDArray[Any]], name: str, index: int) -> NDArray[Any]:
        def fetch(results: Mapping[str, torch.Tensor], _: set[int]) -> NDArray[Any]:
            check_index(name, results[name].shape, index)
            # on the CPU, too, a copy: a view would keep the whole alive
            found: NDArray[Any] = results[name][:, index].clone().cpu().numpy()
            return found

        return self._execute(inputs, fetch)

    def _execute(
        self,
        inputs: dict[str, NDArray[Any]],
        fetch: Callable[[Mapping[str, torch.Tensor], set[int]], Result],
    ) -> Result:
        """Run the module; `fetch` gets its results by name and the addresses of memory that is not the caller's."""
        import torch

        try:
            with torch.inference_mode(), self._lock:
                run = self._run
                if run is None:  # closed by another thread since the check
                    raise closed()
                set_tf32(self._tf32)
                tensors = [self._to_device(array) for array in inputs.values()]
                with self._watching():
                    results = run(*tensors)
                taken = {tensor.data_ptr() for tensor in tensors} | self._constants
                names = (spec.name for spec in self.outputs)
                return fetch(dict(zip(names, results, strict=True)), taken)
        except Exception as error:
            shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in inputs.items())
            if problem := translated(error, f"PyTorch cannot run the model with {shapes}", self._model):
                raise problem from error
            raise

    def _watching(self) -> contextlib.AbstractContextManager[None]:
        """Count the products of the first run; compiled code calls no countable operators."""
        if self._multiplied is not None or self._is_compiled:
            return contextlib.nullcontext()

        self._multiplied = Counter()
        return watched(self._multiplied)

    def _to_device(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        if self._device.type == "cuda":
            # page-locked, so that the copy is a DMA transfer; PyTorch keeps such blocks for the next run
            staged = torch.empty(array.shape, dtype=_torch_dtype(array), pin_memory=True)
            staged.numpy()[...] = array
            tensor = staged.to(self._device, non_blocking=True)
        else:
            tensor = torch.from_numpy(plain_strides(array) if array.flags.writeable else array.copy())
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


def _type_name(tensor: torch.Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    return next((known for known, dtype in PRECISIONS.items() if dtype == name), name)


def _torch_dtype(array: NDArray[Any]) -> torch.dtype:
    import torch

    return torch.from_numpy(array[:0] if array.ndim else array.copy()).dtype
