"""A causal language model on PyTorch by transformers: eval-llm's reference, and its torch and torch-compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.base import closed
from trt_workbench.backends.torch.common import PRECISIONS, chosen_device, not_compiled, plain_strides, set_tf32
from trt_workbench.backends.torch.llm_model import REFUSALS, load_causal_lm, quiet_transformers
from trt_workbench.core.device_errors import device_error, device_message
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.variables import wait_policy
from trt_workbench.model.llm_directory import LlmDirectory
from trt_workbench.model.llm_known import imports_of_language_models
from trt_workbench.model.precision import Precision

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

# Options of torch.compile. With fullgraph, what cannot be compiled, or no longer, is an error; else it would run
# uncompiled. Whole sequences get one graph for all lengths, as the uncached loop would compile for each of them. Steps
# replay CUDA graphs ("reduce-overhead"), as TensorRT's do. Prompts of cached generation run uncompiled: transformers
# makes the memory of the cache in the first pass.
_SEQUENCES: dict[str, Any] = {"dynamic": True, "fullgraph": True}
_STEPS: dict[str, Any] = {"dynamic": False, "fullgraph": True, "mode": "reduce-overhead"}


class TorchLlm:
    """A loaded model. `logits` runs it without a cache, `prefill` and `step` with one. A context manager.

    Attributes:
        name: "torch" or "torch-compile".
        precision: of weights and computation.
        parameters: number of weights.
        provenance: what executes the model, for the record.
    """

    def __init__(self, model: PreTrainedModel, *, device: str, precision: str, compiled: bool) -> None:
        """Move a model that `load_causal_lm` loaded in `precision` to `device`; `load_torch_llm` does both.

        Raises:
            DeviceFailure: the device has too little memory.
        """
        import torch

        self.name = "torch-compile" if compiled else "torch"
        self.precision = precision
        with device_errors():
            self._model: Any = model.to(torch.device(device))
        self._device = device
        self._model_type = model.config.model_type
        self.parameters = model.num_parameters()
        self._forward: Any = self._model
        self._compiled_step: Any = None
        if compiled:
            self._forward = torch.compile(self._model, **_SEQUENCES)
            self._compiled_step = torch.compile(self._model, **_STEPS)
        self._cache: Any = None
        self._cache_shape: tuple[int, int] | None = None
        self._position: Any = None
        self._mask: Any = None
        self.provenance: Mapping[str, Any] = {
            "torch": str(torch.__version__),
            "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
            "precision": precision,
            "precision_ran": Precision({precision: 1.0}, "parameters", self.parameters, "program").document(),
            "attention": model.config._attn_implementation,
            "compiled": compiled,
            "compile": {"sequences": _SEQUENCES, "steps": _STEPS, "prompts": None} if compiled else None,
            "tf32": torch.backends.cuda.matmul.allow_tf32,
            "threads": torch.get_num_threads(),
            "omp_wait_policy": wait_policy(),
        }

    def logits(self, input_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Run the model once on whole sequences.

        Args:
            input_ids: int64 [B,S].

        Returns:
            float32 [B,S,V].

        Raises:
            DeviceFailure: the device is out of memory or failed.
        """
        with self._inference():
            return _host(self._logits(input_ids))

    def last_logits(self, input_ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Run the model once on whole sequences [B,S] as `logits` does; fetch only the last position, float32 [B,V].

        Raises:
            DeviceFailure: the device is out of memory or failed.
        """
        with self._inference():
            return _host(self._logits(input_ids)[:, -1])

    def explained(self, input_ids: NDArray[np.int64]) -> str:  # noqa: ARG002 - a graph in a session needs it
        """Return nothing: which inner values leave a format's range is known only for graphs."""
        return ""

    def prefill(self, input_ids: NDArray[np.int64], capacity: int) -> NDArray[np.float32]:
        """Start sequences: forget earlier ones, run the prompt [B,S] and keep its keys and values.

        Args:
            input_ids: int64 [B,S].
            capacity: longest sequence that will be reached, in tokens.

        Returns:
            float32 [B,V], logits of the last position.

        Raises:
            UsageProblem: the architecture keeps no keys and values, or not in the cache that is needed here.
            DeviceFailure: the device is out of memory or failed.
        """
        import torch
        from transformers import DynamicCache

        with self._inference():
            if self._compiled_step is None:
                self._cache = DynamicCache(config=self._model.config)
            elif self._cache_shape == (input_ids.shape[0], capacity):
                self._cache.reset()
            else:
                # of fixed size and kept, so that the step is compiled once
                self._cache = _static_cache(self._model.config, capacity)
                self._cache_shape = (input_ids.shape[0], capacity)
                # no token is padding: without it OPT makes a mask whose size PyTorch 2.11 cannot compile
                self._mask = torch.ones(self._cache_shape, dtype=torch.int64, device=self._device)
            self._position = torch.full((1, 1), input_ids.shape[1], device=self._device)
            output = self._model(input_ids=self._to_device(input_ids), past_key_values=self._cache, use_cache=True)
            if getattr(output, "past_key_values", None) is None:  # it ignored the cache; every step would start over
                raise self._no_cache()
            return _host(output.logits[:, -1])

    def step(self, tokens: NDArray[np.int64]) -> NDArray[np.float32]:
        """Append one token [B] to every sequence and return the logits [B,V] after it.

        Raises:
            UsageProblem: nothing was started.
            DeviceFailure: the device is out of memory or failed.
        """
        if self._cache is None:
            raise UsageProblem("A sequence starts with prefill; there is nothing to append to.")
        with self._inference():
            inputs = {"input_ids": self._to_device(tokens[:, None]), "past_key_values": self._cache, "use_cache": True}
            if self._compiled_step is None:
                return _host(self._model(**inputs).logits[:, -1])
            logits = self._compiled_step(**inputs, position_ids=self._position, attention_mask=self._mask).logits
            self._position = self._position + 1
            return _host(logits[:, -1])

    def memory_bytes(self) -> dict[str, int]:
        """Return the most device memory in use so far; empty on the CPU."""
        import torch

        if not self._device.startswith("cuda"):
            return {}
        return {"device_peak": int(torch.cuda.max_memory_allocated(self._device))}

    def close(self) -> None:
        """Release the model and its memory."""
        import torch

        if self._compiled_step is not None:
            torch.compiler.reset()  # compiled code counts against the next model of this class, and keeps CUDA graphs
        self._model = self._forward = self._compiled_step = self._cache = None
        if self._device.startswith("cuda"):
            torch.cuda.empty_cache()

    def _logits(self, input_ids: NDArray[np.int64]) -> Tensor:
        logits: Tensor = self._forward(input_ids=self._to_device(input_ids), use_cache=False).logits
        return logits

    def _to_device(self, array: NDArray[np.int64]) -> Tensor:
        import torch

        return torch.from_numpy(plain_strides(array)).to(self._device)

    @contextmanager
    def _inference(self) -> Iterator[None]:
        import torch

        if self._model is None:
            raise closed()
        # not inference_mode: compiled graphs of the cached step update tensors that were made outside of it
        with torch.no_grad(), quiet_transformers():
            try:
                with device_errors():
                    yield
            except Exception as error:
                if why := not_compiled(error):
                    raise UsageProblem(
                        f"torch-compile cannot run this {self._model_type} model in this way: {why}. Omit "
                        "torch-compile here; torch runs the model uncompiled."
                    ) from error
                if not isinstance(error, REFUSALS):
                    raise
                raise UsageProblem(
                    f"transformers cannot run this {self._model_type} model in this way ({_first_line(error)})."
                ) from error

    def _no_cache(self) -> UsageProblem:
        return UsageProblem(
            f"This {self._model_type} model accepts no cached keys and values, so it cannot generate with a cache; "
            "omit generate-cached."
        )


def load_torch_llm(
    directory: LlmDirectory,
    *,
    device: str = "auto",
    precision: str = "fp32",
    compiled: bool = False,
    threads: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> TorchLlm:
    """Load a model for running.

    Args:
        directory: a checked folder.
        device: "cpu", "cuda", "cuda:1", or "auto" for a GPU where there is one.
        precision: "fp32" (without TF32), "fp16" or "bf16".
        compiled: compile it; the first calls take long.
        threads: processors that PyTorch may use, in the whole process; None leaves that unchanged.
        note: called with what the user should know about the checkpoint.

    Raises:
        ComponentMissing: torch or transformers is missing, or the device is.
        UsageProblem: the precision is unknown, or the model cannot be loaded.
        DeviceFailure: there is not enough memory.
    """
    if precision not in PRECISIONS:
        raise UsageProblem(f"torch runs a language model in {', '.join(PRECISIONS)}, not {precision!r}.")
    with imports_of_language_models():
        import torch
    chosen = chosen_device(None if device == "auto" else device)
    set_tf32(False)
    if threads:
        torch.set_num_threads(threads)
    model = load_causal_lm(directory, "fastest", PRECISIONS[precision], note)
    return TorchLlm(model, device=str(chosen), precision=precision, compiled=compiled)


@contextmanager
def device_errors() -> Iterator[None]:
    """Turn PyTorch's errors of a device that is out of memory or failed into DeviceFailure."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if kind := device_error(error):
            raise kind(f"{device_message(kind, 'PyTorch cannot run the model', _first_line(error))}.") from error
        raise


def _static_cache(config: Any, capacity: int) -> Any:
    """Return a cache of fixed size, every layer with room for all tokens.

    transformers' own layer for a sliding window counts its tokens in Python, so that every step is recompiled. Masks
    keep the window in any case.
    """
    from transformers import StaticCache
    from transformers.cache_utils import StaticLayer, StaticSlidingWindowLayer

    cache = StaticCache(config=config, max_cache_len=capacity)
    cache.layers = [StaticLayer(capacity) if type(one) is StaticSlidingWindowLayer else one for one in cache.layers]
    return cache


def _host(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().cpu().numpy()
    return array


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
