"""The Open Inference Protocol, spoken by tritonclient, whose clients for HTTP and gRPC are alike."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from importlib import import_module
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from trt_workbench import __version__
from trt_workbench.backends.base import TensorSpec
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench.core.launcher import package
from trt_workbench_serving.backends.address import Address, hidden, token
from trt_workbench_serving.backends.calls import Calls
from trt_workbench_serving.backends.datatypes import NUMPY, PROTOCOL, from_numbers, require_json
from trt_workbench_serving.backends.tensors import ServedModel, read_config, read_tensors

_Found = TypeVar("_Found")
_BINARY = "binary_tensor_data"
# gRPC's codes by HTTP's; others are failures of the server.
_STATUS = {
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
    "PERMISSION_DENIED": HTTPStatus.FORBIDDEN,
    "UNIMPLEMENTED": HTTPStatus.NOT_IMPLEMENTED,
    **dict.fromkeys(("INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "OUT_OF_RANGE"), HTTPStatus.BAD_REQUEST),
}


class V2Client:
    """Speaks with one server; several threads may at once.

    Every method raises UsageProblem for what the server refuses, DeviceFailure where it fails, is away or too slow.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        """Take where the server is, and how long an answer may take. Nothing is sent yet.

        Raises:
            ComponentMissing: tritonclient is not installed.
        """
        self._http = address.scheme.startswith("http")
        try:
            self._client_errors = (import_module("aiohttp").ClientError, OSError)
            self._module = import_module(f"tritonclient.{'http' if self._http else 'grpc'}.aio")
        except (ImportError, RuntimeError) as error:  # it raises the latter where a library that it needs is absent
            raise ComponentMissing(
                f"Backend v2 needs tritonclient, which cannot be imported ({error.__cause__ or error}). "
                f"{package('tritonclient')}"
            ) from error
        self._headers = {"authorization": f"Bearer {own}"} if (own := token()) else {}
        self._binary: dict[str, Any] = {}
        self._calls = Calls(address, timeout_s)
        self._client = self._calls.answer(self._opened(address))

    async def _opened(self, address: Address) -> Any:
        """Return a client that uses no proxy and follows no redirect; it belongs to the loop that makes it."""
        if not self._http:
            options = [("grpc.enable_http_proxy", 0)]
            options += [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
            return self._module.InferenceServerClient(address.target, ssl=address.secure, channel_args=options)
        self._headers["user-agent"] = f"trt-workbench/{__version__}"
        client = self._module.InferenceServerClient(
            address.target + address.path, conn_limit=0, conn_timeout=None, ssl=address.secure, ssl_context=True
        )
        redirects = import_module("aiohttp").TraceConfig()
        redirects.on_request_redirect.append(_refuse_redirect)
        redirects.freeze()
        client._stub.trace_configs.append(redirects)
        return client

    def server(self) -> tuple[str, str]:
        """Return what the server says of itself, its name and version; the first call."""
        found = self._document("describe itself", "get_server_metadata")
        name, version = str(found.get("name", "")), str(found.get("version", ""))
        if self._http:
            known = found.get("extensions")
            self._binary = {"binary_data": isinstance(known, list) and _BINARY in known}
        return name, version

    def is_ready(self, name: str, version: str) -> bool:
        """Whether the server can run a model now; `version` is "" for the server's choice."""
        return bool(self._asked(f"say of {name}", self._client.is_model_ready(name, version, self._sent())))

    def repository(self) -> list[Mapping[str, Any]]:
        """Return `name`, `state` and `reason` of the models that the server has; empty where it does not say."""
        try:
            found = self._document("list its models", "get_model_repository_index", kind=(dict, list))
        except UsageProblem:
            return []
        listed = found.get("models") if isinstance(found, dict) else found
        return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []

    def describe(self, name: str, version: str) -> ServedModel:
        """Return a model's tensors and configuration."""
        found = self._document(f"describe model {name}", "get_model_metadata", name, version)
        try:
            config = self._document(f"describe model {name}", "get_model_config", name, version)
        except UsageProblem:  # it is Triton's
            config = None
        return ServedModel(
            name,
            version,
            str(found.get("platform", "")),
            read_tensors(found.get("inputs"), "input"),
            read_tensors(found.get("outputs"), "output"),
            read_config(config if self._http else config and config.get("config")),
        )

    def infer(
        self, name: str, version: str, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[TensorSpec]
    ) -> tuple[dict[str, NDArray[Any]], str]:
        """Run a model once; return its outputs, and the version that answered: "" where the server does not say."""
        given = []
        for key, array in inputs.items():
            if not self._binary.get("binary_data", True):
                require_json(array.dtype)
            given.append(self._module.InferInput(key, list(array.shape), PROTOCOL[array.dtype.name]))
            given[-1].set_data_from_numpy(array, **self._binary)
        wanted = [self._module.InferRequestedOutput(one.name, **self._binary) for one in outputs]
        shapes = ", ".join(f"{key} {list(array.shape)}" for key, array in inputs.items())
        call = self._client.infer(name, given, version, wanted, headers=self._sent())
        return self._asked(f"run {name} with {shapes}", call, lambda result: _outputs(result, outputs))

    def close(self) -> None:
        """End the connections."""
        self._calls.answer(self._client.close())

    def _sent(self) -> dict[str, str]:
        return dict(self._headers)  # tritonclient adds its own to it

    def _document(self, what: str, method: str, *arguments: str, kind: type | tuple[type, ...] = dict) -> Any:
        """Return JSON that a method gives, without the token."""
        as_json = {} if self._http else {"as_json": True}
        call = getattr(self._client, method)(*arguments, headers=self._sent(), **as_json)
        found = self._asked(what, call, lambda found: json.loads(hidden(json.dumps(found, allow_nan=False))))
        if not isinstance(found, kind):
            raise DeviceFailure(f"The server does not speak the Open Inference Protocol: {self._calls.address}")
        return found

    def _asked(
        self, what: str, call: Coroutine[Any, Any, Any], read: Callable[[Any], _Found] = lambda found: found
    ) -> _Found:
        from tritonclient.utils import InferenceServerException

        try:
            return read(self._calls.answer(call))
        except InferenceServerException as error:
            self._refuse(error, what)
        except self._client_errors as error:
            raise self._calls.away(error) from error
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError, EOFError, zlib.error) as error:
            raise self._calls.broken(error) from error

    def _refuse(self, error: Any, what: str) -> NoReturn:
        status, said = str(error.status() or "").rpartition(".")[2], error.message()
        if status == "UNAVAILABLE":
            raise self._calls.away(said) from error
        if status.isdigit():  # of HTTP, whose message is tritonclient's own where the server's is of another form
            self._calls.refuse(int(status), said if isinstance(said, str) and not error.debug_details() else "", what)
        self._calls.refuse(_STATUS.get(status, HTTPStatus.INTERNAL_SERVER_ERROR), str(said), what, status)


async def _refuse_redirect(_session: Any, _context: Any, redirect: Any) -> None:
    from tritonclient.utils import InferenceServerException

    raise InferenceServerException("redirects are not followed", str(redirect.response.status))


def _outputs(result: Any, wanted: Sequence[TensorSpec]) -> tuple[dict[str, NDArray[Any]], str]:
    """Return the tensors of an answer, and the model's version."""
    found = {}
    for name in (spec.name for spec in wanted if result.get_output(spec.name) is not None):
        one = result.get_output(name)
        listed, kind = (one.get("data"), one["datatype"]) if isinstance(one, dict) else (None, one.datatype)
        # tritonclient would make numbers of texts, and whole ones of fractions
        if listed is None and kind in NUMPY:
            found[name] = np.array(result.as_numpy(name))  # its own, which can be written to
        else:
            found[name] = from_numbers(name, listed, NUMPY[kind], one["shape"])
    answer = result.get_response()
    version = answer.get("model_version") if isinstance(answer, dict) else answer.model_version
    return found, hidden(str(version or ""))
