"""The backend v2 over gRPC: the same server in this process, by the protocol's own service."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.backends.small_models import linear
from tests.v2_server import V2Server

from trt_workbench.backends.base import SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.array_files import numpy_dtype
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench_serving.backends.address import TOKEN
from trt_workbench_serving.backends.datatypes import NUMPY, PROTOCOL
from trt_workbench_serving.backends.v2 import V2Backend

grpc = pytest.importorskip("grpc")
pb = pytest.importorskip("tritonclient.grpc.service_pb2")
services = pytest.importorskip("tritonclient.grpc.service_pb2_grpc")
pytestmark = pytest.mark.readers
X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Service(services.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers for a `V2Server`."""

    def __init__(self, server: V2Server) -> None:
        self._server = server

    def ServerMetadata(self, _: Any, context: Any) -> Any:
        sent = dict(context.invocation_metadata())
        if self._server.token and sent.get("authorization") != f"Bearer {self._server.token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")
        return pb.ServerMetadataResponse(name="double", version="1.0")

    def ModelReady(self, request: Any, _: Any) -> Any:
        return pb.ModelReadyResponse(ready=request.name == self._server.name and not self._server.ready)

    def RepositoryIndex(self, *_: Any) -> Any:
        one = pb.RepositoryIndexResponse.ModelIndex(name=self._server.name, reason=self._server.ready)
        return pb.RepositoryIndexResponse(models=[one])

    def ModelMetadata(self, *_: Any) -> Any:
        tensors = {
            side: [pb.ModelMetadataResponse.TensorMetadata(**one) for one in self._server.described()[side]]
            for side in ("inputs", "outputs")
        }
        return pb.ModelMetadataResponse(name=self._server.name, platform="double", **tensors)

    def ModelConfig(self, _: Any, context: Any) -> Any:
        if not self._server.config:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "no")
        found = pb.ModelConfigResponse()
        found.config.max_batch_size = self._server.most
        return found

    def ModelInfer(self, request: Any, context: Any) -> Any:
        if self._server.fault == "fails":
            context.abort(grpc.StatusCode.INTERNAL, "no memory")
        arrays = {
            one.name: np.frombuffer(raw, numpy_dtype(NUMPY[one.datatype])).reshape(tuple(one.shape))
            for one, raw in zip(request.inputs, request.raw_input_contents, strict=True)
        }
        if len(next(iter(arrays.values()))) > self._server.most:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "batch-size must be smaller")
        answer = pb.ModelInferResponse(model_version="1")
        for name, array in self._server.run(arrays).items():
            answer.outputs.add(name=name, datatype=PROTOCOL[array.dtype.name], shape=array.shape)
            answer.raw_output_contents.append(array.tobytes())
        return answer


@contextmanager
def running(server: V2Server) -> Iterator[str]:
    own = grpc.server(ThreadPoolExecutor(4))
    services.add_GRPCInferenceServiceServicer_to_server(Service(server), own)
    port = own.add_insecure_port("127.0.0.1:0")
    own.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.end()
        own.stop(None).wait()


@contextmanager
def served(server: V2Server, **extra: Any) -> Iterator[Any]:
    with running(server) as url, V2Backend().load(server.model, SessionOptions(extra={"url": url, **extra})) as session:
        yield session


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return linear(tmp_path / "linear.onnx")


def test_outputs_are_those_of_the_file_to_the_bit(model: Path) -> None:
    expected = OrtCpuBackend().load(model).run({"x": X})
    with served(V2Server(model)) as session:
        assert session.run({"x": X})["y"].tobytes() == expected["y"].tobytes()
        assert session.record()["max_batch_size"] == 16
    with served(V2Server(model, config=False)) as session:
        assert session.largest_batch is None


@pytest.mark.parametrize("kind", ["float16", "int8", "bool", "double"])
def test_every_type_passes(tmp_path: Path, kind: str) -> None:
    path = write_onnx(tmp_path / "same.onnx", f"g ({kind}[n,2] x) => ({kind}[n,2] y) {{ y = Identity(x) }}")
    with served(V2Server(path)) as session:
        array = (np.arange(6).reshape(3, 2) % 3).astype(numpy_dtype(session.inputs[0].dtype))
        assert np.array_equal(session.run({"x": array})["y"], array)


def test_refusals(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(UsageProblem), served(V2Server(model, token="right")):
        pass
    monkeypatch.setenv(TOKEN, "right")
    with served(V2Server(model, token="right")) as session:
        session.run({"x": X})
    with refused(ComponentMissing), served(V2Server(model, ready="failed to load")):
        pass
    with refused(UsageProblem), served(V2Server(model), model="linaer"):
        pass
    with served(V2Server(model, most=2)) as session, refused(UsageProblem):
        session.run({"x": X})
    with served(V2Server(model, fault="fails")) as session, refused(DeviceFailure):
        session.run({"x": X})
    with served(V2Server(model, slow_s=1000), timeout_s=1) as session, refused(DeviceFailure):
        session.run({"x": X})


def test_a_server_that_is_gone(model: Path) -> None:
    with running(V2Server(model)) as url:
        session = V2Backend().load(model, SessionOptions(extra={"url": url}))
        session.run({"x": X})
    with pytest.raises(DeviceFailure, match="does not answer"):
        session.run({"x": X})
    session.close()
    with pytest.raises(ComponentMissing, match="No server answers"):
        V2Backend().load(model, SessionOptions(extra={"url": url, "timeout_s": 2}))
