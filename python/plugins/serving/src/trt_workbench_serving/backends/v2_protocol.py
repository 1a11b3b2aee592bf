"""What both forms of the Open Inference Protocol, HTTP and gRPC, offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench_serving.backends.tensors import ServedModel


@dataclass(frozen=True)
class ServerFacts:
    """What a server says of itself: its name, its version, and the extensions of the protocol that it has."""

    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True)
class Outputs:
    """What one call gave.

    Attributes:
        arrays: by name.
        version: of the model that answered; "" where the server does not say.
    """

    arrays: dict[str, NDArray[Any]]
    version: str


class V2Protocol(Protocol):
    """Speaks with one server; several threads may at once.

    Every method raises UsageProblem for what the server refuses, DeviceFailure where it fails, is away or too slow.
    """

    def server(self) -> ServerFacts:
        """Return what the server says of itself; the first call."""

    def is_ready(self, name: str, version: str) -> bool:
        """Whether the server can run a model now; `version` is "" for the server's choice."""

    def repository(self) -> list[Mapping[str, Any]]:
        """Return `name`, `state` and `reason` of the models that the server has; empty where it does not say."""

    def describe(self, name: str, version: str) -> ServedModel:
        """Return a model's tensors and configuration."""

    def infer(
        self, name: str, version: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[TensorSpec]
    ) -> Outputs:
        """Run a model once."""

    def close(self) -> None:
        """End the connections."""
