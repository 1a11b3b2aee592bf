"""Triton's configuration of a model, and of an ensemble around a detector: the values of `config.pbtxt`, their text.

The text is written and parsed by Triton's own protocol buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trt_workbench import __version__
from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.preparation import Preparation
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.launcher import package
from trt_workbench.vision import recognise
from trt_workbench_serving.backends.datatypes import PROTOCOL
from trt_workbench_serving.settings import TritonSettings
from trt_workbench_serving.sources import TritonSource
from trt_workbench_serving.steps import BOXES, COUNT, IMAGE, LABELS, SCORES, SIZE, detector_document

Config = dict[str, Any]
HEAD = "# Written by `trtw export-triton`.\n"


def model_config(name: str, source: TritonSource, settings: TritonSettings) -> Config:
    """Return the configuration of a plan or model.

    Raises:
        UsageProblem: a setting does not fit the model.
    """
    _check(source, settings)
    step = {"trtw.step": "onnx"} if settings.python else {}
    config: Config = {
        "name": name,
        "backend": "tensorrt" if source.plan else "python" if settings.python else "onnxruntime",
        "max_batch_size": source.most,
        "input": [_tensor(spec, source, is_input=True) for spec in source.inputs],
        "output": [_tensor(spec, source, is_input=False) for spec in source.outputs],
        "instance_group": [_instances(source, settings)],
        "parameters": _parameters({"trtw.version": __version__, **step, **source.facts}),
    }
    if source.plan or not settings.python:
        config["default_model_filename"] = next(iter(source.files)).partition("/")[0]
    if source.by_capability:
        config["cc_model_filenames"] = dict(source.by_capability)
    if source.is_batched and settings.batching:
        config["dynamic_batching"] = dynamic_batching(settings)
    if settings.warmup and not source.unsized():  # a size that is guessed may be none that the model takes
        config["model_warmup"] = [_warmup(source, rows) for rows in sorted({source.smallest(), max(source.most, 1)})]
    if settings.cuda_graphs:
        config["optimization"] = {"cuda": {"graphs": True, "graph_spec": _graphs(source)}}
    return config


def step_config(
    name: str,
    inputs: Sequence[Config],
    outputs: Sequence[Config],
    step: str,
    document: str,
    settings: TritonSettings,
    most: int,
) -> Config:
    """Return the configuration of a step that our package executes in the Python backend."""
    return {
        "name": name,
        "backend": "python",
        "max_batch_size": most,
        "input": list(inputs),
        "output": list(outputs),
        "instance_group": [{"kind": "KIND_CPU", "count": settings.instances}],
        "dynamic_batching": dynamic_batching(settings),
        "parameters": _parameters({"trtw.version": __version__, "trtw.step": step, "trtw.document": document}),
    }


def dynamic_batching(settings: TritonSettings) -> Config:
    """Return how requests are put together."""
    preferred = {"preferred_batch_size": sorted(settings.preferred)} if settings.preferred else {}
    return {**preferred, "max_queue_delay_microseconds": settings.delay_us}


@dataclass(frozen=True)
class Ensemble:
    """The models around a detector: the configurations of both steps and of the whole, and the classes' names."""

    letterbox: Config
    boxes: Config
    whole: Config
    names: tuple[str, ...] | None


def make_ensemble(name: str, source: TritonSource, preparation: Preparation, settings: TritonSettings) -> Ensemble:
    """Return the models around a detector.

    Raises:
        UsageProblem: the model is no detector of boxes, or nobody says how its images are prepared.
    """
    family = recognise(source.inputs, source.outputs, dict(source.metadata), preparation)
    if family.task != "boxes":
        raise UsageProblem(f"--ensemble writes boxes, and the model finds {family.task} (family {family.name}).")
    if family.constants(1):
        raise UsageProblem(f"--ensemble feeds only images, and family {family.name} takes the images' sizes, too.")
    transform, image = family.preparation(), source.inputs[0]
    thresholds = {"conf": settings.conf, "iou": settings.iou, "max_dets": settings.max_dets}
    document = detector_document(source.inputs, source.outputs, dict(source.metadata), preparation, **thresholds)
    encoded = {"name": IMAGE, "data_type": "TYPE_STRING", "dims": [1]}
    prepared = {"name": image.name, "data_type": data_type(image.dtype), "dims": list(transform.shape)}
    size = {"name": SIZE, "data_type": "TYPE_INT32", "dims": [2]}
    found = [
        {"name": one.name, "data_type": data_type(one.dtype), "dims": [-1 if d is None else d for d in one.shape[1:]]}
        for one in source.outputs
    ]
    most = settings.max_dets
    boxes: list[Config] = [
        {"name": BOXES, "data_type": "TYPE_FP32", "dims": [most, 4]},
        {"name": SCORES, "data_type": "TYPE_FP32", "dims": [most]},
        {"name": LABELS, "data_type": "TYPE_INT64", "dims": [most]},
        {"name": COUNT, "data_type": "TYPE_INT32", "dims": [1]},
    ]
    steps = {"letterbox": f"{name}_letterbox", "boxes": f"{name}_boxes"}
    return Ensemble(
        step_config(steps["letterbox"], [encoded], [prepared, size], "letterbox", document, settings, source.most),
        step_config(steps["boxes"], [*found, size], boxes, "boxes", document, settings, source.most),
        {
            "name": f"{name}_detector",
            "platform": "ensemble",
            "max_batch_size": source.most,
            "input": [encoded],
            "output": boxes,
            "ensemble_scheduling": {
                "step": [
                    _step(steps["letterbox"], {IMAGE: IMAGE}, {image.name: "prepared", SIZE: "size"}),
                    _step(name, {image.name: "prepared"}, {one.name: f"found {one.name}" for one in source.outputs}),
                    _step(
                        steps["boxes"],
                        {**{one.name: f"found {one.name}" for one in source.outputs}, SIZE: "size"},
                        {one["name"]: one["name"] for one in boxes},
                    ),
                ]
            },
        },
        family.names,
    )


