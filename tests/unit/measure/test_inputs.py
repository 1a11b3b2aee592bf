"""Shapes of inputs and profiles follow the point: batch, named dimensions, image size."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from trt_workbench.backends.base import TensorSpec
from trt_workbench.bench.matrix import Point, Work
from trt_workbench.bench.session_options import session_options
from trt_workbench.errors import UsageProblem
from trt_workbench.measure.inputs import dimension_symbols, input_shapes, random_inputs, with_image_size

TOKENS = (TensorSpec("input_ids", "int64", (None, None)), TensorSpec("attention_mask", "int64", (None, None)))
SYMBOLS = {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence")}


def write(path: Path, shape: list[Any]) -> Path:
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def point(work: Work, backend: str = "trt", **options: Any) -> Point:
    return Point(work, "r", "r", {}, backend, "fp16", False, None, 1, options)


def test_named_dimensions_and_batch() -> None:
    assert input_shapes(TOKENS, SYMBOLS, 4, {"sequence": 16}) == {"input_ids": (4, 16), "attention_mask": (4, 16)}
    with pytest.raises(UsageProblem, match=r"Dimension sequence of input input_ids .* has no value"):
        input_shapes(TOKENS, SYMBOLS, 4, {})
    with pytest.raises(UsageProblem, match="no dynamic dimension length"):
        input_shapes(TOKENS, SYMBOLS, 4, {"sequence": 16, "length": 3})
    with pytest.raises(UsageProblem, match="exactly 1, not 4"):
        input_shapes([TensorSpec("x", "float32", (1, 3))], {}, 4, {})


def test_random_inputs_are_the_same_for_a_seed_and_masks_are_ones() -> None:
    shapes = {"input_ids": (2, 8), "attention_mask": (2, 8)}
    first, again, other = (random_inputs(TOKENS, shapes, seed) for seed in (1, 1, 2))
    assert (first["input_ids"] == again["input_ids"]).all()
    assert (first["input_ids"] != other["input_ids"]).any()
    assert (first["attention_mask"] == 1).all()
    assert 0 <= first["input_ids"].min() <= first["input_ids"].max() < 256


def test_image_size_fills_height_and_width() -> None:
    size = (320, 640)
    assert with_image_size({}, {"x": ("n", 3, "h", "w")}, size) == {"x.2": 320, "x.3": 640}
    assert with_image_size({}, {"x": (None, None, None, 3)}, size) == {"x.1": 320, "x.2": 640}
    assert with_image_size({"d": 1}, {"x": ("n", 3, 320, 640)}, size) == {"d": 1}
    assert with_image_size({"d": 1}, {}, None) == {"d": 1}
    with pytest.raises(UsageProblem, match="exported for 224 pixels along axis 2, not 320"):
        with_image_size({}, {"x": ("n", 3, 224, 224)}, size)
    with pytest.raises(UsageProblem, match="this one has none"):
        with_image_size({}, SYMBOLS, size)


def test_profiles_of_a_point_and_of_its_sweep(tmp_path: Path) -> None:
    model = write(tmp_path / "m.onnx", ["batch", 3, "height", "width"])
    assert dimension_symbols(model) == {"x": ("batch", 3, "height", "width")}
    work = Work("s", "arrays", "m", batch=4, imgsz=(320, 640))
    ranges = {"batch": (1, 8), "height": (160, 640), "width": (320, 1280)}
    assert str(session_options(point(work), model, ranges).shapes) == "x:4x3x320x640"
    dynamic = session_options(point(work, profile_shape="dynamic"), model, ranges)
    assert (str(dynamic.shapes), dynamic.extra) == ("x:1x3x160x320/4x3x320x640/8x3x640x1280", {})
    with pytest.raises(UsageProblem, match="static or dynamic, not 'wide'"):
        session_options(point(work, profile_shape="wide"), model, ranges)
    # another backend does not know the option, and says so when it loads
    assert session_options(point(work, "ort-cuda", profile_shape="dynamic"), model, ranges).extra == {
        "profile_shape": "dynamic"
    }
    fixed = write(tmp_path / "fixed.onnx", [1, 3, 8, 8])
    assert session_options(point(Work("s", "arrays", "m")), fixed, {}).shapes is None


def test_sequence_lengths_of_a_sweep(tmp_path: Path) -> None:
    model = write(tmp_path / "m.onnx", ["batch", "sequence"])
    work = Work("s", "arrays", "m", batch=2, dims={"sequence": 64})
    options = session_options(point(work, profile_shape="dynamic"), model, {"batch": (1, 2), "sequence": (16, 512)})
    assert str(options.shapes) == "x:1x16/2x64/2x512"
