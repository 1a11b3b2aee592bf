"""The graphs a causal language model is exported as: modules that trace to plain ONNX operators.

`logits`: one forward pass. `cached`: past keys and values come in, all of them so far go out, one position longer for
every token. `static`: keys and values live in tensors of a fixed length, so that every step has the same shapes.
`step`: the same for a single token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS, ExpertsInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface, causal_mask_function

_EXPM1 = (torch.expm1, Tensor.expm1)
_REPEATS = (torch.repeat_interleave, Tensor.repeat_interleave)

MASKED = -1e4
"""Added to the score of a position that must not be seen: exp gives 0 for it, and fp16 can hold it."""


class _Graph(nn.Module):
    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model


class LogitsGraph(_Graph):
    """input_ids int64 [B,S], attention_mask int64 [B,S] -> logits [B,S,V]."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Run the model once without a cache."""
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits
        return logits


class CachedGraph(_Graph):
    """input_ids [B,S], attention_mask [B,P+S], keys and values [B,H,P,D] by layer -> logits, the same at length P+S."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Run the model on S more tokens after P earlier ones; P may be 0."""
        layers = [_GrowingLayer(*pair) for pair in zip(past[::2], past[1::2], strict=True)]
        return _run(self.model, layers, input_ids=input_ids, attention_mask=attention_mask)


