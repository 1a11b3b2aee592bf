"""Shapes of inputs and profiles follow the point: batch, named dimensions, image size."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.in_app import stdout_of
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.backends.base import TensorSpec
from trt_workbench.backends.measure.inputs import (
    SURE,
    complete_shapes,
    dimension_symbols,
    input_shapes,
    limited,
    onnx_inputs,
    random_image,
    random_inputs,
    usual_shapes,
    whole_numbers,
    with_image_size,
)
from trt_workbench.bench.matrix import Point, Work
from trt_workbench.bench.options import session_options
from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

TOKENS = (TensorSpec("input_ids", "int64", (None, None)), TensorSpec("attention_mask", "int64", (None, None)))
SYMBOLS = {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence")}


def write(path: Path, shape: list[Any]) -> Path:
    dims = ",".join(map(str, shape))
    return write_onnx(path, f"g (float[{dims}] x) => (float[{dims}] y) {{ y = Relu(x) }}")


def point(work: Work, backend: str = "trt", **options: Any) -> Point:
    return Point(work, "r", "r", {}, backend, "fp16", False, None, 1, options)


def test_named_dimensions_and_batch() -> None:
    assert input_shapes(TOKENS, SYMBOLS, 4, {"sequence": 16}) == {"input_ids": (4, 16), "attention_mask": (4, 16)}
    with refused(UsageProblem):
        input_shapes(TOKENS, SYMBOLS, 4, {})
    with refused(UsageProblem):
        input_shapes(TOKENS, SYMBOLS, 4, {"sequence": 16, "length": 3})
    with refused(UsageProblem):
        input_shapes([TensorSpec("x", "float32", (1, 3))], {}, 4, {})


USUAL = {
    "float[N,3,H,W] x": (2, 3, 96, 160),  # imgsz
    "float[N,H,W,4] x": (2, 96, 160, 4),
    "float[N,3,H,32] x": (2, 3, 96, 32),
    "float[N,steps,8] x": (2, 64, 8),
    "float[3,steps] x": (3, 64),
    "float[N,8,past] x, int64[N] lengths": (2, 8, 64),
    "int64[steps] at, float[N,steps,4] x": (2, 64, 4),
}


@pytest.mark.parametrize(("inputs", "shape"), USUAL.items())
def test_what_nobody_gives_a_size_has_the_usual_one(inputs: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "m.onnx", f"g ({inputs}) => (float[] y) {{ y = Neg(x) }}")
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"imgsz": "[96, 160]"})
    onnx.save(model, path)
    found = usual_shapes(Model.open(path), batch=2)[1]
    assert found.pop("x") == shape
    assert set(found.values()) <= {(2,), (64,)}
    assert found.get("at", (64,)) == (64,)
    assert usual_shapes(Model.open(path), batch=2, asked={"x": (5,) * len(shape)})[1]["x"] == (5,) * len(shape)


def test_a_sum_follows_its_parts(tmp_path: Path) -> None:
    text = "g (float[N,past] x, float[N,past_and_now] z) => (float[N,past] y) { y = Neg(x) }"
    model = onnx.load(write_onnx(tmp_path / "m.onnx", text))
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "past + 1"
    onnx.save(model, tmp_path / "m.onnx")
    assert usual_shapes(Model.open(tmp_path / "m.onnx"))[1] == {"x": (1, 64), "z": (1, 65)}
    assert usual_shapes(Model.open(tmp_path / "m.onnx"), sizes={"past": 3})[1] == {"x": (1, 3), "z": (1, 4)}


@given(
    dims=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    fixed=st.sets(st.integers(0, 2)),
    batch=st.integers(1, 4),
    other=st.integers(10, 12),
)
def test_sizes_that_an_engine_has_fixed_are_no_other_sizes(
    dims: list[int], fixed: set[int], batch: int, other: int
) -> None:
    """An engine of one point has the image's size fixed; it takes that size, by name or by place, and no other."""
    names = ("height", "width", "depth")[: len(dims)]
    shape = (batch, *(dim if axis in fixed else None for axis, dim in enumerate(dims)))
    specs, symbols = [TensorSpec("images", "float32", shape)], {"images": ("batch", *names)}
    for sizes in (dict(zip(names, dims, strict=True)), {f"images.{axis}": dim for axis, dim in enumerate(dims, 1)}):
        assert input_shapes(specs, symbols, batch, sizes) == {"images": (batch, *dims)}
        for axis, name in enumerate(sizes):
            if axis in fixed:
                with pytest.raises(UsageProblem, match=f"no dynamic dimension {name}"):
                    input_shapes(specs, symbols, batch, {**sizes, name: other})


