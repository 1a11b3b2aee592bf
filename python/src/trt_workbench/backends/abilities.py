"""What only some backends can do, each a class that a backend has as a further base: profiles, partitions, scripts."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trt_workbench.backends.base import SessionOptions
    from trt_workbench.backends.profiling import Profiled, ProfiledRuns
    from trt_workbench.model.partitions import PartitionRequest, Partitions


class Profiles(abc.ABC):
    """It says where the time of a model goes."""

    @abc.abstractmethod
    def profile(self, model: Path, options: SessionOptions, runs: ProfiledRuns) -> Profiled:
        """Return the time of each layer or node.

        Args:
            model: of a kind that this backend loads.
            options: of the session.
            runs: what to run.

        Raises:
            UsageProblem: as `Backend.load`.
            DeviceFailure: the device failed or is out of memory.
        """


class DividesModels(abc.ABC):
    """It has several providers, among which it divides a model."""

    @abc.abstractmethod
    def partitions(self, request: PartitionRequest) -> Partitions:
        """Say which provider executes which node of a model, and why.

        Raises:
            UsageProblem: the model cannot be used.
            ComponentMissing: the provider cannot serve here.
        """


@dataclass(frozen=True)
class Reproduction:
    """Parts of a script that has `minimal.onnx` in the folder `here`, and arrays by name in `inputs` and `expected`.

    Attributes:
        needs: packages, as a list in a sentence.
        imports: lines that import them, numpy as `np` among them.
        body: lines that run the model on `inputs` and put arrays by the names of `expected` into `found`.
    """

    needs: str
    imports: str
    body: str


class Reproduces(abc.ABC):
    """A script can run a model with only its runtime."""

    @abc.abstractmethod
    def reproduction(self, options: SessionOptions, provenance: Mapping[str, Any]) -> Reproduction | None:
        """Return the backend's part of the script for a bug report; None where that is impossible.

        Args:
            options: of the session that gave a wrong result.
            provenance: of that session.
        """
