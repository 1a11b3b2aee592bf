"""Resize and GridSample against ONNX Runtime, over modes, shapes and places outside."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnxruntime as ort
import pytest
from tests.onnx_text import write_onnx
from tests.texts import refused

from trt_workbench.core.errors import UsageProblem
from trt_workbench.model.opened import Model

torch = pytest.importorskip("torch")
convert = pytest.importorskip("trt_workbench.backends.torch.onnx_torch.convert").convert

COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
SIZES = ([2, 3, 8, 10], [2, 3, 7, 4], [2, 3, 1, 3], [2, 3, 5, 11], [2, 3, 4, 10])
SCALES = ([1, 1, 2, 3], [1, 1, 1.7, 0.6], [1, 1, 0.5, 0.5], [1, 1, 1.26, 1])


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(path: Path, given: dict[str, np.ndarray], *, beside: str = "onnxruntime") -> None:
    """Compare the torch backend's graph of a file with ONNX Runtime, or with ONNX's reference implementation."""
    if beside == "onnxruntime":
        (expected,) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    else:
        (expected,) = onnx.reference.ReferenceEvaluator(onnx.load(path)).run(None, given)
    with torch.inference_mode():
        (found,) = convert(Model.open(path)).module(*(torch.from_numpy(array) for array in given.values()))
    assert found.numpy().dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-5)


def resize(path: Path, attributes: str, third: str, values: Any) -> Path:
    inputs = 'x, "", s' if third == "scales" else 'x, "", "", s'
    text = f'g (float[2,3,4,5] x) => (float[] y) {{ y = Resize<mode = "cubic", {attributes}>({inputs}) }}'
    return write_onnx(path, text, {"s": np.array(values, np.float32 if third == "scales" else np.int64)})


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize(("third", "values"), [*(("sizes", s) for s in SIZES), *(("scales", s) for s in SCALES)])
def test_cubic_resize(coordinates: str, third: str, values: Any, tmp_path: Path) -> None:
    for a, exclude in itertools.product((-0.75, -0.5), (0, 1)):
        attributes = (
            f'coordinate_transformation_mode = "{coordinates}", cubic_coeff_a = {a}, exclude_outside = {exclude}'
        )
        # of corners ONNX takes the size before it is rounded down, ONNX Runtime the one after
        beside = "onnx" if (third, coordinates) == ("scales", "align_corners") else "onnxruntime"
        check(resize(tmp_path / "m.onnx", attributes, third, values), {"x": noise(2, 3, 4, 5)}, beside=beside)


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 3, 4, 5, 3)])
def test_cubic_resize_of_other_ranks_than_images(shape: tuple[int, ...], tmp_path: Path) -> None:
    """ONNX Runtime interpolates two dimensions; the reference implementation of ONNX any number."""
    sizes = {"s": np.array([size + place for place, size in enumerate(shape, 1)])}
    text = f'g (float[{",".join(map(str, shape))}] x) => (float[] y) {{ y = Resize<mode = "cubic">(x, "", "", s) }}'
    path = write_onnx(tmp_path / "m.onnx", text, sizes)
    check(path, {"x": noise(*shape)}, beside="onnx")


@pytest.mark.parametrize(
    "attributes",
    [
        'mode = "cubic", antialias = 1',
        'mode = "cubic", coordinate_transformation_mode = "tf_crop_and_resize"',
    ],
)
def test_what_resize_cannot_do_is_named(attributes: str, tmp_path: Path) -> None:
    text = f'g (float[1,1,4,4] x) => (float[] y) {{ y = Resize<{attributes}>(x, "", "", s) }}'
    path = write_onnx(tmp_path / "m.onnx", text, {"s": np.array([1, 1, 2, 2])}, 18)
    with refused(UsageProblem):
        convert(Model.open(path)).module(torch.zeros(1, 1, 4, 4))


MODES = {16: ("bilinear", "nearest", "bicubic"), 20: ("linear", "nearest", "cubic")}


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("opset", "mode"), [(opset, mode) for opset in MODES for mode in MODES[opset]])
def test_grid_sample(opset: int, mode: str, padding: str, align: int, tmp_path: Path) -> None:
    """At places within and far outside, of images down to a single row and pixel."""
    attributes = f'mode = "{mode}", padding_mode = "{padding}", align_corners = {align}'
    path = write_onnx(
        tmp_path / "m.onnx",
        f"g (float[N,C,H,W] x, float[N,h,w,2] grid) => (float[] y) {{ y = GridSample<{attributes}>(x, grid) }}",
        opset=opset,
    )
    for number, (rows, columns) in enumerate([(4, 5), (1, 7), (6, 1), (1, 1), (9, 3)]):
        x, grid = noise(2, 3, rows, columns, seed=number), 1.5 * noise(2, 6, 8, 2, seed=number + 100)
        check(path, {"x": x, "grid": grid})


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_grid_sample_of_volumes(mode: str, padding: str, tmp_path: Path) -> None:
    attributes = f'mode = "{mode}", padding_mode = "{padding}"'
    path = write_onnx(
        tmp_path / "m.onnx",
        f"g (float[N,C,D,H,W] x, float[N,d,h,w,3] grid) => (float[] y) {{ y = GridSample<{attributes}>(x, grid) }}",
        opset=20,
    )
    check(path, {"x": noise(2, 2, 3, 4, 5), "grid": 1.5 * noise(2, 3, 2, 4, 3, seed=1)})


def test_grid_sample_by_default(tmp_path: Path) -> None:
    for opset in MODES:
        text = "g (float[1,2,4,5] x, float[1,3,3,2] grid) => (float[] y) { y = GridSample(x, grid) }"
        path = write_onnx(tmp_path / "m.onnx", text, opset=opset)
        check(path, {"x": noise(1, 2, 4, 5), "grid": noise(1, 3, 3, 2, seed=1)})


def test_grid_sample_in_half_takes_exact_places(tmp_path: Path) -> None:
    text = "g (float[1,1,64,64] x, float[1,9,9,2] grid) => (float[] y) { y = GridSample(x, grid) }"
    path = write_onnx(tmp_path / "m.onnx", text, opset=16)
    x, grid = noise(1, 1, 64, 64), noise(1, 9, 9, 2, seed=1).clip(-1, 1).astype(np.float16).astype(np.float32)
    with torch.inference_mode():
        given = torch.from_numpy(x), torch.from_numpy(grid)
        half, full = (convert(Model.open(path), kind).module(*given)[0] for kind in (torch.float16, torch.float32))
    np.testing.assert_allclose(half.numpy(), full.numpy(), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("mode", "shape"), [("cubic", "1,1,3,3,3"), ("linear", "1,1,3")])
def test_what_grid_sample_cannot_do_is_named(mode: str, shape: str, tmp_path: Path) -> None:
    sizes = [int(size) for size in shape.split(",")]
    grid = [1, *([2] * (len(sizes) - 2)), len(sizes) - 2]
    text = f"g (float[{shape}] x, float[{','.join(map(str, grid))}] grid) => (float[] y)"
    path = write_onnx(tmp_path / "m.onnx", f'{text} {{ y = GridSample<mode = "{mode}">(x, grid) }}', opset=20)
    with refused(UsageProblem):
        convert(Model.open(path)).module(torch.zeros(sizes), torch.zeros(grid))