def test_a_dimension_that_is_a_sum_follows_its_parts() -> None:
    symbols = {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "past + sequence")}

    def mask(sizes: dict[str, int], **given: Any) -> tuple[int, ...]:
        return complete_shapes(TOKENS, symbols, sizes, "give --size", **given)["attention_mask"]

    sizes = {"batch": 2, "sequence": 3, "past": 4}
    assert mask(sizes) == (2, 7)
    assert mask({**sizes, "past + sequence": 9}) == (2, 9)
    assert mask({"batch": 2, "sequence": 3}, default=5) == (2, 5)
    assert mask({"sequence": 3}, asked={"attention_mask": (8, 9)}) == (8, 9)
    assert mask({"sequence": 3, "attention_mask.1": 6}) == (1, 6)
    with refused(UsageProblem):
        mask({"sequence": 3, "past": 4}, batch=None)
    with refused(UsageProblem):
        mask(sizes, asked={"ids": (1, 2)})


def test_inputs_are_drawn_by_type_and_meaning() -> None:
    shapes = {
        "a": (2, 3), "b": (2, 8), "i": (5,), "mask": (3, 4), "flag": (), "positions": (2, 3), "lengths": (9,),
        "token_type_ids": (2, 3), "image": (2, 3, 4, 4),
    }  # fmt: skip
    types = {"a": "float16", "b": "bfloat16", "flag": "bool", "image": "float32"}
    specs = [TensorSpec(name, types.get(name, "int64"), shape) for name, shape in shapes.items()]
    drawn = random_inputs(specs, shapes, 0)
    assert {name: array.shape for name, array in drawn.items()} == shapes
    assert {name: array.dtype.name for name, array in drawn.items()} == {
        name: types.get(name, "int64") for name in shapes
    }
    assert set(drawn["i"].tolist()) <= {0, 1, 2, 3}
    assert drawn["mask"][0].all()
    assert (np.diff(drawn["mask"]) <= 0).all()
    assert drawn["positions"].tolist() == [[0, 1, 2]] * 2
    assert set(drawn["lengths"].tolist()) <= {1, 2, 3}
    assert set(drawn["token_type_ids"].ravel().tolist()) == {0, 1}
    assert 0 <= drawn["image"].min() <= drawn["image"].max() < 1 < np.abs(drawn["b"].astype(float)).max()
    few = random_inputs([TensorSpec("ids", "int64", (9, 9))], {"ids": (9, 9)}, 0, below=2)
    assert set(few["ids"].ravel().tolist()) == {0, 1}
    assert not random_inputs(specs, shapes, 0, "zeros")["a"].any()
    with refused(UsageProblem):
        random_inputs([TensorSpec("s", "object", (1,))], {"s": (1,)}, 0, hint="use --no-check")
    with refused(UsageProblem):
        random_inputs([TensorSpec("s", "int4", (1, 4))], {"s": (1, 4)}, 0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "bool"])
def test_an_input_of_no_dimension_is_an_array(dtype: str) -> None:
    (array,) = random_inputs([TensorSpec("scale", dtype, ())], {"scale": ()}, 0).values()
    assert isinstance(array, np.ndarray)
    assert (array.shape, array.dtype) == ((), dtype)


LENGTHS = [TensorSpec("x", "float32", (None, None, 8)), TensorSpec("lengths", "int64", (None,))]


@pytest.mark.parametrize("caution", [0, 1, SURE])
@pytest.mark.parametrize(("batch", "most"), [(1, 1), (1, 9), (4, 1), (4, 4), (4, 64)])
def test_lengths_are_within_the_sequence_and_reach_both_ends(batch: int, most: int, caution: int) -> None:
    shapes = {"x": (batch, most, 8), "lengths": (batch,)}
    kinds = ("random", "signed")
    drawn = [random_inputs(LENGTHS, shapes, 0, kind, caution=caution)["lengths"] for kind in kinds]
    assert {int(one) for array in drawn for one in array} <= set(range(1, most + 1))
    assert drawn[0][0] == most
    assert drawn[1][0] == 1
    assert whole_numbers(LENGTHS[1], LENGTHS, shapes, caution=caution) == (1, most, caution < SURE)