class StaticGraph(_Graph):
    """input_ids [B,S], start int64 [1], keys and values [B,H,C,D] by layer -> logits, the same with S slots written."""

    def forward(self, input_ids: Tensor, start: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Run the model on the tokens of positions start to start+S-1; what lies beyond them is never seen."""
        count = input_ids.shape[1]
        # once for all layers: the runtimes do not see that every layer would compute the same
        row = torch.arange(past[0].shape[-2]) - start
        written = (row >= 0) & (row < count)
        source = row * written  # any row that exists, where nothing is written
        return _run_slots(self.model, input_ids, start, past, written, source)


class StepGraph(_Graph):
    """input_ids [B,1], start int64 [1], keys and values [B,H,C,D] by layer -> logits, the same with a slot written."""

    def forward(self, input_ids: Tensor, start: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Run the model on the token of position start."""
        return _run_slots(self.model, input_ids, start, past, torch.arange(past[0].shape[-2]) == start, None)


def _run_slots(
    model: PreTrainedModel,
    input_ids: Tensor,
    start: Tensor,
    past: tuple[Tensor, ...],
    written: Tensor,
    source: Tensor | None,
) -> tuple[Tensor, ...]:
    """Run the model on keys and values in slots; which of them are written, bool [C], and from which row, int64 [C]."""
    batch, count = input_ids.shape
    written = written[None, None, :, None]
    layers = [_SlotLayer(*pair, start, written, source) for pair in zip(past[::2], past[1::2], strict=True)]
    positions = (torch.arange(count) + start)[None, :].expand(batch, -1)
    # nothing is padded, and what lies ahead is masked by its position; without a mask some models make one of a length
    # that depends on the value of start
    mask = torch.ones((batch, past[0].shape[-2]), dtype=torch.int64)
    return _run(model, layers, input_ids=input_ids, position_ids=positions, attention_mask=mask)


def _run(model: PreTrainedModel, layers: list[CacheLayerMixin], **inputs: Tensor) -> tuple[Tensor, ...]:
    output = model(**inputs, past_key_values=Cache(layers=list(layers)), use_cache=True)
    state = [tensor for layer in layers for tensor in (layer.keys, layer.values) if tensor is not None]
    return (output.logits, *state)


class _Layer(CacheLayerMixin):
    """Keys and values [B,H,T,D] of one layer."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.keys, self.values, self.is_initialized = keys, values, True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do."""

    def get_max_length(self) -> int:
        """Return that there is no maximum."""
        return -1

    def _length(self) -> int:
        assert self.keys is not None
        return self.keys.shape[-2]


class _GrowingLayer(_Layer):
    """Each update appends."""

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        self.keys = torch.cat([self.keys, key_states], dim=-2)
        self.values = torch.cat([self.values, value_states], dim=-2)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._length() + query_length, 0

    def get_seq_length(self) -> int:
        return self._length()


class _SlotLayer(_Layer):
    """Each update writes into the slots from `start` on.

    Every slot takes the row that belongs to it or keeps its own: a gather and a select, which any runtime has, with
    shapes that do not depend on values. Where there is one row, no gather is needed.
    """

    def __init__(self, keys: Tensor, values: Tensor, start: Tensor, written: Tensor, source: Tensor | None) -> None:
        """Take the state, which slots are written, bool [1,1,C,1], and the new row of each, int64 [C] or None."""
        super().__init__(keys, values)
        self._start, self._written, self._source = start, written, source

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        assert self.keys is not None
        assert self.values is not None
        self.keys = torch.where(self._written, self._rows(key_states), self.keys)
        self.values = torch.where(self._written, self._rows(value_states), self.values)
        return self.keys, self.values

    def _rows(self, states: Tensor) -> Tensor:
        return states if self._source is None else states.index_select(2, self._source)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002 - the interface's name
        return self._length(), 0

    def get_seq_length(self) -> int:
        return self._start  # type: ignore[return-value]  # a tensor, as in transformers' own StaticLayer


def traceable_masks(*, padded: bool) -> AbstractContextManager[None]:
    """Let transformers build attention masks by `_mask` while the block runs.

    Args:
        padded: whether sequences of a batch may differ in what they must not see.
    """
    return _registered(ALL_MASK_ATTENTION_FUNCTIONS, "eager", _mask if padded else _mask_of_all)


def traceable_experts() -> AbstractContextManager[None]:
    """Let transformers run mixtures of experts with `_every_expert` while the block runs."""
    return _registered(ALL_EXPERTS_FUNCTIONS, "grouped_mm", _every_expert)


@contextmanager
def _registered(
    functions: AttentionMaskInterface | ExpertsInterface, name: str, function: Callable[..., Any]
) -> Iterator[None]:
    before = functions[name]
    functions.register(name, function)
    try:
        yield
    finally:
        functions.register(name, before)


def _every_expert(module: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Run all experts on all tokens, and add those that the router chose: no shape depends on values.

    Args:
        module: of transformers, with the weights of all experts [E,.,.].
        hidden: [T,H].
        chosen: int64 [T,K], experts of each token.
        weights: [T,K], of those experts.
    """
    output = _expert_linear(module, "gate_up_proj" if module.has_gate else "up_proj", hidden[None])
    output = (module._apply_gate if module.has_gate else module.act_fn)(output)
    output = _expert_linear(module, "down_proj", output)
    experts = torch.arange(output.shape[0])
    share = torch.where(chosen[..., None] == experts, weights[..., None], torch.zeros((), dtype=weights.dtype)).sum(1)
    return (output * share.transpose(0, 1)[..., None]).sum(0).to(hidden.dtype)


def _expert_linear(module: Any, name: str, inputs: Tensor) -> Tensor:
    weight: Tensor = getattr(module, name)
    output = inputs @ (weight if module.is_transposed else weight.transpose(-1, -2))
    return output + getattr(module, f"{name}_bias")[:, None] if module.has_bias else output


class ExportableCalls(TorchFunctionMode):
    """Replaces calls that PyTorch's exporter gets wrong by others. A context manager.

    It adds the rank to a negative dimension of `repeat_interleave` in place, in a constant that other nodes of the
    graph share: every -1, such as that of a `view`, would become another number. It has no `expm1` (Apertus), which is
    2 tanh(x/2) / (1 - tanh(x/2)), exact near 0 as exp(x) - 1 is not.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run `func`."""
        named = dict(zip(("input", "repeats", "dim"), args, strict=False)) | (kwargs or {})
        if func in _REPEATS and named.get("dim") is not None:
            named["dim"] %= named["input"].ndim
            return torch.repeat_interleave(**named)
        if func in _EXPM1 and not kwargs:
            half = torch.tanh(args[0] / 2)
            return torch.where(args[0] < 1, 2 * half / (1 - half), torch.exp(args[0]) - 1)
        return func(*args, **(kwargs or {}))


@contextmanager
def silent_exporter() -> Iterator[None]:
    """Keep PyTorch from printing the whole graph to stdout when an export fails; its log switch does not do that."""
    before = getattr(torch._C, "_jit_onnx_log", None)
    if before is None:
        yield
        return
    torch._C._jit_onnx_log = lambda *_: None
    try:
        yield
    finally:
        torch._C._jit_onnx_log = before


def _mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int | Tensor = 0,
    kv_offset: int = 0,
    mask_function: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = causal_mask_function,
    attention_mask: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    **_: Any,
) -> Tensor:
    """Additive mask [B,1,Q,K] by comparing positions: no vmap, no indexing by tensors, sizes stay dynamic.

    `mask_function` is transformers' own, so that sliding windows and chunks are kept.
    """
    batch = torch.arange(batch_size)[:, None, None, None]
    head = torch.zeros((1, 1, 1, 1), dtype=torch.int64)
    query = (torch.arange(q_length) + q_offset)[None, None, :, None]
    allowed = mask_function(batch, head, query, (torch.arange(kv_length) + kv_offset)[None, None, None, :])
    if attention_mask is not None:
        allowed = allowed & attention_mask[:, None, None, :kv_length].to(torch.bool)
    allowed = allowed.expand(batch_size, -1, q_length, kv_length)
    return torch.where(allowed, torch.zeros((), dtype=dtype), torch.full((), MASKED, dtype=dtype))


def _mask_of_all(*, batch_size: int, attention_mask: Tensor | None = None, **others: Any) -> Tensor:  # noqa: ARG001
    """Additive mask [1,1,Q,K]: the same for all unpadded sequences at one position.

    TensorRT 8.6 fuses softmax(scores + mask) @ values where it knows that Q is 1, and reads a mask [B,1,1,K] wrongly
    for every sequence after the first.
    """
    return _mask(batch_size=1, **others)
