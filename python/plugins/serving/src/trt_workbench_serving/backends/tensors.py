"""Whether a served model is the model of a file, by its tensors; and what its configuration says of batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.documents import Open, key_of
from trt_workbench.core.errors import DeviceFailure, UsageProblem
from trt_workbench_serving.backends.datatypes import NUMPY


class ServedConfig(Open):
    """Triton's configuration of a model, as far as it is read."""

    max_batch_size: int = 0
    dynamic_batching: dict[str, Any] | None = None
    ensemble_scheduling: dict[str, Any] | None = None
    instance_group: tuple[dict[str, Any], ...] = ()
    parameters: Annotated[Mapping[str, Mapping[str, Any]], Field(default_factory=dict)]


@dataclass(frozen=True)
class ServedModel:
    """What a server says of a model.

    Attributes:
        name: of the model.
        version: that answers; "" where the server has none.
        platform: what executes it, such as "tensorrt_plan".
        inputs: its inputs.
        outputs: its outputs.
        config: Triton's configuration; None where the server does not say it.
    """

    name: str
    version: str
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    config: ServedConfig | None = None

    @property
    def largest_batch(self) -> int | None:
        """The most rows of a call; None where the server does not say."""
        return (self.config and self.config.max_batch_size) or None

    @property
    def shares_batches(self) -> bool:
        """Whether calls may share a batch. Without a configuration that is not known, and so it is assumed."""
        if self.config is None:
            return True
        return self.config.dynamic_batching is not None or self.config.ensemble_scheduling is not None

    def record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        config = self.config or ServedConfig(parameters={})
        return {
            "model": self.name,
            "model_version": self.version,
            "platform": self.platform,
            "max_batch_size": self.largest_batch,
            "dynamic_batching": config.dynamic_batching,
            "exported": {
                key: one.get("string_value")
                for key, one in sorted(config.parameters.items())
                if key.startswith("trtw.")
            },
            "instances": [{key: one.get(key) for key in ("kind", "count", "gpus")} for one in config.instance_group],
        }


def read_config(document: Any) -> ServedConfig | None:
    """Return what a server answers for a model's configuration; None where it has none.

    Raises:
        DeviceFailure: it is not of Triton's form.
    """
    if not isinstance(document, dict):
        return None
    try:
        return ServedConfig.model_validate(document)
    except ValidationError as error:
        place = key_of(error.errors()[0])
        raise DeviceFailure(f"The server's configuration of the model is not of Triton's form, at {place}.") from error


def read_tensors(listed: Any, what: str) -> tuple[TensorSpec, ...]:
    """Return the inputs or outputs of a server's metadata.

    Args:
        listed: `name`, `datatype` and `shape` of each.
        what: they are, in messages.

    Raises:
        UsageProblem: a tensor does not hold numbers.
        DeviceFailure: the metadata are not of the protocol's form.
    """
    try:
        # of a scalar gRPC leaves out the shape
        found = [
            (str(one["name"]), str(one["datatype"]), [int(dim) for dim in one.get("shape") or ()]) for one in listed
        ]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise DeviceFailure(
            f"The server's description of its {what} is not that of the protocol ({error!r})."
        ) from error
    for name, datatype, _ in found:
        if datatype not in NUMPY:
            raise UsageProblem(f"The served model has {what} {name} of datatype {datatype}, which holds no numbers.")
    return tuple(
        TensorSpec(name, NUMPY[kind], tuple(dim if dim >= 0 else None for dim in dims)) for name, kind, dims in found
    )


def matched(
    served: Sequence[TensorSpec], of_file: Sequence[TensorSpec], what: str, file: Path, model: str
) -> tuple[TensorSpec, ...]:
    """Return the tensors of a file in its order, with the sizes that the server fixes.

    Args:
        served: as the server describes them.
        of_file: as the file does.
        what: they are: "inputs" or "outputs".
        file: for messages.
        model: the served model, for messages.

    Raises:
        UsageProblem: names, dtypes or shapes differ.
    """
    found = {one.name: one for one in served}
    if found.keys() != {one.name for one in of_file}:
        raise UsageProblem(
            f"The served model {model} has {what} {_listed(served)}, the file {_listed(of_file)}; serve the model of "
            f"this file, or pass the file of that model: {file}"
        )
    return tuple(_merged(one, found[one.name], what, file, model) for one in of_file)


def _merged(own: TensorSpec, there: TensorSpec, what: str, file: Path, model: str) -> TensorSpec:
    fits = len(own.shape) == len(there.shape) and all(
        None in (mine, other) or mine == other for mine, other in zip(own.shape, there.shape, strict=True)
    )
    if own.dtype != there.dtype or not fits:
        raise UsageProblem(f"Of {what}, the served model {model} has {there}, the file has {own}: {file}")
    shape = tuple(other if mine is None else mine for mine, other in zip(own.shape, there.shape, strict=True))
    return replace(own, shape=shape)


def _listed(tensors: Sequence[TensorSpec]) -> str:
    return ", ".join(sorted(one.name for one in tensors)) or "none"
