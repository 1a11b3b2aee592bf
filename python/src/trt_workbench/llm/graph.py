"""Export a causal language model to ONNX: one file per graph, large weights in a file next to it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import onnx

from trt_workbench.backends.torch.llm_model import REFUSALS
from trt_workbench.core.device_errors import device_error, device_message
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import scratch_folder
from trt_workbench.model.opsets import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET
from trt_workbench.model.weights import weight_bytes

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

GraphKind = Literal["logits", "cached", "static", "step"]
GRAPHS: tuple[GraphKind, ...] = get_args(GraphKind)
SLOTTED: tuple[GraphKind, ...] = ("static", "step")
"""Graphs whose keys and values have a fixed length."""

# protobuf holds 2 GiB; the graph itself needs some of it
INLINE_LIMIT_BYTES = 2_000_000_000

# Sizes during tracing, all different, so that no two dimensions are taken for one.
_BATCH, _SEQUENCE, _PAST = 2, 7, 5


@dataclass(frozen=True)
class ExportedGraph:
    """An ONNX file that was written.

    Attributes:
        kind: which graph.
        path: the file.
        data: the file with its weights, None if they are inside.
        layers: how many layers keep keys and values.
        cache_length: slots of the keys and values of a static or step graph.
        batch: the batch if it is fixed.
    """

    kind: GraphKind
    path: Path
    data: Path | None
    layers: int
    cache_length: int | None = None
    batch: int | None = None


def state_names(layers: int) -> tuple[list[str], list[str]]:
    """Return the names of the inputs and of the outputs for keys and values, in one order."""
    parts = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    return [f"past_key_values.{part}" for part in parts], [f"present.{part}" for part in parts]


def export_graph(
    model: PreTrainedModel,
    kind: GraphKind,
    path: Path,
    *,
    opset: int = DEFAULT_OPSET,
    cache_length: int | None = None,
    batch: int | None = None,
    inline_limit_bytes: int = INLINE_LIMIT_BYTES,
) -> ExportedGraph:
    """Export one graph of a model that `load_causal_lm` loaded with eager attention.

    Inputs and outputs: `logits` takes input_ids and attention_mask, int64 [batch, sequence], and gives logits, float32
    [batch, sequence, vocabulary]. `cached` takes attention_mask [batch, past + sequence] and, for every layer,
    past_key_values.N.key and .value [batch, heads, past, size], and gives present.N.key and .value as well. `static`
    takes `start`, int64 [1], the position of the first token, instead of a mask, and keys and values of a fixed length.
    `step` is the same for a sequence of 1.

    Args:
        model: in evaluation mode, fp32, on the CPU.
        kind: which graph.
        path: the ONNX file to write; a file of weights gets `.data` appended to its name.
        opset: version of the ONNX operator set.
        cache_length: for `static` and `step`, the longest sequence.
        batch: fix the batch to this; None leaves it dynamic. State that starts on a device needs it fixed.
        inline_limit_bytes: weights above this go into a file of their own.

    Raises:
        UsageProblem: an operator has no ONNX form at this opset, or the model cannot be traced.
        OSError: the file cannot be written.
    """
    import torch

    from trt_workbench.llm import graphs

    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise UsageProblem(f"Opset {opset} is not supported; choose {OLDEST_OPSET} to {NEWEST_OPSET}.")
    slots = cache_length if kind in SLOTTED else None
    if kind in SLOTTED and not slots:
        raise UsageProblem(f"A {kind} graph needs the length of its cache.")
    modules: dict[GraphKind, type[torch.nn.Module]] = {
        "logits": graphs.LogitsGraph,
        "cached": graphs.CachedGraph,
        "static": graphs.StaticGraph,
        "step": graphs.StepGraph,
    }
    module = modules[kind](model)
    rows = batch or _BATCH
    past = [] if kind == "logits" else _example_past(model, kind, rows, slots)
    arguments, names, axes = _example(kind, rows, past)
    if batch:
        axes = {name: {axis: symbol for axis, symbol in dims.items() if axis} for name, dims in axes.items()}
    outputs = ["logits", *state_names(len(past) // 2)[1]]
    path.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(f".{path.name}.", path.parent) as folder, torch.no_grad():
        traced = folder / "traced.onnx"
        with (
            graphs.traceable_masks(padded=kind not in SLOTTED),
            graphs.traceable_experts(),
            graphs.ExportableCalls(),
            graphs.silent_exporter(),
            warnings.catch_warnings(),
        ):
            # the tracer warns of each Python value it makes a constant; the proof after the export decides
            warnings.simplefilter("ignore")
            try:
                torch.onnx.export(
                    module.eval(),
                    arguments,
                    str(traced),  # a Path is taken for a buffer, which holds 2 GiB at most
                    input_names=names,
                    output_names=outputs,
                    dynamic_axes=axes,
                    opset_version=opset,
                    dynamo=False,
                )
            except Exception as error:
                raise _not_exportable(model, kind, opset, error) from error
        try:
            document = onnx.load(traced)
            if slots:
                # state outputs have the shapes of the inputs that they feed; PyTorch
                # loses a batch of 1, which could broadcast
                fed = {tensor.name: tensor.type for tensor in document.graph.input}
                made = {tensor.name: tensor.type for tensor in document.graph.output}
                for before, after in zip(*state_names(len(past) // 2), strict=True):
                    made[after].CopyFrom(fed[before])
            if batch:
                for tensor in document.graph.output:
                    tensor.type.tensor_type.shape.dim[0].dim_value = batch
            properties = {"graph": kind, "model_type": model.config.model_type}
            data = _store(document, traced.with_name(path.name), path, properties, inline_limit_bytes)
        except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            raise _not_exportable(model, kind, opset, error) from error
    return ExportedGraph(kind, path, data, len(past) // 2, slots, batch)


def _example_past(model: PreTrainedModel, kind: GraphKind, batch: int, cache_length: int | None) -> list[Tensor]:
    """Keys and values of a few tokens, or zeros of the static length, in the shapes that the model itself uses."""
    import torch

    tokens = torch.zeros((batch, _PAST), dtype=torch.int64)
    try:
        with torch.no_grad():
            output = model(input_ids=tokens, use_cache=True)
    except REFUSALS as error:
        raise UsageProblem(
            f"transformers cannot run this {model.config.model_type} model with a cache ({error})."
        ) from error
    layers = getattr(getattr(output, "past_key_values", None), "layers", ())
    found = [getattr(layer, part, None) for layer in layers for part in ("keys", "values")]
    past = [tensor.clone() for tensor in found if isinstance(tensor, torch.Tensor) and tensor.ndim == 4]
    if not past or len(past) != len(found):
        raise UsageProblem(
            f"This {model.config.model_type} model keeps other state than keys and values of each layer, so the "
            f"{kind} graph cannot be exported; only logits needs no state."
        )
    if cache_length is None:
        return past
    return [tensor.new_zeros((*tensor.shape[:2], cache_length, tensor.shape[3])) for tensor in past]


def _example(
    kind: GraphKind, batch: int, past: Sequence[Tensor]
) -> tuple[tuple[Tensor, ...], list[str], dict[str, dict[int, str]]]:
    """Return example inputs, their names, and the dynamic dimensions of inputs and outputs."""
    import torch

    tokens = torch.zeros((batch, 1 if kind == "step" else _SEQUENCE), dtype=torch.int64)
    before, after = state_names(len(past) // 2)
    dynamic = {0: "batch"} if kind == "step" else {0: "batch", 1: "sequence"}
    axes: dict[str, dict[int, str]] = {name: dict(dynamic) for name in ("input_ids", "logits")}
    if kind in SLOTTED:
        axes |= {name: {0: "batch"} for name in (*before, *after)}
        return (tokens, torch.tensor([_PAST]), *past), ["input_ids", "start", *before], axes
    axes["attention_mask"] = {0: "batch", 1: "total" if past else "sequence"}
    axes |= {name: {0: "batch", 2: "past"} for name in before} | {name: {0: "batch", 2: "total"} for name in after}
    mask = torch.ones((batch, _SEQUENCE + (_PAST if past else 0)), dtype=torch.int64)
    return (tokens, mask, *past), ["input_ids", "attention_mask", *before], axes


def _store(
    document: onnx.ModelProto, final: Path, path: Path, properties: dict[str, str], inline_limit_bytes: int
) -> Path | None:
    """Write and check the model as `final`, then move it to `path`, large weights in one file next to it if needed."""
    onnx.helper.set_model_props(document, {f"trt_workbench.{key}": value for key, value in properties.items()})
    data_name = f"{path.name}.data"
    external = weight_bytes(document) > inline_limit_bytes
    onnx.save(document, final, save_as_external_data=external, location=data_name if external else None)
    onnx.checker.check_model(str(final), full_check=not external)
    data = path.with_name(data_name)
    if external:
        weights_file = final.with_name(data_name)
        weights_file.chmod(final.stat().st_mode)  # onnx makes it private
        weights_file.replace(data)  # first: the graph without its weights would be a broken model
    else:
        data.unlink(missing_ok=True)
    final.replace(path)
    return data if external else None


def _not_exportable(model: PreTrainedModel, kind: str, opset: int, error: Exception) -> Exception:
    import torch

    what = f"The {kind} graph of this {model.config.model_type} model cannot be exported at opset {opset}"
    text = " ".join(str(error).split())
    if isinstance(error, torch.onnx.errors.UnsupportedOperatorError):
        return UsageProblem(f"{what}: an operator has no ONNX equivalent. {text}")
    if isinstance(error, OSError):
        return error
    if failed := device_error(error):
        return failed(f"{device_message(failed, what, text)}.")
    return UsageProblem(f"{what} ({text or type(error).__name__}).")
