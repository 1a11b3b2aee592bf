"""The backend v2 over HTTP: what a server is believed, and what is refused, by a server in this process."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused
from tests.unit.backends.small_models import linear
from tests.v2_server import V2Server, answering
from tests.waiting import wait_until

from trt_workbench.backends.base import Session, SessionOptions
from trt_workbench.backends.ort.cpu import OrtCpuBackend
from trt_workbench.core.errors import ComponentMissing, DeviceFailure, UsageProblem
from trt_workbench_serving.backends.address import TOKEN
from trt_workbench_serving.backends.datatypes import from_numbers
from trt_workbench_serving.backends.v2 import V2Backend

pytest.importorskip("tritonclient.http.aio")
pytestmark = pytest.mark.readers
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return linear(tmp_path / "linear.onnx")


@contextmanager
def served(server: V2Server, model: Path | None = None, concurrency: int = 1, **extra: Any) -> Iterator[Session]:
    with server.running() as url:
        options = SessionOptions(extra={"url": url, **extra}, concurrency=concurrency)
        with V2Backend().load(model or server.model, options) as session:
            yield session


def load(server: V2Server, model: Path | None = None, **extra: Any) -> None:
    with served(server, model, **extra):
        pass


@pytest.mark.parametrize("binary", [True, False])
def test_outputs_are_those_of_the_file_to_the_bit(model: Path, *, binary: bool) -> None:
    expected = OrtCpuBackend().load(model).run({"x": X})
    with served(V2Server(model, binary=binary)) as session:
        found = session.run({"x": X})
        assert (session.inputs, session.outputs) == _specs(model)
        assert session.metadata == {}
        record = session.record()
    assert found["y"].tobytes() == expected["y"].tobytes()
    assert found["y"].flags.writeable
    assert record["server_version"] == "1.0"
    assert (record["model"], record["model_version"], record["max_batch_size"]) == ("linear", "1", 16)
    assert (record["device"], record["precision_ran"]) == ("server", None)


def _specs(model: Path) -> Any:
    session = OrtCpuBackend().load(model)
    return session.inputs, session.outputs


@pytest.mark.parametrize("kind", ["float", "double", "int8", "uint8", "int64", "float16", "bool"])
@pytest.mark.parametrize("binary", [True, False])
def test_every_type_that_holds_numbers_passes(tmp_path: Path, kind: str, *, binary: bool) -> None:
    path = write_onnx(tmp_path / "same.onnx", f"g ({kind}[n,2] x) => ({kind}[n,2] y) {{ y = Identity(x) }}")
    server = V2Server(path, binary=binary)
    with served(server) as session:
        array = (np.arange(6).reshape(3, 2) % 3).astype(session.inputs[0].dtype)
        if kind == "float16" and not binary:
            with refused(UsageProblem):
                session.run({"x": array})
        else:
            assert np.array_equal(session.run({"x": array})["y"], array)


def test_a_name_and_a_version_are_asked_for(model: Path) -> None:
    with V2Server(model, name="other name").running() as url:
        extra = {"url": url, "model": "other name", "version": "1"}
        with V2Backend().load(model, SessionOptions(extra=extra)) as session:
            assert session.record()["model"] == "other name"
            assert session.run({"x": X})["y"].shape == (3, 3)


def test_calls_at_once_are_put_together_and_taken_apart(model: Path) -> None:
    server = V2Server(model, wait_s=0.02)
    whole = OrtCpuBackend().load(model).run({"x": np.tile(X, (4, 1))})["y"]
    found: dict[int, Any] = {}
    with served(server, concurrency=12) as session:
        assert (session.shares_batches, session.largest_batch) == (True, 16)
        rows = np.tile(X, (4, 1))
        threads = [
            threading.Thread(target=lambda row=row: found.update({row: session.run({"x": rows[row : row + 1]})["y"]}))
            for row in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert server.merged
    assert all(np.allclose(found[row][0], whole[row], rtol=1e-6) for row in range(12))


def test_the_server_says_less_than_triton(model: Path) -> None:
    """Without a configuration, calls may share batches, and no size is known."""
    with served(V2Server(model, config=False)) as session:
        assert (session.shares_batches, session.largest_batch) == (True, None)
        assert session.record()["max_batch_size"] is None


def test_a_server_whose_extensions_are_no_list_takes_json(model: Path) -> None:
    with served(V2Server(model, binary=False, says={"extensions": 3})) as session:
        assert session.run({"x": X})["y"].shape == (3, 3)


@pytest.mark.parametrize(
    "document",
    [
        {"max_batch_size": "many"},
        {"parameters": {"trtw.model": 1}},
        {"parameters": [1]},
        {"instance_group": [1]},
        {"dynamic_batching": 3},
    ],
)
def test_a_configuration_of_another_form_is_refused(
    model: Path, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(V2Server, "configured", lambda _: document)
    with V2Server(model).running() as url, refused(DeviceFailure):
        V2Backend().load(model, SessionOptions(extra={"url": url}))


def test_sizes_that_the_server_fixes_are_fixed(model: Path) -> None:
    fixed = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4]}]}
    with served(V2Server(model, specs=fixed)) as session:
        assert session.inputs[0].shape == (2, 4)


TENSORS = {
    "names": {"inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 4]}]},
    "one more": {"outputs": [{"name": n, "datatype": "FP32", "shape": [-1, 3]} for n in ("y", "z")]},
    "dtype": {"inputs": [{"name": "x", "datatype": "FP16", "shape": [-1, 4]}]},
    "shape": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 5]}]},
    "rank": {"outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}]},
    "texts": {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1, 4]}]},
}


@pytest.mark.parametrize("what", TENSORS)
def test_a_model_of_other_tensors_is_refused(model: Path, what: str) -> None:
    with refused(UsageProblem):
        load(V2Server(model, specs=TENSORS[what]))


def test_no_server(model: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as unused:
        port = unused.getsockname()[1]
    with refused(ComponentMissing):
        V2Backend().load(model, SessionOptions(extra={"url": f"http://127.0.0.1:{port}"}))


def test_a_token_is_needed_and_has_to_be_right(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = V2Server(model, token="right")
    with refused(UsageProblem):
        load(server)
    monkeypatch.setenv(TOKEN, "wrong")
    with refused(UsageProblem):
        load(server)
    monkeypatch.setenv(TOKEN, "right")
    with served(server) as session:
        session.run({"x": X})
        assert "right" not in str(session.record())
    monkeypatch.setenv(TOKEN, "a\nb")
    with refused(UsageProblem):
        load(server)


def test_a_token_that_the_server_returns_is_not_kept(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "sec/ret")
    with served(V2Server(model, token="sec/ret", says={"name": "sec/ret", "version": "Bearer sec/ret"})) as session:
        session.run({"x": X})
        assert "sec" not in str(session.record())


def test_a_token_in_an_error_of_the_server_is_not_told(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "secret")
    body = b'{"error": "denied for Bearer secret, se\\u0063ret"}'
    head = b"HTTP/1.1 400 secret\r\nContent-Length: %d\r\n\r\n" % len(body)
    with answering(head + body) as url, refused(UsageProblem):
        V2Backend().load(model, SessionOptions(extra={"url": url}))


def test_a_model_that_is_not_there_or_not_ready(model: Path) -> None:
    with refused(UsageProblem), V2Server(model).running() as url:
        V2Backend().load(model, SessionOptions(extra={"url": url, "model": "linaer"}))
    with refused(ComponentMissing):
        load(V2Server(model, ready="failed to load: no such file"))


def test_urls_and_options_that_cannot_be_meant() -> None:
    wrong = (
        "ftp://localhost", "http://", "http://user:secret@localhost", "http://localhost:99999", "http://localhost?x=1",
        "http://[::1", "http://local host", "http://local\x7fhost", "http://a..b", "http://localhost/ä",
        "http://" + "a" * 70,
    )  # fmt: skip
    for url in wrong:
        with refused(UsageProblem):
            V2Backend().check_options(SessionOptions(extra={"url": url}))
    with refused(UsageProblem):
        V2Backend().check_options(SessionOptions())
    with refused(UsageProblem):
        V2Backend().check_options(SessionOptions(extra={"url": "localhost:8000", "modle": "x"}))
    with refused(UsageProblem):
        V2Backend().check_options(SessionOptions(precision="fp33", extra={"url": "localhost:8000"}))
    with refused(UsageProblem):
        OrtCpuBackend().url_option("http://localhost")
    with refused(UsageProblem):
        V2Backend().device_option(1)
    V2Backend().check_options(SessionOptions(precision="int8+fp16", extra={"url": "grpc://localhost"}))


@pytest.mark.parametrize(
    "fault", ["dies", "fails", "busy", "another version", "no output", "short", "not json", "not deflated"]
)
def test_a_server_that_fails_during_a_run_is_named(model: Path, fault: str) -> None:
    with served(V2Server(model, fault=fault)) as session, refused(DeviceFailure):
        for _ in range(4):
            session.run({"x": X})


def test_a_batch_that_the_server_refuses_is_the_callers(model: Path) -> None:
    with served(V2Server(model, most=2)) as session, refused(UsageProblem):
        session.run({"x": X})


def test_a_slow_server_is_waited_for_as_long_as_is_said(model: Path) -> None:
    with served(V2Server(model, slow_s=1000), timeout_s=1) as session, refused(DeviceFailure):
        session.run({"x": X})


DRIPS = {
    "body": (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
    "status line": (b"HTTP/1.1 200 O", b"O"),
    "header": (b"HTTP/1.1 200 OK\r\nX", b"X"),
    "size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
    "100 Continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("part", DRIPS)
def test_an_answer_in_drops_has_the_same_limit(model: Path, part: str) -> None:
    """Each drop comes in time; the whole answer does not."""
    start, drop = DRIPS[part]
    done = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as door:

        def drip() -> None:
            line, _ = door.accept()
            with closing(line):
                line.sendall(start)
                while not done.wait(0.05):
                    try:
                        line.sendall(drop)
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{door.getsockname()[1]}"
        try:
            with refused(DeviceFailure):
                V2Backend().load(model, SessionOptions(extra={"url": url, "timeout_s": 0.5}))
            assert thread.is_alive()  # it would go on for an hour
        finally:
            done.set()
            thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\n" + b"[" * 90_000,
    ],
)
def test_what_is_no_server_of_the_protocol_is_refused(model: Path, answer: bytes) -> None:
    with answering(answer) as url, refused(UsageProblem, DeviceFailure, ComponentMissing):
        V2Backend().load(model, SessionOptions(extra={"url": url}))


def test_a_connection_that_the_server_ended_in_between_is_opened_again(model: Path) -> None:
    server = V2Server(model)
    with server.running() as url:
        session = V2Backend().load(model, SessionOptions(extra={"url": url}))
        session.run({"x": X})
        server.end_connections()
        assert session.run({"x": X})["y"].shape == (3, 3)
        session.close()


def test_it_says_which_client_it_has() -> None:
    assert V2Backend().availability().versions["tritonclient"]


def test_neither_a_redirect_nor_a_proxy_takes_a_request_elsewhere(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN, "secret")
    elsewhere = V2Server(model)
    with elsewhere.running() as other:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, other)
        away = f"HTTP/1.1 307 Moved\r\nLocation: {other}/v2\r\nContent-Length: 0\r\n\r\n".encode()
        with answering(away) as url, refused(UsageProblem):
            V2Backend().load(model, SessionOptions(extra={"url": url}))
        assert elsewhere.requests == 0
        with V2Backend().load(model, SessionOptions(extra={"url": other})) as session:
            session.run({"x": X})
        assert elsewhere.requests


def test_no_connection_is_left_open_whatever_thread_asked(model: Path) -> None:
    with V2Server(model).running() as url:
        port = int(url.rpartition(":")[2])

        def connections() -> int:
            every = psutil.Process().net_connections("tcp")
            return sum(one.status == psutil.CONN_ESTABLISHED and one.raddr.port == port for one in every)

        with V2Backend().load(model, SessionOptions(extra={"url": url}, concurrency=8)) as session:
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda _: session.run({"x": X}), range(32)))
            assert connections() > 0
        wait_until(lambda: connections() == 0)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1, 2.5], "int64"),
        ([1, 1e30], "int64"),
        ([1, float("nan")], "int32"),
        ([1, 300], "uint8"),
        ([1, 300.0], "uint8"),
        ([1, -1], "uint8"),
        ([1, 2**70], "int64"),
        (["1", "2"], "int64"),
        (["1.5", "2"], "float32"),
        ([None, 1.5], "float32"),
        ([True, False], "float32"),
        ([True, False], "int64"),
        ([0, 2], "bool"),
        ([0.5, 1], "bool"),
        (["true", "false"], "bool"),
        ([1, [2]], "float32"),
        ([1, 2, 3], "int64"),
        ({"a": 1}, "int64"),
    ],
)
def test_numbers_that_a_type_does_not_hold_are_refused(data: Any, dtype: str) -> None:
    with refused(DeviceFailure):
        from_numbers("y", data, dtype, [2])


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1.0, -2.0], "int64"),
        ([2**63 - 1, -(2**63)], "int64"),
        ([2**64 - 1, 0], "uint64"),
        ([1, 0], "bool"),
        ([True, False], "bool"),
        ([1, 10**20], "float32"),
        ([[1], [2.5]], "float64"),
    ],
)
def test_numbers_of_json_keep_their_values(data: Any, dtype: str) -> None:
    found = from_numbers("y", data, dtype, [2])
    assert found.dtype == np.dtype(dtype)
    assert found.tolist() == np.array(data, object).reshape(-1).astype(dtype).tolist()
