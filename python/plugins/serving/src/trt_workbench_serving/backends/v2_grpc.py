"""The Open Inference Protocol over gRPC, spoken by tritonclient."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.core.launcher import package
from trt_workbench_serving.backends.address import Address, hidden, token
from trt_workbench_serving.backends.datatypes import NUMPY, PROTOCOL, from_bytes
from trt_workbench_serving.backends.failures import no_answer, refused_token, too_slow
from trt_workbench_serving.backends.tensors import ServedModel, read_config, read_tensors
from trt_workbench_serving.backends.v2_protocol import Outputs, ServerFacts

T = TypeVar("T")
# What the server did not understand, or will never do.
_REFUSALS = ("INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "FAILED_PRECONDITION", "OUT_OF_RANGE")


class GrpcProtocol:
    """Speaks the protocol with one server."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Take where the server is, and how long an answer may take. Nothing is sent yet.

        Raises:
            ComponentMissing: tritonclient is not installed.
        """
        try:
            import tritonclient.grpc as client
        except (ImportError, RuntimeError) as error:  # it raises the latter where a library that it needs is absent
            raise ComponentMissing(
                f"gRPC needs tritonclient, which cannot be imported ({error.__cause__ or error}). "
                f"{package('tritonclient')} Or use the server's HTTP port: {address}"
            ) from error
        self._module, self._address, self._timeout_s = client, address, timeout_s
        self._headers = {"authorization": f"Bearer {own}"} if (own := token()) else None
        self._own = threading.local()  # a client is for one thread
        self._every: list[Any] = []

    def server(self) -> ServerFacts:
        """Return what the server says of itself."""
        found = self._ask(lambda client, common: client.get_server_metadata(**common), "describe itself")
        return ServerFacts(hidden(found.name), hidden(found.version), tuple(map(hidden, found.extensions)))

    def is_ready(self, name: str, version: str) -> bool:
        """Whether the server can run a model now."""
        asked = self._ask(lambda client, common: client.is_model_ready(name, version, **common), f"say of {name}")
        return bool(asked)

    def repository(self) -> list[Mapping[str, Any]]:
        """Return the models that the server has, ready or not; empty where it does not say."""
        try:
            found = self._ask(lambda client, common: client.get_model_repository_index(**common), "list its models")
        except UsageProblem:
            return []
        return [{"name": one.name, "state": one.state, "reason": hidden(one.reason)} for one in found.models]

    def describe(self, name: str, version: str) -> ServedModel:
        """Return a model's tensors and configuration."""
        what = f"describe model {name}"
        found = self._ask(lambda client, common: client.get_model_metadata(name, version, **common), what)
        try:
            config = self._ask(
                lambda client, common: client.get_model_config(name, version, as_json=True, **common), what
            )
        except UsageProblem:  # it is Triton's
            config = {}
        inputs, outputs = (
            read_tensors([{"name": t.name, "datatype": t.datatype, "shape": list(t.shape)} for t in tensors], kind)
            for tensors, kind in ((found.inputs, "input"), (found.outputs, "output"))
        )
        return ServedModel(
            name,
            version,
            hidden(found.platform),
            inputs,
            outputs,
            read_config(json.loads(hidden(json.dumps(config))).get("config")),
        )

    def infer(
        self, name: str, version: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[TensorSpec]
    ) -> Outputs:
        """Run a model once."""
        given = []
        for key, array in inputs.items():
            tensor = self._module.InferInput(key, list(array.shape), PROTOCOL[array.dtype.name])
            tensor.set_data_from_numpy(array)
            given.append(tensor)
        wanted = [self._module.InferRequestedOutput(one.name) for one in outputs]
        shapes = ", ".join(f"{key} {list(array.shape)}" for key, array in inputs.items())
        answer = self._ask(
            lambda client, common: client.infer(name, given, version, wanted, **common), f"run {name} with {shapes}"
        ).get_response()
        return Outputs(_arrays(answer), hidden(answer.model_version))

    def close(self) -> None:
        """End the connections."""
        while self._every:
            self._every.pop().close()

    def _ask(self, call: Callable[[Any, dict[str, Any]], T], what: str) -> T:
        from tritonclient.utils import InferenceServerException

        if (client := getattr(self._own, "client", None)) is None:
            client = self._own.client = self._module.InferenceServerClient(
                self._address.target, ssl=self._address.secure
            )
            self._every.append(client)
        try:
            return call(client, {"headers": self._headers, "client_timeout": self._timeout_s})
        except InferenceServerException as error:
            self._refuse(str(error.status() or "").rpartition(".")[2], hidden(str(error.message())), what, error)

    def _refuse(self, status: str, said: str, what: str, error: Exception) -> NoReturn:
        if status == "DEADLINE_EXCEEDED":
            raise too_slow(self._address, self._timeout_s) from error
        if status in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
            raise refused_token(self._address, status) from error
        if status == "UNAVAILABLE":
            raise no_answer(self._address, said) from error
        kind = UsageProblem if status in _REFUSALS else DeviceFailure
        raise kind(f"The server cannot {what} ({status}: {said}): {self._address}") from error


def _arrays(answer: Any) -> dict[str, NDArray[Any]]:
    """Return the outputs of an answer, whose bytes are in their order."""
    if len(answer.raw_output_contents) != len(answer.outputs):
        raise DeviceFailure("The server's answer has outputs without bytes.")
    found = {}
    for one, data in zip(answer.outputs, answer.raw_output_contents, strict=True):
        if one.datatype not in NUMPY:
            raise DeviceFailure(f"The server's output {one.name} has datatype {one.datatype}, which holds no numbers.")
        found[one.name] = from_bytes(one.name, data, NUMPY[one.datatype], list(one.shape))
    return found
