import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_text import parse_onnx, write_onnx
from tests.texts import refused

from trt_workbench.core import hashing
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model import opened
from trt_workbench.model import weights as weights_module
from trt_workbench.model.opened import Model, once
from trt_workbench.model.proto import is_external
from trt_workbench.model.reading import all_tensors, check_model
from trt_workbench.model.walking import all_graphs

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
    link = tmp_path / "link.onnx"
    link.symlink_to("m.onnx")
    assert Model.open(link).facts is first.facts
    assert parsed == [path]


def test_a_link_in_another_folder_has_the_external_data_of_that(tmp_path: Path) -> None:
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        external(tmp_path / name / "m.onnx", np.full_like(LARGE, value))
    link = tmp_path / "b" / "link.onnx"
    link.symlink_to(tmp_path / "a" / "m.onnx")
    found = [weights(Model.open(path).load())["w"].flat[0] for path in (tmp_path / "a" / "m.onnx", link)]
    assert found == [1, 2]


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
        with refused(UsageProblem):
            ask(before)
    else:
        assert ask(before) != Model.open(path).sha256
    assert Model.open(path).facts is not other


def test_a_file_that_went_away_is_no_model(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    model = Model.open(path)
    path.unlink()
    with refused(UsageProblem):
        Model.open(path)
    with refused(UsageProblem):
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


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of files that are opened to be read."""
    names: list[str] = []
    for module in (hashing, weights_module):
        real = module.open_regular

        def counted(path: Path, real: Callable[[Path], Any] = real) -> Any:
            names.append(path.name)
            return real(path)

        monkeypatch.setattr(module, "open_regular", counted)
    return names


def test_small_files_are_read_once_whatever_is_asked_for(tmp_path: Path, read: list[str]) -> None:
    model = Model.open(external(tmp_path / "m.onnx"))
    expected = model.load()
    assert model.sha256 == Model.open(tmp_path / "m.onnx").sha256
    assert Model.open(tmp_path / "m.onnx").load() == expected
    assert read == ["m.onnx", "w.bin"]


@pytest.mark.parametrize("make", [external, lambda path: write_onnx(path, GRAPH, {"w": LARGE})])
def test_large_files_are_not_kept(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path]
) -> None:
    given: list[None] = []
    monkeypatch.setattr(opened, "_MOST_KEPT_BYTES", 10)
    monkeypatch.setattr(opened, "give_back", lambda: given.append(None))
    model = Model.open(make(tmp_path / "m.onnx"))
    assert given  # to the system, before another process loads it
    first, second = model.load(), model.load()
    assert first == second
    assert weights(first)["w"].tolist() == LARGE.tolist()
    assert len(model.sha256) == 64
    assert not model._content.parts
    assert read == ["m.onnx", "m.onnx", "m.onnx"] or read == ["m.onnx", "w.bin", "w.bin", "w.bin"]


def test_what_many_models_hold_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write_onnx(tmp_path / f"{number}.onnx", GRAPH, {"w": LARGE}) for number in range(4)]
    monkeypatch.setattr(opened, "_MOST_KEPT_BYTES", 2 * paths[0].stat().st_size)
    models = [Model.open(path) for path in paths]
    assert [bool(model._content.parts) for model in models] == [False, False, True, True]
    assert weights(models[0].load())["w"].tolist() == LARGE.tolist()


def values(model: onnx.ModelProto) -> list[list[float]]:
    return [numpy_helper.to_array(tensor).tolist() for tensor in all_tensors(model, all_graphs(model))]


def test_memory_holds_the_graph_alone(tmp_path: Path) -> None:
    """What files of 16 MiB leave behind, once their content is let go, is less than a tenth of them."""
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": np.zeros((64, 64), np.float32), "v": np.zeros(2**24, np.uint8)})
    code = f"""
import ctypes, resource
from pathlib import Path
from trt_workbench.model import opened
opened._MOST_KEPT_BYTES = 0
def resident():
    ctypes.CDLL(None).malloc_trim(0)  # else glibc may keep pages that were freed below one in use
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
opened.Model.open(Path({str(path)!r}))
small = resident()
models = [opened.Model.open(Path({str(path)!r}).with_name(f"{{n}}.onnx")) for n in range(4)]
print(resident() - small)
"""
    for number in range(4):
        (tmp_path / f"{number}.onnx").write_bytes(path.read_bytes())
    grown = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert grown < 4 * 2**24 / 10


def saved(path: Path, graph: str, arrays: dict[str, Any], where: str) -> Path:
    """Write a model with all its weights, the smallest too, inside or in a file beside it."""
    beside = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0} if where == "beside" else {}
    onnx.save(parse_onnx(graph, arrays), path, **beside)
    return path


@pytest.mark.parametrize("where", ["inside", "beside"])
def test_what_tells_the_shapes_is_in_the_graph_wherever_it_was(tmp_path: Path, where: str) -> None:
    text = "g (float[N,64] x) => (float[a,b,c] y) { z = MatMul(x, w) y = Reshape(z, s) }"
    path = saved(tmp_path / "m.onnx", text, {"w": LARGE, "s": np.array([-1, 8, 8])}, where)
    model = Model.open(path)
    assert model.index.facts("y").shape[1:] == (8, 8)
    assert [is_external(tensor) for tensor in model.proto.graph.initializer] == [True, False]
    assert values(model.load()) == values(onnx.load(path))


@pytest.mark.parametrize("where", ["inside", "beside"])
def test_a_division_that_ends_the_process_is_refused_wherever_its_numbers_are(tmp_path: Path, where: str) -> None:
    text = "g (int64[1] x) => (int64[1] y) { a = Div(big, minus) y = Add(x, a) }"
    arrays = {"big": np.array([np.iinfo(np.int64).min]), "minus": np.array([-1])}
    with refused(UsageProblem):
        Model.open(saved(tmp_path / "m.onnx", text, arrays, where))


@pytest.fixture
def large_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Take every file for a large one; return what forgets the models of this process."""
    monkeypatch.setattr(opened, "_LEAST_REMEMBERED_BYTES", 0)
    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    return opened._opened.clear


@pytest.mark.parametrize("outside", [False, True])
def test_a_remembered_file_is_read_only_where_its_graph_is_asked_for(
    tmp_path: Path, parsed: list[Path], large_from_here: Callable[[], None], outside: bool
) -> None:
    path = tmp_path / "m.onnx"
    external(path) if outside else write_onnx(path, GRAPH, {"w": LARGE})
    first = Model.open(path)
    first.remember()
    large_from_here()
    model = Model.open(path, recognise=True)
    assert (model.facts, model.sha256, model.size_bytes) == (first.facts, first.sha256, first.size_bytes)
    model.require_unchanged()
    assert parsed == [path]
    np.testing.assert_array_equal(weights(model.load())["w"], LARGE)
    assert model.proto is model.proto
    assert parsed == [path, path]
    large_from_here()
    assert Model.open(path).sha256 == first.sha256  # who does not ask for it reads
    assert parsed == [path] * 3


def _edited_in_place(path: Path) -> None:
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def _replaced(path: Path) -> None:
    times = path.stat()
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    _edited_in_place(other)
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)


