"""The backend `v2`: a model as a server runs it, by the Open Inference Protocol (Triton, KServe)."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trt_workbench.backends.base import Availability, Backend, Session, SessionOptions, TensorSpec, checked_array
from trt_workbench.backends.extra_options import Option, checked_extra
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem, did_you_mean
from trt_workbench.core.launcher import package
from trt_workbench.core.precision import parse
from trt_workbench_serving.backends.address import Address
from trt_workbench_serving.backends.calls import opening

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trt_workbench_serving.backends.tensors import ServedModel
    from trt_workbench_serving.backends.v2_client import V2Client

PORTS = {"http": 8000, "https": 443, "grpc": 8001, "grpcs": 443}
OPTIONS = {
    "url": Option(str, help="URL of the server; --url where the command has it."),
    "model": Option(str, help="Name of the served model; the file's name by default."),
    "version": Option(str, default="", help="Version of the served model; the server's choice by default."),
    "timeout_s": Option(float, default=60.0, minimum=0.001, help="Longest time that an answer may take, seconds."),
}


class V2Backend(Backend):
    """A served model, judged by the file that it was made from.

    The file says inputs, outputs and metadata; the server's own description has to fit. The precision that is asked for
    is what the server is said to compute in, as no server reports it. Nothing is computed here, so no GPU is watched.
    """

    name: ClassVar[str] = "v2"
    file_kinds: ClassVar[tuple[str, ...]] = (".onnx",)
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    served: ClassVar[bool] = True

    def availability(self) -> Availability:
        """Say whether tritonclient is installed: only a URL says whether there is a server."""
        try:
            return Availability(ok=True, versions={"tritonclient": importlib.metadata.version("tritonclient")})
        except importlib.metadata.PackageNotFoundError:
            reason = "the package tritonclient is not installed."
            return Availability(ok=False, reason=reason, fix=package("tritonclient"))

    def check_precision(self, precision: str) -> None:
        """Raise UsageProblem for what is no precision."""
        parse(precision)

    def check_options(self, options: SessionOptions) -> None:
        """Raise UsageProblem for an unknown or wrong option, or where no server is named."""
        self._checked(options)

    def _checked(self, options: SessionOptions) -> tuple[Address, dict[str, Any]]:
        self.check_precision(options.precision)
        extra = checked_extra(self.name, OPTIONS, options.extra)
        if not extra["url"]:
            raise UsageProblem("Backend v2 runs models on a server; pass its URL, such as --url http://localhost:8000.")
        return Address.read(extra["url"], PORTS), extra

    def _load(self, model: Path, options: SessionOptions) -> Session:
        from trt_workbench_serving.backends.v2_client import V2Client

        address, extra = self._checked(options)
        protocol = V2Client(address, extra["timeout_s"])
        with opening(protocol.close):
            return V2Session(protocol, model, address, extra, options.concurrency)


class V2Session(Session):
    """A model on a server. Several threads may call `run` at once, and the server may put their calls together."""

    def __init__(
        self, protocol: V2Client, model: Path, address: Address, extra: Mapping[str, Any], concurrency: int
    ) -> None:
        """Ask the server for the model, and compare it with the file.

        Raises:
            UsageProblem: the server has no such model, or its tensors are others than those of the file.
            ComponentMissing: the model is not ready.
            DeviceFailure: the server failed, or is away.
        """
        from trt_workbench.model.opened import Model
        from trt_workbench_serving.backends.tensors import matched

        facts = Model.open(model).facts
        self._protocol, self._address, self.concurrency = protocol, address, concurrency
        name, version = extra["model"] or model.stem, extra["version"]
        server, server_version = protocol.server()
        _require_ready(protocol, name, version, address)
        served: ServedModel = protocol.describe(name, version)
        self.inputs, self.outputs = (
            matched(there, tuple(map(TensorSpec.of, own)), what, model, name)
            for there, own, what in (
                (served.inputs, facts.inputs, "inputs"),
                (served.outputs, facts.outputs, "outputs"),
            )
        )
        self.metadata = facts.metadata
        self.largest_batch, self.shares_batches = served.largest_batch, served.shares_batches
        self._served, self._version, self._lock = served, version, threading.Lock()
        self.provenance = {
            "device": "server",
            "url": str(address),
            "server": server,
            "server_version": server_version,
            **served.record(),
            "timeout_s": extra["timeout_s"],
        }

    def _infer(self, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        found, version = self._protocol.infer(self._served.name, self._version, inputs, self.outputs)
        self._require_version(version)
        lacking = [spec.name for spec in self.outputs if spec.name not in found]
        if lacking:
            raise DeviceFailure(
                f"The server's answer lacks output {lacking[0]} of {self._served.name}: {self._address}"
            )
        arrays = {spec.name: found[spec.name] for spec in self.outputs}
        if self.refuses_misfits:
            for spec in self.outputs:
                checked_array(spec, arrays[spec.name], "Output", "returns", DeviceFailure)
        return arrays

    def _require_version(self, answered: str) -> None:
        """Keep to one version of the model: a server may load another one at any time."""
        with self._lock:
            if answered and not self._version:
                self._version = answered
                self.provenance = {**self.provenance, "model_version": answered}
        if answered and answered != self._version:
            raise DeviceFailure(
                f"The server answered with version {answered} of {self._served.name}, after version {self._version}: "
                f"{self._address}"
            )

    def _close(self) -> None:
        self._protocol.close()


def _require_ready(protocol: V2Client, name: str, version: str, address: Address) -> None:
    if protocol.is_ready(name, version):
        return
    models = protocol.repository()
    known = [str(one.get("name")) for one in models]
    asked = f"{name} version {version}" if version else name
    if known and name not in known:
        raise UsageProblem(
            f"The server has no model {name!r}; {did_you_mean(name, known)} Pass --option model=NAME: {address}"
        )
    why = next((f" ({one['reason']})" for one in models if one.get("name") == name and one.get("reason")), "")
    raise ComponentMissing(f"Model {asked} is not ready on the server{why}; load it there first: {address}")
