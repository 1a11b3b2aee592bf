"""The Open Inference Protocol over HTTP: JSON, with tensors as bytes behind it where the server takes that."""

from __future__ import annotations

import http
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray

from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import DeviceFailure
from trt_workbench_serving.backends.address import Address
from trt_workbench_serving.backends.datatypes import NUMPY, PROTOCOL, as_numbers, from_bytes, from_numbers
from trt_workbench_serving.backends.failures import refuse_status
from trt_workbench_serving.backends.http_client import HttpAnswer, HttpClient
from trt_workbench_serving.backends.tensors import ServedModel, read_config, read_tensors
from trt_workbench_serving.backends.v2_protocol import Outputs, ServerFacts

_BINARY = "binary_tensor_data"
_LENGTH = "Inference-Header-Content-Length"


class HttpProtocol:
    """Speaks the protocol with one server."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Take where the server is, and how long an answer may take. Nothing is sent yet."""
        self._http, self._address = HttpClient(address, timeout_s), address
        self._binary = False

    def server(self) -> ServerFacts:
        """Return what the server says of itself."""
        found = self._http.get("/v2", "describe itself")
        try:
            extensions = tuple(map(str, found.get("extensions") or ()))
            facts = ServerFacts(str(found.get("name", "")), str(found.get("version", "")), extensions)
        except (AttributeError, TypeError) as error:
            raise DeviceFailure(f"The server does not speak the Open Inference Protocol: {self._address}") from error
        self._binary = _BINARY in extensions
        return facts

    def is_ready(self, name: str, version: str) -> bool:
        """Whether the server can run a model now."""
        answer = self._http.ask(f"{_path(name, version)}/ready")
        if answer.status in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            refuse_status(self._address, answer.status, answer.reason, answer.said, f"say whether {name} is ready")
        found = answer.document()
        said = found.get("ready", True) if isinstance(found, dict) else True  # KServe answers in JSON
        return answer.status == http.HTTPStatus.OK and bool(said)

    def repository(self) -> list[Mapping[str, Any]]:
        """Return the models that the server has, ready or not; empty where it does not say."""
        answer = self._http.ask("/v2/repository/index", b"{}", {"Content-Type": "application/json"})
        found = answer.document() if answer.status == http.HTTPStatus.OK else None
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    def describe(self, name: str, version: str) -> ServedModel:
        """Return a model's tensors and configuration."""
        path = _path(name, version)
        found = self._http.get(path, f"describe model {name}")
        if not isinstance(found, dict):
            raise DeviceFailure(f"The server does not speak the Open Inference Protocol: {self._address}")
        answer = self._http.ask(f"{path}/config")  # of Triton
        config = answer.document() if answer.status == http.HTTPStatus.OK else None
        return ServedModel(
            name,
            version,
            str(found.get("platform", "")),
            read_tensors(found.get("inputs"), "input"),
            read_tensors(found.get("outputs"), "output"),
            read_config(config),
        )

    def infer(
        self, name: str, version: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[TensorSpec]
    ) -> Outputs:
        """Run a model once."""
        listed, blobs = [], []
        for key, array in inputs.items():
            entry: dict[str, Any] = {"name": key, "shape": list(array.shape), "datatype": PROTOCOL[array.dtype.name]}
            if self._binary:
                blobs.append(array.tobytes())
                entry["parameters"] = {"binary_data_size": len(blobs[-1])}
            else:
                entry["data"] = as_numbers(array)
            listed.append(entry)
        wanted = [{"name": one.name, "parameters": {"binary_data": self._binary}} for one in outputs]
        head = json.dumps({"inputs": listed, "outputs": wanted}).encode()
        headers = {"Content-Type": "application/octet-stream" if self._binary else "application/json"}
        if self._binary:
            headers[_LENGTH] = str(len(head))
        answer = self._http.ask(f"{_path(name, version)}/infer", b"".join([head, *blobs]), headers)
        if answer.status != http.HTTPStatus.OK:
            shapes = ", ".join(f"{key} {list(array.shape)}" for key, array in inputs.items())
            refuse_status(self._address, answer.status, answer.reason, answer.said, f"run {name} with {shapes}")
        return _outputs(answer, self._address)

    def close(self) -> None:
        """End the connections."""
        self._http.close()


def _path(name: str, version: str) -> str:
    model = f"/v2/models/{quote(name, safe='')}"
    return f"{model}/versions/{quote(version, safe='')}" if version else model


def _outputs(answer: HttpAnswer, address: Address) -> Outputs:
    """Return the tensors of an answer: those in its JSON, and those in the bytes behind it, in their order."""
    try:
        size = int(answer.headers.get(_LENGTH.lower(), len(answer.body)))
        head, rest = json.loads(answer.body[:size]), memoryview(answer.body)[size:]
        found = {}
        for one in head["outputs"]:
            name, shape, dtype = one["name"], one["shape"], NUMPY[one["datatype"]]
            blob = (one.get("parameters") or {}).get("binary_data_size")
            if blob is None:
                found[name] = from_numbers(name, one["data"], dtype, shape)
            else:
                found[name] = from_bytes(name, rest[:blob], dtype, shape)
                rest = rest[blob:]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DeviceFailure(f"The server's answer is not of the protocol's form ({error!r}): {address}") from error
    return Outputs(found, str(head.get("model_version") or ""))
