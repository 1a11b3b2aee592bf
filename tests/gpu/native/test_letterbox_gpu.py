from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from trt_nets import Engines

SIZES = [(1, 1), (7, 3), (32, 48), (33, 47), (480, 640), (375, 500), (1080, 1920), (2, 999), (640, 640)]


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture(autouse=True)
def _needs_kernels(native: Any) -> None:
    if not hasattr(native, "Letterbox"):
        pytest.skip("the native core was built without CUDA kernels")


def both(native: Any, spec: Any, images: list[NDArray[np.uint8]]) -> tuple[NDArray[Any], NDArray[Any]]:
    return native.Letterbox(spec)(images).numpy(), np.stack([native.letterbox_cpu(image, spec) for image in images])


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc", "hwc8"])
@pytest.mark.parametrize("placement", ["centre", "top-left", "stretch"])
@pytest.mark.parametrize("target", [(32, 48), (640, 640), (417, 33)])
def test_the_gpu_gives_the_bits_of_the_cpu(
    native: Any, dtype: str, layout: str, placement: str, target: tuple[int, int]
) -> None:
    scale = 1.0 if dtype == "uint8" else 1 / 255
    spec = native.LetterboxSpec(*target, dtype=dtype, layout=layout, placement=placement, scale=scale)
    images = [picture(*size, seed) for seed, size in enumerate(SIZES)]
    gpu, cpu = both(native, spec, images)
    np.testing.assert_array_equal(gpu, cpu, strict=True)


def test_normalisation_and_many_sizes(native: Any) -> None:
    spec = native.LetterboxSpec(
        64, 96, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), channels="bgr", scale_up=False, rounding="down"
    )
    rng = np.random.default_rng(3)
    images = [picture(*rng.integers(1, 400, 2), seed) for seed in range(60)]
    gpu, cpu = both(native, spec, images)
    np.testing.assert_array_equal(gpu, cpu, strict=True)