@pytest.mark.parametrize(
    ("inputs", "name", "range_"),
    [
        ({"x": (2, 80, None), "x_lengths": (2,)}, "x_lengths", (1, 30, True)),
        ({"x": (None, 2, 8), "lengths": (2,)}, "lengths", (1, 30, True)),  # time first
        ({"text": (2, None), "audio": (2, 300, 5), "text_lengths": (2,)}, "text_lengths", (1, 30, True)),
        ({"text": (2, None), "audio": (2, 300, 5), "audio_len": (2,)}, "audio_len", (1, 300, True)),
        ({"lengths": (2,)}, "lengths", (1, 3, False)),
        ({"x": (None, 9), "step": ()}, "step", (0, 3, False)),
        ({"x": (None, 1), "step": ()}, "step", (0, 3, False)),
        ({"x": (None, 9), "row": (None,)}, "row", (0, 255, False)),
        ({"x": (None, 9), "attention_mask": (None, 9)}, "attention_mask", (0, 1, True)),
        ({"x": (None, 9), "token_type_ids": (None, 9)}, "token_type_ids", (0, 1, False)),
        ({"x": (None, 9), "position_ids": (None, 300)}, "position_ids", (0, 299, False)),
    ],
)  # fmt: skip
def test_what_an_input_of_whole_numbers_takes(inputs: dict[str, Any], name: str, range_: tuple[int, int, bool]) -> None:
    specs = [
        TensorSpec(key, "int64" if key not in ("x", "text", "audio") else "float32", dims)
        for key, dims in inputs.items()
    ]
    shapes = {key: tuple(30 if dim is None else dim for dim in dims) for key, dims in inputs.items()}
    assert whole_numbers(next(one for one in specs if one.name == name), specs, shapes) == range_


def test_positions_differ_by_row_and_do_not_begin_at_0() -> None:
    spec = TensorSpec("position_ids", "int64", (None, None), below=512)
    first, other = (
        random_inputs([spec], {"position_ids": (4, 7)}, 0, k, caution=0)["position_ids"] for k in ("random", "signed")
    )
    assert (np.diff(first) == 1).all()
    assert len(set(first[:, 0].tolist())) == 4
    assert (first.max(), other.min()) == (511, 0)
    narrow = random_inputs([spec], {"position_ids": (4, 7)}, 0)["position_ids"]
    assert narrow.tolist() == [list(range(7))] * 4


@pytest.mark.parametrize(("dtype", "ends"), [("int8", (-128, 127)), ("uint8", (0, 255))])
def test_bytes_are_drawn_from_end_to_end(dtype: str, ends: tuple[int, int]) -> None:
    drawn = random_inputs([TensorSpec("image", dtype, (None, 9))], {"image": (3, 9)}, 0)["image"]
    assert (drawn.min(), drawn.max()) == ends


def test_boxes_go_from_one_corner_to_the_other() -> None:
    """A model of documents looks up widths and heights, too, which are not negative."""
    spec = TensorSpec("bbox", "int64", (None, None, 4), below=100)
    boxes = random_inputs([spec], {"bbox": (3, 50, 4)}, 0)["bbox"]
    assert boxes.dtype == np.int64
    assert 0 <= boxes.min() < boxes.max() < 100
    assert (boxes[..., 2:] >= boxes[..., :2]).all()
    assert len(np.unique(boxes[..., 0])) > 20
    other = random_inputs([TensorSpec("tokens", "int64", (None, 4))], {"tokens": (50, 4)}, 0)["tokens"]
    assert (other[:, 2] < other[:, 0]).any()


def test_random_inputs_are_the_same_for_a_seed() -> None:
    shapes = {"input_ids": (2, 8), "attention_mask": (2, 8)}
    first, again, other = (random_inputs(TOKENS, shapes, seed) for seed in (1, 1, 2))
    assert (first["input_ids"] == again["input_ids"]).all()
    assert (first["input_ids"] != other["input_ids"]).any()
    assert 0 <= first["input_ids"].min() <= first["input_ids"].max() < 256


