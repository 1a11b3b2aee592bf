"""nvJPEG: pixels like the host's, in device memory, letterboxed where they lie, and scores that hardly move."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from trt_workbench.app import app
from trt_workbench.core.errors import ComponentMissing
from trt_workbench.engine import native
from trt_workbench.engine.jpeg import GpuJpegDecoder
from trt_workbench.vision.decode import decode_image

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("tensorrt", "own_output")]


@pytest.fixture(scope="module")
def decoder() -> GpuJpegDecoder:
    try:
        return GpuJpegDecoder(0)
    except ComponentMissing as missing:
        pytest.skip(f"no nvJPEG: {missing}")


def jpeg(height: int, width: int, *, mode: str = "RGB", seed: int = 0, **how: Any) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (height // 48 + 2, width // 48 + 2, 3), np.uint8)
    picture = cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    buffer = io.BytesIO()
    Image.fromarray(picture).convert(mode).save(buffer, "JPEG", **{"quality": 90, **how})
    return buffer.getvalue()


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(480, 640), (427, 640), (1080, 1920), (33, 47), (8, 8), (1, 1)])
@pytest.mark.parametrize("progressive", [False, True])
def test_pixels_are_nearly_those_of_the_host(
    decoder: GpuJpegDecoder, subsampling: str, size: tuple[int, int], progressive: bool
) -> None:
    data = jpeg(*size, subsampling=subsampling, progressive=progressive)
    found = decoder(data)
    if found is None:  # left to the host
        assert min(size) < 16
        return
    assert (found.shape, found.dtype) == ((*size, 3), "uint8")
    apart = np.abs(found.numpy().astype(int) - decode_image(data))
    assert apart.mean() < 1.5, apart.max()


def test_other_files_are_left_to_the_host_and_the_next_one_is_right(decoder: GpuJpegDecoder) -> None:
    whole = jpeg(240, 320)
    expected = decoder(whole).numpy()
    assert decoder(jpeg(120, 90, mode="CMYK")) is None
    assert decoder(jpeg(120, 90, mode="L")) is None
    assert decoder(b"") is None
    assert decoder(cv2.imencode(".png", np.zeros((9, 9, 3), np.uint8))[1].tobytes()) is None
    np.testing.assert_array_equal(decoder(whole).numpy(), expected)


def test_threads_decode_side_by_side_and_memory_is_used_again(decoder: GpuJpegDecoder) -> None:
    files = [jpeg(200 + 40 * seed, 300 + 16 * seed, seed=seed) for seed in range(8)]
    expected = [decoder(data).numpy() for data in files]

    def work(start: int) -> None:
        for turn in range(60):
            place = (start + turn) % len(files)
            np.testing.assert_array_equal(decoder(files[place]).numpy(), expected[place])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.parametrize("side", [64, 320, 700])
def test_images_are_letterboxed_where_they_lie(decoder: GpuJpegDecoder, side: int) -> None:
    core = native.native()
    if not hasattr(core, "Letterbox"):
        pytest.skip("the native core was built without CUDA kernels")
    spec = core.LetterboxSpec(side, side)
    there = [decoder(jpeg(height, 640, seed=height)) for height in (200, 480, 1500)]
    ordinary = np.random.default_rng(1).integers(0, 256, (300, 200, 3), np.uint8)
    mixed = [there[0], ordinary, *there[1:]]
    pixels = [image if isinstance(image, np.ndarray) else image.numpy() for image in mixed]
    expected = np.stack([core.letterbox_cpu(image, spec) for image in pixels])
    letterbox = core.Letterbox(spec)
    for _ in range(2):
        np.testing.assert_array_equal(letterbox(mixed).numpy(), expected, strict=True)


@pytest.mark.usefixtures("decoder")
def test_scores_hardly_move(tmp_path: Path) -> None:
    found = {}
    for place in ("host", "device"):
        words = ["eval-coco", "--backend", "trt", "--option", "optimization_level=0", "--limit", "24", "--no-report"]
        done = CliRunner().invoke(app, [*words, "--decode", place, "--output", str(tmp_path / place)])
        assert done.exit_code == 0, done.output
        found[place] = json.loads((tmp_path / place / "metrics.json").read_text(encoding="utf-8"))
    decoding = found["device"]["decoding"]
    assert (decoding["on_device"], decoding["on_host"], decoding["compared"]) == (24, 0, 8)
    assert found["device"]["settings"]["decode"] == "device"
    assert found["device"]["AP"] == pytest.approx(found["host"]["AP"], abs=0.02)


@pytest.mark.usefixtures("decoder")
def test_predict_decodes_on_the_device(tmp_path: Path) -> None:
    for seed in range(3):
        (tmp_path / f"{seed}.jpg").write_bytes(jpeg(240, 320, seed=seed))
    words = ["predict", "shapes-yolov10", str(tmp_path), "--backend", "trt", "--option", "optimization_level=0"]
    done = CliRunner().invoke(app, [*words, "--decode", "device", "--output", str(tmp_path / "seen")])
    assert done.exit_code == 0, done.output
    document = json.loads((tmp_path / "seen" / "predict.json").read_text(encoding="utf-8"))
    assert (document["decoding"]["on_device"], document["decoding"]["on_host"]) == (3, 0)
    assert len(list((tmp_path / "seen" / "pictures").iterdir())) == 3