@pytest.mark.parametrize("name", ["m.onnx", "w.bin"])
@pytest.mark.parametrize("change", [_edited_in_place, _replaced])
def test_a_changed_file_is_not_taken_for_the_remembered_one(
    tmp_path: Path,
    parsed: list[Path],
    large_from_here: Callable[[], None],
    name: str,
    change: Callable[[Path], None],
) -> None:
    path = external(tmp_path / "m.onnx")
    first = Model.open(path)
    first.remember()
    before = first.sha256
    large_from_here()
    recognised = Model.open(path, recognise=True)
    change(tmp_path / name)
    for _ in range(2):
        with pytest.raises(UsageProblem):
            _ = recognised.proto
    large_from_here()
    try:
        assert Model.open(path, recognise=True).sha256 != before
    except UsageProblem:
        assert name == "m.onnx"  # a graph with another last byte may be none
    assert len(parsed) > 1


def test_a_file_that_changes_right_after_it_was_read_is_seen(
    tmp_path: Path, large_from_here: Callable[[], None]
) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    for number in range(20):  # within one tick of the file system's clock, and of the same size
        model = Model.open(path)
        model.remember()
        write_onnx(path, GRAPH, {"w": LARGE + number + 1})
        large_from_here()
        assert Model.open(path, recognise=True).sha256 == hashing.hash_bytes(path.read_bytes())


@pytest.mark.parametrize("text", ["", "{}", '{"sha256": "", "document": {}}'])
def test_a_damaged_record_of_a_file_is_not_used(
    tmp_path: Path, parsed: list[Path], large_from_here: Callable[[], None], text: str
) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    Model.open(path).remember()
    (record,) = (tmp_path / "out" / "models").iterdir()
    record.write_text(text)
    large_from_here()
    Model.open(path, recognise=True).remember()
    assert parsed == [path, path]
    large_from_here()
    Model.open(path, recognise=True)
    assert parsed == [path, path]


def test_small_files_and_those_of_another_version_are_read(
    tmp_path: Path, parsed: list[Path], large_from_here: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_onnx(tmp_path / "m.onnx", GRAPH, {"w": LARGE})
    Model.open(path).remember()
    monkeypatch.setattr(opened, "__version__", "another")
    large_from_here()
    model = Model.open(path, recognise=True)
    assert parsed == [path, path]
    (tmp_path / "out" / "models").rename(tmp_path / "other")
    monkeypatch.setattr(opened, "_LEAST_REMEMBERED_BYTES", 1 << 24)
    model.remember()
    assert not (tmp_path / "out" / "models").exists()


def _without_inputs(operator: str, place: str) -> onnx.ModelProto:
    """A model whose node of an operator has no inputs: in the graph, in a branch, or in a function."""
    lone = helper.make_node(operator, [], ["y"])
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    ask = helper.make_tensor_value_info("ask", TensorProto.BOOL, [])
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    if place == "function":
        own = helper.make_function("own", "Own", [], ["y"], [lone], sets[:1])
        graph = helper.make_graph([helper.make_node("Own", [], ["y"], domain="own")], "g", [ask], [value])
        return helper.make_model(graph, opset_imports=sets, functions=[own])
    if place == "branch":
        branch = helper.make_graph([lone], "b", [], [value])
        node = helper.make_node("If", ["ask"], ["y"], then_branch=branch, else_branch=branch)
        return helper.make_model(helper.make_graph([node], "g", [ask], [value]), opset_imports=sets)
    return helper.make_model(helper.make_graph([lone], "g", [ask], [value]), opset_imports=sets)


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
def test_a_node_without_an_input_that_its_operator_needs_is_refused(place: str) -> None:
    names = [one.name for one in onnx.defs.get_all_schemas() if onnx.defs.has(one.name, 21, "")]
    needing = [name for name in names if onnx.defs.get_schema(name, 21, "").min_input]
    assert len(needing) > 150
    for operator in needing:
        with pytest.raises(ValueError, match=f"lacks an input that {operator} needs"):
            check_model(_without_inputs(operator, place))


def test_what_an_operator_may_leave_out_is_not_missed() -> None:
    clip = helper.make_node("Clip", ["x", "", "most"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in ("x", "most", "y")]
    check_model(helper.make_model(helper.make_graph([clip], "g", values[:2], values[2:])))
