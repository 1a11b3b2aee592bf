import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_text import parse_onnx, write_onnx

from trt_workbench.errors import UsageProblem
from trt_workbench.model import opened
from trt_workbench.model.opened import Model, once

GRAPH = "g (float[N,64] x) => (float[N,64] y) { y = MatMul(x, w) }"
LARGE = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Collect the files that are parsed."""
    files: list[Path] = []
    real = opened.parse_model

    def counted(path: Path, data: bytes) -> onnx.ModelProto:
        files.append(path)
        return real(path, data)

    monkeypatch.setattr(opened, "parse_model", counted)
    return files


def external(path: Path, array: np.ndarray = LARGE) -> Path:
    onnx.save(parse_onnx(GRAPH, {"w": array}), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    return path


def weights(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}


def test_a_file_is_parsed_once_however_it_is_named(
    tmp_path: Path, parsed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    first = Model.open(path)
    monkeypatch.chdir(tmp_path)
    second = Model.open(Path("m.onnx"))
    assert second.facts is first.facts
    assert (first.path, second.path) == (path, Path("m.onnx"))
    assert parsed == [path]


def test_threads_that_open_a_file_at_once_parse_it_once(tmp_path: Path, parsed: list[Path]) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    found: list[Model] = []
    threads = [threading.Thread(target=lambda: found.append(Model.open(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one.proto) for one in found}) == 1
    assert parsed == [path]


def test_the_graph_is_light_and_the_weights_come_back(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE, "small": np.arange(3)})
    model = Model.open(path)
    large, small = model.proto.graph.initializer
    assert (large.data_location, large.raw_data) == (TensorProto.EXTERNAL, b"")
    assert numpy_helper.to_array(small).tolist() == [0, 1, 2]
    loaded = model.load()
    assert loaded == onnx.load(path)
    loaded.graph.name = "the caller's own"
    assert model.proto.graph.name == "g"
    assert model.load() == onnx.load(path)


def test_external_data_is_loaded_where_it_is_asked_for(tmp_path: Path) -> None:
    model = Model.open(external(tmp_path / "m.onnx"))
    assert model.files == (tmp_path / "m.onnx", tmp_path / "w.bin")
    assert model.size_bytes == sum(file.stat().st_size for file in model.files)
    assert weights(model.load())["w"].tolist() == LARGE.tolist()


@pytest.mark.parametrize("make", [external, lambda path: write_onnx(path, GRAPH, {"w": LARGE})])
@pytest.mark.parametrize("ask", [Model.load, lambda model: model.sha256])
def test_a_changed_file_is_an_error_for_who_opened_it_before_and_fresh_for_others(
    tmp_path: Path, make: Callable[[Path], Path], ask: Callable[[Model], object]
) -> None:
    path = make(tmp_path / "m.onnx")
    before, other = Model.open(path), Model.open(path).facts
    changed = before.files[-1]
    # of the same size, in place, within the tick of most file systems' clocks
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    if before.external_files or ask is Model.load:
        with pytest.raises(UsageProblem, match="changed on disk"):
            ask(before)
    else:
        assert ask(before) != Model.open(path).sha256
    assert Model.open(path).facts is not other


def test_a_replaced_file_with_the_old_date_is_read_again(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    before, status = Model.open(path), path.stat()
    new = write_onnx(tmp_path / "new.onnx", GRAPH, {"w": LARGE + 1})
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    new.replace(path)
    assert Model.open(path).sha256 != before.sha256


def test_a_file_that_went_away_is_no_model(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    model = Model.open(path)
    path.unlink()
    with pytest.raises(UsageProblem, match="does not exist"):
        Model.open(path)
    with pytest.raises(UsageProblem, match="changed on disk"):
        model.load()


def test_what_is_worked_out_once_is_shared_and_errors_are_not_kept(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    calls: list[Path] = []

    @once
    def nodes(model: Model) -> int:
        calls.append(model.path)
        if len(calls) == 1:
            raise ValueError("not yet")
        return len(model.proto.graph.node)

    with pytest.raises(ValueError, match="not yet"):
        nodes(Model.open(path))
    assert [nodes(Model.open(path)) for _ in range(3)] == [1, 1, 1]
    assert len(calls) == 2


def test_models_that_were_opened_long_ago_are_forgotten(tmp_path: Path, parsed: list[Path]) -> None:
    first = write_onnx(tmp_path / "first.onnx", GRAPH, {"w": LARGE})
    Model.open(first)
    for number in range(opened._MOST_MODELS):
        Model.open(write_onnx(tmp_path / f"{number}.onnx", GRAPH, {"w": LARGE}))
    Model.open(first)
    assert parsed.count(first) == 2


TENSORS = st.lists(
    st.tuples(
        st.sampled_from(["raw", "typed", "twice", "unknown", "group"]), st.sampled_from([0, 1, 1023, 1024, 1025, 3000])
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TENSORS, st.booleans())
def test_weights_come_back_however_the_file_is_serialised(
    tmp_path: Path, tensors: list[tuple[str, int]], split: bool
) -> None:
    """Raw or typed values, in a graph that is written in parts, beside fields that nobody knows."""
    parts = [
        helper.make_graph(
            [helper.make_node("Identity", ["x"], ["y"])],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
        ).SerializeToString()
    ]
    for place, (form, count) in enumerate(tensors):
        array = np.arange(count, dtype=np.float32) + place
        tensor = numpy_helper.from_array(array, f"t{place}")
        if form == "typed":
            tensor = helper.make_tensor(f"t{place}", TensorProto.FLOAT, [count], array.tolist())
        data = tensor.SerializeToString()
        if form == "twice":  # the last one counts
            data = b"\x4a\x03abc" + data
        if form == "unknown":
            data += b"\xf8\x3f\x05\xf9\x3f12345678\xfd\x3f1234"
        if form == "group":
            data = b"\xfb\x3f\x4a\x03abc\xfc\x3f" + data
        parts.append(b"\x2a" + _varint(len(data)) + data)
    graphs = parts if split else [b"".join(parts)]
    head = onnx.ModelProto(ir_version=9, opset_import=[helper.make_opsetid("", 17)]).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(head + b"".join(b"\x3a" + _varint(len(graph)) + graph for graph in graphs))
    expected, found = onnx.load(path), Model.open(path).load()
    assert {name: value.tolist() for name, value in weights(found).items()} == {
        name: value.tolist() for name, value in weights(expected).items()
    }
    assert [tensor.data_location for tensor in found.graph.initializer] == [TensorProto.DEFAULT] * len(tensors)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
