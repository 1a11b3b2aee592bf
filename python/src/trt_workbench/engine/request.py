"""Whether a model can be built as asked: profiles against inputs, formats against TensorRT's release."""

from __future__ import annotations

import shlex
from pathlib import Path

from onnx.defs import onnx_opset_version

from trt_workbench.core.counts import some
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.launcher import task
from trt_workbench.core.precision import names
from trt_workbench.engine.options import BuildSettings
from trt_workbench.engine.profiles import Profile, batch_profile
from trt_workbench.engine.target import Target
from trt_workbench.model.facts import ModelTensor
from trt_workbench.model.opened import Model
from trt_workbench.model.sanitize.opset import TARGET, misread

# From this version on every network is strongly typed: only the graph says what its layers compute in (NvInfer.h).
STRONGLY_TYPED_FROM = 11
# The first release whose parser knows operators that were changed after opset 17 (onnx-tensorrt, operators.md).
_READS_OPSET_18 = 10
# Builder flags of quantised types.
_QUANTIZED = names(lambda one: one.is_quantised and one.is_flag)


def check_request(model: Model, settings: BuildSettings) -> None:
    """Check what can be checked before TensorRT is asked: profiles against inputs, INT8 against scales.

    Raises:
        UsageProblem: the settings do not fit the model.
    """
    facts, path = model.facts, model.path
    if facts.opset > (newest := onnx_opset_version()):  # which TensorRT's parser takes for the newest that it knows
        raise UsageProblem(
            f"The model says operator set {facts.opset}, and the newest of ONNX here is {newest}; install a newer onnx "
            f"if it exists, or export the model again: {path}"
        )
    names = {tensor.name for tensor in facts.inputs}
    for number, profile in enumerate(settings.profiles):
        if unknown := sorted((profile.shapes.keys() | profile.values.keys()) - names):
            raise UsageProblem(
                f"Profile {number} names {some(unknown)}; the model's inputs are {some(sorted(names))}: {path}"
            )
        for tensor in facts.inputs:
            _check_range(path, number, profile, tensor)
    dynamic = [tensor for tensor in facts.inputs if tensor.is_dynamic]
    if dynamic and not settings.profiles:
        shapes = ", ".join(f"{tensor.name} {_shape_text(tensor.shape)}" for tensor in dynamic)
        batch_alone = batch_profile([(tensor.name, tensor.shape) for tensor in facts.inputs], 1)
        short = " or, because only the batch is dynamic, --max-batch N" if batch_alone else ""
        raise UsageProblem(
            f"The model has dynamic inputs ({shapes}); set the range of each with --profile NAME:MIN/OPT/MAX{short}: "
            f"{path}"
        )
    if "int8" in settings.precision and "int8" not in facts.formats and settings.calibration is None:
        raise UsageProblem(
            "INT8 needs scales: give calibration data (--calibration FOLDER, TensorRT 8 and 10) or a model with "
            f"QuantizeLinear and DequantizeLinear nodes: {path}"
        )


def check_formats(model: Model, settings: BuildSettings, target: Target) -> None:
    """Raise UsageProblem if TensorRT lacks a type or has to be allowed it, or reads operators by older rules."""
    facts, version = model.facts, target.tensorrt_version
    release = int(version.split(".")[0]) if version else None
    lacking = [row for row in facts.rows if release is not None and not row.is_built_by(release)]
    if lacking:
        has = (
            f"TensorRT {max(row.tensorrt for row in lacking)} supports it, and "
            if all(row.tensorrt for row in lacking)
            else ""
        )
        raise UsageProblem(
            f"The model uses {' and '.join(row.name for row in lacking)}, which TensorRT {version} does not support; "
            f"{has}ort-cpu runs the model: {model.path}"
        )
    if release is not None and release < _READS_OPSET_18 and (nodes := misread(model.proto)):
        fix = task("sanitize-onnx", shlex.quote(str(model.path)), "--also", "opset-17", "-o", "FILE.onnx")
        raise UsageProblem(
            f"TensorRT {version} would misread {some(nodes, 1)}: it reads opset {facts.opset} by the "
            f"rules of {TARGET}. Write the model in opset {TARGET}: {fix}"
        )
    typed = settings.strongly_typed or release is None or release >= STRONGLY_TYPED_FROM
    if typed or not facts.is_quantized or set(_QUANTIZED) & set(settings.precision):
        return
    kind = next((row.flag for row in facts.rows if row.is_quantised and row.flag), "int8")
    wider = kind if settings.precision == ("fp32",) else f"{kind}+{settings.precision_text}"
    raise UsageProblem(
        f"The model has QuantizeLinear nodes, which TensorRT {version} builds only if their type is allowed; use "
        f"--precision {wider}: {model.path}"
    )


def _check_range(model: Path, number: int, profile: Profile, tensor: ModelTensor) -> None:
    """Raise UsageProblem if a profile leaves out a dynamic input, or gives it a shape that it cannot have."""
    given, shape = profile.shapes.get(tensor.name), tensor.shape
    if given is None and tensor.is_dynamic:
        problem = "gives no range of shapes for"
    elif given is None or shape is None:
        return
    elif len(given.opt) != len(shape):
        problem = f"gives {len(given.opt)} dimensions ({given}) for"
    elif any(
        isinstance(dim, int) and {low, high} != {dim}
        for low, dim, high in zip(given.min, shape, given.max, strict=True)
    ):
        problem = f"changes a fixed dimension ({given}) of"
    else:
        return
    raise UsageProblem(f"Profile {number} {problem} the input {tensor.name} {_shape_text(shape)}: {model}")


def _shape_text(shape: tuple[int | str | None, ...] | None) -> str:
    return "of unknown rank" if shape is None else f"[{', '.join('?' if dim is None else str(dim) for dim in shape)}]"
