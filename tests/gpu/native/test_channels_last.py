"""Engines whose images have the channels last: they give what the row-major engine gives, from arrays and images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from trt_nets import SHARING

SHAPE = (3, 32, 48)
PROFILES = {"images": ((1, *SHAPE), (2, *SHAPE), (4, *SHAPE))}
Array = NDArray[Any]


def _build(native: Any, folder: Path, formats: Mapping[str, list[str]], dtype: int = TensorProto.FLOAT16) -> bytes:
    """Build y = relu(convolution of images) with 8 channels, all of one type, as strongly typed networks have it."""
    weights = np.random.default_rng(1).integers(-3, 4, (8, 3, 3, 3)).astype(np.float32)
    typed = numpy_helper.from_array(weights.astype(helper.tensor_dtype_to_np_dtype(dtype)), "w")
    nodes = [
        helper.make_node("Conv", ["images", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    tensors = [helper.make_tensor_value_info(n, dtype, ["n", c, *SHAPE[1:]]) for n, c in (("images", 3), ("y", 8))]
    graph = helper.make_graph(nodes, "net", tensors[:1], tensors[1:], [typed])
    path = folder / "net.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    options = native.BuildOptions()
    options.optimization_level = 0
    options.fp16 = dtype == TensorProto.FLOAT16
    options.io_formats = dict(formats)
    options.profiles = [native.Profile(shapes=PROFILES, values={})]
    known = native.option_names()["preview_features"]
    options.preview_features = {name: on for name, on in SHARING.items() if name in known}
    plan: bytes = native.build_engine(str(path), options).plan
    return plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("channels-last")


@pytest.fixture(scope="module")
def linear(native: Any, folder: Path) -> Any:
    return native.Engine(_build(native, folder, {}))


@pytest.fixture(scope="module")
def hwc8(native: Any, folder: Path) -> Any:
    if not hasattr(native, "Letterbox"):
        pytest.skip("the native core was built without CUDA kernels")
    return native.Engine(_build(native, folder, {"images": ["hwc8"]}))


def integers(rows: int, seed: int) -> Array:
    """Sums of their products with the weights are exact in fp16, but for transforms of a kernel's own."""
    return np.random.default_rng(seed).integers(-4, 5, (rows, *SHAPE)).astype(np.float16)


def agree(found: Array, expected: Array) -> None:
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=0, atol=2)
    assert expected.max() > 50


def test_the_engine_tells_its_format(hwc8: Any, linear: Any) -> None:
    (x,), (y,) = hwc8.inputs, hwc8.outputs
    assert (x.shape, x.dtype, x.is_linear, y.is_linear) == ((-1, *SHAPE), "float16", False, True)
    assert linear.inputs[0].is_linear
    assert x.format != linear.inputs[0].format


@pytest.mark.parametrize("how", [{}, {"cuda_graph": False}, {"graph_includes_transfers": False}])
def test_arrays_of_every_batch_give_the_values_of_the_row_major_engine(
    native: Any, hwc8: Any, linear: Any, how: dict[str, Any]
) -> None:
    with native.Runner(hwc8, native.RunnerOptions(**how)) as packed, native.Runner(linear) as plain:
        for turn in range(16):
            x = integers(1 + turn // 4, turn)
            expected = plain.run({"images": x})["y"]
            agree(packed.run({"images": x})["y"], expected)
            pixels = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
            agree(packed.run({"images": pixels.transpose(0, 3, 1, 2)})["y"], expected)
        assert (packed.graph_status().graphs > 0) == how.get("cuda_graph", True)


def test_arrays_on_the_device(native: Any, hwc8: Any, linear: Any, torch: Any) -> None:
    x = torch.zeros(4, *SHAPE, dtype=torch.float16, device="cuda")
    askew = torch.zeros(4 * math.prod(SHAPE) + 1, dtype=torch.float16, device="cuda")[1:].view(4, *SHAPE)
    with native.Runner(hwc8) as packed, native.Runner(linear) as plain:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            stream = torch.cuda.current_stream()
            found = packed.run({"images": askew}, device_outputs=["y"], outputs=[], stream=stream)["y"]
            captured = torch.from_dlpack(found)
        for turn in range(8):
            values = integers(4, turn)
            expected = plain.run({"images": values})["y"]
            for target in (x, askew):
                target.copy_(torch.from_numpy(values))
                agree(packed.run({"images": target})["y"], expected)
                agree(packed.run({"images": target.clone()[: 1 + turn % 4]})["y"], expected[: 1 + turn % 4])
            graph.replay()
            agree(captured.cpu().numpy(), expected)


@pytest.mark.parametrize("slots", [1, 2])
def test_the_letterbox_writes_what_packing_gives(native: Any, hwc8: Any, slots: int) -> None:
    spec = native.LetterboxSpec(32, 48, dtype="float16", scale=4 / 255)
    with native.Runner(hwc8, native.RunnerOptions(slots=slots)) as runner:
        for turn, count in enumerate([1, 2, 2, 2, 4, 4, 4, 3]):
            rng = np.random.default_rng(turn)
            images = [rng.integers(0, 256, (*rng.integers(1, 200, 2), 3), np.uint8) for _ in range(count)]
            expected = np.stack([native.letterbox_cpu(image, spec) for image in images])
            found = runner.run({"images": native.ImageBatch(images, spec)})["y"]
            np.testing.assert_array_equal(found, runner.run({"images": expected})["y"], strict=True)  # the same kernels
            wide = native.LetterboxSpec(32, 48, dtype="float16", scale=4 / 255, layout="hwc8")
            pixels = native.Letterbox(wide)(images).numpy()
            np.testing.assert_array_equal(pixels[..., :3].transpose(0, 3, 1, 2), expected, strict=True)
            assert not pixels[..., 3:].any()
        assert runner.graph_status().graphs > 0


def test_fp32_with_three_values_a_pixel(native: Any, folder: Path) -> None:
    try:
        hwc = native.Engine(_build(native, folder, {"images": ["hwc"]}, TensorProto.FLOAT))
    except native.UsageProblem as problem:
        pytest.skip(f"TensorRT builds no such engine: {problem}")
    spec = native.LetterboxSpec(32, 48, scale=4 / 255)
    image = np.random.default_rng(5).integers(0, 256, (70, 90, 3), np.uint8)
    tensor = np.stack([native.letterbox_cpu(image, spec)] * 2)
    plain = native.Runner(native.Engine(_build(native, folder, {}, TensorProto.FLOAT)))
    with native.Runner(hwc) as runner, plain:
        for turn in range(6):
            x = integers(1 + turn % 4, turn).astype(np.float32)
            agree(runner.run({"images": x})["y"], plain.run({"images": x})["y"])
            found = runner.run({"images": native.ImageBatch([image] * 2, spec)})["y"]
            np.testing.assert_array_equal(found, runner.run({"images": tensor})["y"], strict=True)


def test_a_bench_runs(native: Any, hwc8: Any) -> None:
    options = native.BenchOptions(iterations=20, duration_s=0, warmup_ms=0)
    assert len(native.bench(hwc8, {"images": integers(2, 0)}, options)) >= 20


def test_what_cannot_be_run_is_refused(native: Any, folder: Path) -> None:
    with pytest.raises(native.UsageProblem, match="I/O formats"):
        native.Runner(native.Engine(_build(native, folder, {"y": ["hwc8"]})))
    with pytest.raises(native.UsageProblem, match="hwc8 is a format of fp16"):
        _build(native, folder, {"images": ["hwc8"]}, TensorProto.FLOAT)