@pytest.mark.parametrize("side", [320, 640])
@pytest.mark.parametrize("rounding", ["nearest", "down"])
def test_sizes_around_half_of_which_only_sampled_rows_are_uploaded(native: Any, side: int, rounding: str) -> None:
    spec = native.LetterboxSpec(side, side, rounding=rounding)
    sizes = [(1080, 1920), (720, 1280), (1081, 1919), (719, 1277), (2160, 3840), (3, 5000), (5000, 3), (1, 1)]
    sizes += [(2 * side + step, width) for step in (-2, -1, 0, 1, 2, 3) for width in (side, 2 * side + 1)]
    pictures = [picture(*size, seed) for seed, size in enumerate(sizes)]
    gpu, cpu = both(native, spec, pictures)
    np.testing.assert_array_equal(gpu, cpu, strict=True)
    gpu, cpu = both(native, native.LetterboxSpec(side, side // 2, placement="stretch"), pictures)
    np.testing.assert_array_equal(gpu, cpu, strict=True)


def test_crops_and_flips(native: Any) -> None:
    whole = picture(200, 300)  # shrunk to less than half, as the flips are; the first crop is not
    spec = native.LetterboxSpec(64, 64)
    gpu, cpu = both(native, spec, [whole[10:90, 20:170], whole[::2], whole[::-1], whole[:, ::-1], whole[..., ::-1]])
    np.testing.assert_array_equal(gpu, cpu, strict=True)


def pinned(native: Any, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    copy = native.pinned_empty(image.shape)
    copy[:] = image
    return copy


@pytest.mark.parametrize("target", [(32, 48), (640, 640), (417, 33)])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_page_locked_images_among_others(native: Any, target: tuple[int, int], dtype: str) -> None:
    spec = native.LetterboxSpec(*target, dtype=dtype, scale=1.0 if dtype == "uint8" else 1 / 255)
    images = [picture(*size, seed) for seed, size in enumerate(SIZES * 4)]  # more than one launch takes
    mixed = [pinned(native, image) if seed % 3 else image for seed, image in enumerate(images)]
    expected = np.stack([native.letterbox_cpu(image, spec) for image in images])
    for _ in range(2):
        np.testing.assert_array_equal(native.Letterbox(spec)(mixed).numpy(), expected, strict=True)


@pytest.mark.parametrize("side", [64, 320])
def test_crops_and_flips_of_page_locked_images(native: Any, side: int) -> None:
    whole = pinned(native, picture(200, 300))
    spec = native.LetterboxSpec(side, side)
    views = [whole[10:90, 20:170], whole[::2], whole[::-1], whole[:, ::-1], whole[..., ::-1], whole[-1:], whole[:, -1:]]
    gpu, cpu = both(native, spec, [*views, np.broadcast_to(whole[:1], (50, 300, 3))])
    np.testing.assert_array_equal(gpu, cpu, strict=True)


def test_page_locked_images_are_read_where_they_lie(native: Any, engines: Engines) -> None:
    spec = native.LetterboxSpec(32, 48)
    images = [pinned(native, picture(480, 640, seed)) for seed in range(2)]
    with native.Runner(engines("pictures"), native.RunnerOptions(slots=2)) as runner:
        for turn in range(4):
            images[0][:] = picture(480, 640, 10 + turn)
            expected = np.stack([native.letterbox_cpu(image, spec) for image in images])
            got = runner.run({"images": native.ImageBatch(images, spec)})["y"]
            np.testing.assert_array_equal(got, expected, strict=True)
        assert runner.counters()["page_locked_images"] == 8
        assert runner.memory_bytes()["pinned_images"] == runner.memory_bytes()["device_images"] == 0
        runner.run({"images": native.ImageBatch([image.copy() for image in images], spec)})
        assert runner.counters()["page_locked_images"] == 8
        assert runner.memory_bytes()["pinned_images"] > 0
        # the caller's last reference may go before the call is waited for
        tickets = []
        for seed in range(2):
            tickets.append(
                runner.submit({"images": native.ImageBatch([pinned(native, picture(999, 700, seed))], spec)})
            )
        for seed, ticket in enumerate(tickets):
            expected = native.letterbox_cpu(picture(999, 700, seed), spec)[None]
            np.testing.assert_array_equal(ticket.result()["y"], expected, strict=True)


def test_page_locked_arrays(native: Any) -> None:
    array = native.pinned_empty((3, 5), "float32")
    assert array.shape == (3, 5)
    assert array.dtype == np.float32
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert native.pinned_empty((0, 7)).size == 0
    view = array[1:]
    del array
    view[:] = 2.0
    assert view.sum() == 20.0
    with pytest.raises(native.DeviceFailure):
        native.pinned_empty((1 << 50,))


def test_one_letterbox_serves_growing_batches(native: Any) -> None:
    spec = native.LetterboxSpec(40, 40)
    letterbox = native.Letterbox(spec)
    kept = []
    for count in (1, 5, 2, 20):
        images = [picture(30 + seed, 50, seed) for seed in range(count)]
        kept.append((letterbox(images), np.stack([native.letterbox_cpu(image, spec) for image in images])))
    for gpu, cpu in kept:  # later calls leave earlier results alone
        np.testing.assert_array_equal(gpu.numpy(), cpu, strict=True)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_large_batches(native: Any, count: int) -> None:
    spec = native.LetterboxSpec(640, 640)  # the larger batches are copied by several threads
    images = [picture(*[(720, 1280), (1001, 1333), (2000, 1500)][seed % 3], seed) for seed in range(count)]
    gpu, cpu = both(native, spec, images)
    np.testing.assert_array_equal(gpu, cpu, strict=True)


@pytest.mark.parametrize("transfers", [True, False])
@pytest.mark.parametrize("slots", [1, 2])
def test_images_go_straight_into_the_engine(native: Any, engines: Engines, transfers: bool, slots: int) -> None:
    spec = native.LetterboxSpec(32, 48)
    options = native.RunnerOptions(slots=slots, graph_includes_transfers=transfers)
    with native.Runner(engines("pictures"), options) as runner:
        for seed, count in enumerate([2, 2, 2, 2, 8, 8, 8, 1, 2, 2]):
            images = [picture(*SIZES[(seed + i) % len(SIZES)], seed + i) for i in range(count)]
            expected = np.stack([native.letterbox_cpu(image, spec) for image in images])
            got = runner.run({"images": native.ImageBatch(images, spec)})["y"]
            np.testing.assert_array_equal(got, expected, strict=True)
            tensor = runner.run({"images": expected})["y"]  # the same values from the host
            np.testing.assert_array_equal(tensor, expected, strict=True)
        assert runner.graph_status().graphs > 0
        assert runner.memory_bytes()["pinned_images"] > 0


def test_a_batch_that_does_not_fit(native: Any, engines: Engines) -> None:
    wrong = [
        (native.LetterboxSpec(32, 32), "no profile"),
        (native.LetterboxSpec(32, 48, layout="nhwc"), "no profile"),
        (native.LetterboxSpec(32, 48, dtype="float16"), "dtype float16 of its letterbox"),
    ]
    with native.Runner(engines("pictures")) as runner:
        for spec, words in wrong:
            with pytest.raises(native.UsageProblem, match=words):
                runner.run({"images": native.ImageBatch([picture(9, 9)], spec)})
        with pytest.raises(native.UsageProblem, match="at least one"):
            native.ImageBatch([], native.LetterboxSpec(32, 48))