def test_image_size_fills_height_and_width() -> None:
    size = (320, 640)
    assert with_image_size({}, {"x": ("n", 3, "h", "w")}, size) == {"x.2": 320, "x.3": 640}
    assert with_image_size({}, {"x": (None, None, None, 3)}, size) == {"x.1": 320, "x.2": 640}
    assert with_image_size({"d": 1}, {"x": ("n", 3, 320, 640)}, size) == {"d": 1}
    assert with_image_size({"d": 1}, {}, None) == {"d": 1}
    with refused(UsageProblem):
        with_image_size({}, {"x": ("n", 3, 224, 224)}, size)
    with refused(UsageProblem):
        with_image_size({}, SYMBOLS, size)


def test_profiles_of_a_point_and_of_its_sweep(tmp_path: Path) -> None:
    model = write(tmp_path / "m.onnx", ["batch", 3, "height", "width"])
    assert dimension_symbols(onnx_inputs(model)) == {"x": ("batch", 3, "height", "width")}
    work = Work("s", "arrays", "m", batch=4, imgsz=(320, 640))
    ranges = {"batch": (1, 8), "height": (160, 640), "width": (320, 1280)}
    assert str(session_options(point(work), model, ranges).shapes) == "x:4x3x320x640"
    dynamic = session_options(point(work, profile_shape="dynamic"), model, ranges)
    assert (str(dynamic.shapes), dynamic.extra) == ("x:1x3x160x320/4x3x320x640/8x3x640x1280", {})
    with refused(UsageProblem):
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


@pytest.mark.parametrize(
    "shape",
    [
        (2**31 - 1, 2**31 - 1),  # numpy: array is too big
        (0, 2**31 - 1, 2**31 - 1, 2**31 - 1),  # numpy counts what is beside a 0
        (2**31 - 1, 2**10),  # more than machines have
        (2, -3),
    ],
)
@pytest.mark.parametrize("name", ["x", "mask", "length"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_arrays_that_cannot_be_made_are_refused_in_a_sentence(name: str, dtype: str, shape: tuple[int, ...]) -> None:
    with refused(UsageProblem):
        random_inputs([TensorSpec(name, dtype, (None,) * len(shape))], {name: shape}, 0)


def test_an_input_without_numbers_is_drawn() -> None:
    assert random_inputs([TensorSpec("past", "float32", (1, 4, None, 8))], {"past": (1, 4, 0, 8)}, 0)["past"].size == 0


def test_a_picture_beyond_the_memory_is_refused() -> None:
    with refused(UsageProblem):
        random_image(2**31 - 1, 2**31 - 1, 0)


EMBEDDED = f"""g (int64[B, T] tokens, int64[B] speaker, int64[B] lengths, float[B] x)
    => (float[B, T, 1] a, float[B, 1] b, int64[B] c, float[B] d)
    <float[20, 1] phonemes = {{{",".join(map(str, np.arange(20.0)))}}}, float[2, 1] voices = {{0.5, 1.5}}>
    {{ a = Gather(phonemes, tokens) b = Gather(voices, speaker) c = Abs(lengths) d = Relu(x) }}"""


def test_integers_stay_within_the_tables_that_they_index(tmp_path: Path) -> None:
    model = write_onnx(tmp_path / "m.onnx", EMBEDDED)
    specs = [TensorSpec(name, "int64", (None,)) for name in ("tokens", "speaker", "lengths")]
    found = limited([*specs, TensorSpec("x", "float32", (None,))], model)
    assert [spec.below for spec in found] == [20, 2, None, None]
    drawn = random_inputs(found[:3], {"tokens": (40, 50), "speaker": (50,), "lengths": (50,)}, 0)
    assert set(np.unique(drawn["tokens"])) == set(range(20))
    assert set(np.unique(drawn["speaker"])) == {0, 1}
    assert {1, 40} < set(drawn["lengths"].tolist()) <= set(range(1, 41))
    single = replace(found[2], below=1)
    assert not random_inputs([single], {"lengths": (5,)}, 0)["lengths"].any()
    assert limited(specs, tmp_path / "m.plan") == specs


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    "words",
    [
        ("verify", "--backend", "ort-cpu", "--reference", "torch", "--quick"),
        ("infer-engine", "--backend", "ort-cpu", "--shape", "tokens:2x5", "--no-save"),
        ("profile", "--backend", "ort-cpu", "--shape", "tokens:2x5"),
    ],
)
def test_models_of_small_vocabularies_are_run(words: tuple[str, ...], tmp_path: Path) -> None:
    if "torch" in words:
        pytest.importorskip("torch")
    model = write_onnx(tmp_path / "m.onnx", EMBEDDED)
    stdout_of(words[0], model, *words[1:], "--output", tmp_path / "run")