def _step(model: str, inputs: dict[str, str], outputs: dict[str, str]) -> dict[str, Any]:
    return {"model_name": model, "model_version": -1, "input_map": inputs, "output_map": outputs}


def data_type(dtype: str) -> str:
    """Return Triton's name of a type. Raises UsageProblem for one that it lacks."""
    if dtype not in PROTOCOL:
        raise UsageProblem(f"Triton has no tensors of {dtype}.")
    return f"TYPE_{PROTOCOL[dtype]}"


def _check(source: TritonSource, settings: TritonSettings) -> None:
    if not source.is_batched and (settings.preferred or settings.ensemble):
        option = "--preferred" if settings.preferred else "--ensemble"
        raise UsageProblem(f"{option} needs batches, and the first dimension of the model is not dynamic.")
    if settings.preferred and not settings.batching:
        raise UsageProblem("--preferred applies to the batches that --no-batching switches off.")
    if settings.preferred and max(settings.preferred) > source.most:
        raise UsageProblem(f"--preferred {max(settings.preferred)} is beyond the largest batch, {source.most}.")
    if settings.cuda_graphs and not source.plan:
        raise UsageProblem("--cuda-graphs applies to TensorRT plans.")
    if settings.cuda_graphs and any(profile.values for profile in source.profiles):
        raise UsageProblem("--cuda-graphs needs shapes that do not depend on the values of inputs.")


def _tensor(spec: TensorSpec, source: TritonSource, *, is_input: bool) -> Config:
    dims = [-1 if dim is None else dim for dim in (spec.shape[1:] if source.is_batched else spec.shape)]
    tensor: Config = {"name": spec.name, "data_type": data_type(spec.dtype), "dims": dims or [1]}
    if not dims:
        tensor["reshape"] = {"shape": []}
    if is_input and any(spec.name in profile.values for profile in source.profiles):
        tensor["is_shape_tensor"] = True
    return tensor


def _instances(source: TritonSource, settings: TritonSettings) -> Config:
    kind = "KIND_GPU" if source.plan else "KIND_CPU" if settings.python else "KIND_AUTO"
    several = len(source.profiles) > 1
    profiles = {"profile": [str(index) for index in range(len(source.profiles))]} if several else {}
    return {"kind": kind, "count": settings.instances, **profiles}


def _warmup(source: TritonSource, rows: int) -> Config:
    inputs = {}
    for spec in source.inputs:
        # numbers that are indices stay within every table
        filled = "random_data" if spec.dtype.startswith("float") else "zero_data"
        inputs[spec.name] = {
            "data_type": data_type(spec.dtype),
            "dims": list(source.best(spec.name, rows)),
            filled: True,
        }
    return {"name": f"batch of {rows}", "batch_size": rows, "inputs": inputs}


def _graphs(source: TritonSource) -> list[Config]:
    """Return what is captured, once each: of every profile batches of 1, powers of two and its largest, at its shapes.

    Where a specification names a shape, the server wants those of all inputs.
    """
    start = 1 if source.is_batched else 0
    is_dynamic = any(None in spec.shape[start:] for spec in source.inputs)
    made: list[Config] = []
    for profile in source.profiles:
        opt = {spec.name: profile.shapes[spec.name].opt for spec in source.inputs if spec.name in profile.shapes}
        shapes = {spec.name: {"dim": list(opt.get(spec.name, spec.shape)[start:])} for spec in source.inputs}
        rows = source.rows(profile)
        powers = {2**power for power in range(source.most.bit_length())}
        for size in sorted(powers.intersection(rows) | set(rows[-1:])):
            spec = {"batch_size": size, **({"input": shapes} if is_dynamic else {})}
            if spec not in made:
                made.append(spec)
    return made


def _parameters(values: Mapping[str, str]) -> Config:
    return {key: {"string_value": value} for key, value in values.items()}


def require_format() -> None:
    """Raise ComponentMissing where tritonclient is absent, which has Triton's protocol buffers."""
    try:
        import tritonclient.grpc.model_config_pb2  # noqa: F401
    except (ImportError, RuntimeError) as error:  # it raises the latter where a library that it needs is absent
        raise ComponentMissing(
            "export-triton writes Triton's configuration by tritonclient, which cannot be imported "
            f"({error.__cause__ or error}). "
            f"{package('tritonclient')}"
        ) from error


def text_of(config: dict[str, Any]) -> str:
    """Return a configuration as text, which was parsed again.

    Raises:
        UsageProblem: Triton's format does not take a value.
    """
    from google.protobuf import json_format, text_format  # type: ignore[import-untyped]
    from tritonclient.grpc import model_config_pb2

    try:
        message = json_format.ParseDict(config, model_config_pb2.ModelConfig())
        text: str = HEAD + text_format.MessageToString(message, as_utf8=True)
    except (json_format.ParseError, ValueError, TypeError) as error:
        raise UsageProblem(f"Triton's configuration of {config.get('name')} cannot be written: {error}") from error
    again = text_format.Parse(text, model_config_pb2.ModelConfig())
    if again != message:
        raise AssertionError(text)
    return text
