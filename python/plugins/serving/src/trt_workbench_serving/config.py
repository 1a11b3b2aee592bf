"""Triton's configuration of a model: the values of `config.pbtxt`, their text.

The text is written and parsed by Triton's own protocol buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trt_workbench import __version__
from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import ComponentMissing, UsageProblem
from trt_workbench.core.launcher import package
from trt_workbench_serving.backends.datatypes import PROTOCOL
from trt_workbench_serving.settings import TritonSettings
from trt_workbench_serving.sources import TritonSource

Config = dict[str, Any]
HEAD = "# Written by `trtw export-triton`.\n"
# Longest time that a request waits for others.
_DELAY_US = 100


def model_config(name: str, source: TritonSource, settings: TritonSettings) -> Config:
    """Return the configuration of a plan or model.

    Raises:
        UsageProblem: Triton lacks the type of a tensor.
    """
    config: Config = {
        "name": name,
        "backend": "tensorrt" if source.plan else "python" if settings.python else "onnxruntime",
        "max_batch_size": source.most,
        "input": [_tensor(spec, source, is_input=True) for spec in source.inputs],
        "output": [_tensor(spec, source, is_input=False) for spec in source.outputs],
        "instance_group": [_instances(source, settings)],
        "parameters": _parameters({"trtw.version": __version__, **source.facts}),
    }
    if source.plan or not settings.python:
        config["default_model_filename"] = next(iter(source.files)).partition("/")[0]
    if source.by_capability:
        config["cc_model_filenames"] = dict(source.by_capability)
    if source.is_batched:
        config["dynamic_batching"] = {"max_queue_delay_microseconds": _DELAY_US}
    if settings.warmup and not source.unsized():  # a size that is guessed may be none that the model takes
        config["model_warmup"] = [_warmup(source, rows) for rows in sorted({source.smallest(), max(source.most, 1)})]
    return config


def data_type(dtype: str) -> str:
    """Return Triton's name of a type. Raises UsageProblem for one that it lacks."""
    if dtype not in PROTOCOL:
        raise UsageProblem(f"Triton has no tensors of {dtype}.")
    return f"TYPE_{PROTOCOL[dtype]}"


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
    return {"kind": kind, "count": 1, **profiles}


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
