"""The tensors that a file has: an ONNX model's by its graph, an engine's by the manifest beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trt_workbench.core.errors import UsageProblem, whole_number
from trt_workbench.core.files import require_file
from trt_workbench.engine.manifest import manifest_path, read_manifest
from trt_workbench.engine.profiles import Profile
from trt_workbench.model.facts import ModelTensor
from trt_workbench.model.opened import Model
from trt_workbench.model.sniff import refuse_other_than_engine

MODEL_SUFFIX = ".onnx"


@dataclass(frozen=True)
class ModelTensors:
    """Inputs and outputs of a file, by name.

    Attributes:
        inputs: that it takes.
        outputs: that it gives.
        profiles: that an engine was built for.
        narrows: whether whole numbers that the model has in 64 bits have 32 there, as engines before TensorRT 10 do.
        is_engine: whether the file is an engine.
        metadata: that the model's exporter wrote.
    """

    inputs: Mapping[str, ModelTensor]
    outputs: Mapping[str, ModelTensor]
    profiles: tuple[Profile, ...] = ()
    narrows: bool = False
    is_engine: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What the file is called in a sentence."""
        return "engine" if self.is_engine else "model"


def read_tensors(path: Path) -> ModelTensors:
    """Return what a model or engine takes and gives. Nothing is loaded for execution.

    Raises:
        UsageProblem: the file cannot be read, or an engine has no manifest.
    """
    if path.suffix == MODEL_SUFFIX:
        facts = Model.open(path).facts
        inputs, outputs = ({one.name: one for one in many} for many in (facts.inputs, facts.outputs))
        return ModelTensors(inputs, outputs, metadata=facts.metadata)
    require_file("engine or model", path)
    manifest = read_manifest(path)
    if manifest is None:
        refuse_other_than_engine(path)
        raise UsageProblem(
            f"What an engine takes stands in its manifest, {manifest_path(path).name}, and there is none. Build the "
            f"engine with build-engine, or check the contract against its ONNX model: {path}"
        )
    inputs, outputs = (
        {
            one.name: ModelTensor(one.name, one.dtype, tuple(None if dim < 0 else dim for dim in one.shape))
            for one in many
        }
        for many in (manifest.inputs, manifest.outputs)
    )
    try:
        profiles = tuple(Profile.model_validate(text) for text in manifest.profiles)
    except ValueError as error:
        raise UsageProblem(f"The engine's manifest has a profile that is none: {manifest_path(path)}") from error
    major = whole_number(manifest.tensorrt_version.split(".")[0])
    narrows, metadata = major is not None and major < 10, manifest.model.metadata
    return ModelTensors(inputs, outputs, profiles, narrows, is_engine=True, metadata=metadata)
