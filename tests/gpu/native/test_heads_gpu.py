"""Boxes found by the kernels, alone and behind an engine, are those of the families."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tests.random_heads import KINDS, MASKS, Case, check, family_of, masks_case, random_case
from trt_nets import Engines

from trt_workbench.vision.families import DecodeSettings

CASES = 150


@pytest.fixture(autouse=True)
def _needs_kernels(native: Any) -> None:
    if not hasattr(native, "find_boxes_gpu"):
        pytest.skip("the native core was built without CUDA kernels")


@pytest.mark.parametrize("kind", KINDS)
def test_random_heads(native: Any, kind: str) -> None:
    rng = np.random.default_rng(100 + KINDS.index(kind))
    judged = sum(check(native, random_case(rng, kind), "find_boxes_gpu") for _ in range(CASES))
    assert judged > CASES / 2


@pytest.mark.parametrize("name", MASKS)
def test_masks(native: Any, name: str) -> None:
    assert check(native, masks_case(name), "find_boxes_gpu") == MASKS[name][0]


def test_masks_of_coco(native: Any) -> None:
    """YOLO's prototypes at 640 x 640, up to 300 boxes of every size in eight images."""
    rng = np.random.default_rng(7)
    centres, sizes = rng.uniform(0, 640, (8, 2, 8400)), rng.exponential(60, (8, 2, 8400))
    scores = rng.uniform(0.002, 0.9, (8, 4, 8400)) * (rng.random((8, 4, 8400)) < 0.02)
    output = np.concatenate([centres, sizes, scores, rng.normal(0, 1, (8, 32, 8400))], axis=1).astype(np.float32)
    planes = rng.normal(0, 1, (8, 32, 160, 160)).astype(np.float32)
    spec = native.HeadSpec(
        640, 640, 8400, 4, form="centre", label_major=True, iou=0.7, most=30_000, boxes=(0, 0, 1, 8400),
        scores=(0, 4 * 8400, 1, 8400), more=(0, 8 * 8400, 1, 8400), values=32, planes=(1, 0, 160 * 160, 1),
        plane_height=160, plane_width=160,
    )  # fmt: skip
    found, expected = (find(spec, [output, planes]) for find in (native.find_boxes_gpu, native.find_boxes_cpu))
    assert same(found, expected)
    assert all(len(one[0]) == 300 and one[4].any() for one in found)


def test_more_masks_than_there_is_room_for(native: Any) -> None:
    rows = np.tile(np.array([0, 0, 4096, 4096, 0.5, 0, 1], np.float32), (2, 3, 1))
    rows[1, 2, 4] = 0
    places = {"boxes": (0, 0, 7, 1), "scores": (0, 4, 7, 1), "labels": (0, 5, 7, 1), "more": (0, 6, 7, 1)}
    planes = {"planes": (1, 0, 16, 1), "plane_height": 4, "plane_width": 4, "values": 1}
    spec = native.HeadSpec(4096, 4096, 3, 1, kind="rows", **places, **planes)
    beyond, within = native.find_boxes_gpu(spec, [rows, np.ones((2, 1, 4, 4), np.float32)])
    assert beyond is None
    assert (within[4] == 0xFFFF_FFFF).all()
    assert len(within[4]) == 2 * 4096 * 4096 // 32


def coco_head(rng: np.random.Generator, share: float, images: int = 2) -> Case:
    """A YOLOv8 head of COCO at 640 x 640, with that share of its 672,000 pairs above the threshold."""
    family = family_of("yolov8", {"output": np.zeros((1, 84, 8400), np.float32)}, 80)
    places = rng.uniform(0, 640, (images, 2, 8400))
    sizes = rng.uniform(4, 200, (images, 2, 8400))
    scores = rng.uniform(0.002, 0.9, (images, 80, 8400)) * (rng.random((images, 80, 8400)) < share)
    output = np.concatenate([places, sizes, scores], axis=1).astype(np.float32)
    return Case(family, {"output": output}, DecodeSettings())


@pytest.mark.parametrize("share", [0.0, 0.0005, 0.01, 0.03, 0.06])
def test_a_head_of_coco(native: Any, share: float) -> None:
    assert check(native, coco_head(np.random.default_rng(5), share), "find_boxes_gpu") == 2


def test_crowds_of_one_class(native: Any) -> None:
    """Thousands of boxes of a class, most of which are dropped."""
    rng = np.random.default_rng(6)
    case = coco_head(rng, 0.02, 1)
    output = case.outputs["output"]
    output[:, 5:] = 0
    output[:, 4] = rng.uniform(0.002, 0.9, (1, 8400))
    output[:, :2] = rng.uniform(300, 340, (1, 2, 8400))
    output[:, 2:4] = rng.uniform(100, 140, (1, 2, 8400))
    assert check(native, case, "find_boxes_gpu") == 1


def test_more_candidates_than_there_is_room_for(native: Any) -> None:
    assert check(native, coco_head(np.random.default_rng(5), 0.2, 1), "find_boxes_gpu") == 0


def rows_spec(native: Any, **changed: Any) -> Any:
    """The head of the engine "pictures", relu of its input [N, 3, 32, 48]: 768 rows of six values."""
    places = {"boxes": (0, 0, 6, 1), "scores": (0, 4, 6, 1), "labels": (0, 5, 6, 1)}
    return native.HeadSpec(32, 48, 768, 0, kind="rows", **places, **changed)


def rows_input(seed: int, images: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.random((images, 768, 6)).astype(np.float32)
    rows[..., 5] = rng.integers(0, 9, rows.shape[:2])
    return rows.reshape(images, 3, 32, 48)


def same(found: list[Any], expected: list[Any]) -> bool:
    return all(
        np.array_equal(one, other)
        for ours, theirs in zip(found, expected, strict=True)
        for one, other in zip(ours, theirs, strict=True)
    )


MASKED = {"more": (0, 0, 6, 1), "values": 3, "planes": (0, 0, 1536, 1), "plane_height": 32, "plane_width": 48}


@pytest.mark.parametrize("further", [{}, {"more": (0, 2, 6, 1), "values": 4}, MASKED])
def test_boxes_behind_an_engine(native: Any, engines: Engines, further: dict[str, Any]) -> None:
    spec = rows_spec(native, conf=0.5, **further)
    with native.Detector(engines("pictures"), spec) as detector:
        for turn in range(12):
            x = rows_input(turn, 1 + turn % 3)
            x.reshape(-1, 6)[:, :4] *= 60
            x.reshape(-1, 6)[:, :4] -= 20
            names = ["y"] if turn % 2 else []
            found, outputs = detector.run({"images": x}, outputs=names)
            assert all(len(one) == 3 + bool(further) + ("planes" in further) for one in found)
            assert same(found, native.find_boxes_cpu(spec, [np.maximum(x, 0)]))
            assert [*outputs] == names
        assert detector.graph_status().startswith("on: ")


def test_boxes_of_letterboxed_images(native: Any, engines: Engines) -> None:
    letterbox = native.LetterboxSpec(32, 48)
    spec = rows_spec(native)
    images = [np.random.default_rng(seed).integers(0, 256, (90, 70, 3), np.uint8) for seed in range(2)]
    with native.Detector(engines("pictures"), spec) as detector:
        for _ in range(4):
            found, outputs = detector.run({"images": native.ImageBatch(images, letterbox)}, outputs=["y"])
            assert found == [None, None]  # pixels are no classes
            np.testing.assert_array_equal(
                outputs["y"], np.stack([native.letterbox_cpu(one, letterbox) for one in images])
            )


def test_threads_get_their_own_boxes(native: Any, engines: Engines) -> None:
    spec = rows_spec(native, conf=0.5)
    with native.Detector(engines("pictures"), spec, native.RunnerOptions(slots=3)) as detector:

        def is_right(seed: int) -> bool:
            x = rows_input(seed, 1 + seed % 2)
            return same(detector.run({"images": x})[0], native.find_boxes_cpu(spec, [x]))

        with ThreadPoolExecutor(6) as threads:
            assert all(threads.map(is_right, range(200)))


def test_a_head_that_does_not_fit_leaves_the_detector_usable(native: Any, engines: Engines) -> None:
    wide = native.HeadSpec(32, 48, 769, 0, kind="rows", boxes=(0, 0, 6, 1), scores=(0, 4, 6, 1), labels=(0, 5, 6, 1))
    with native.Detector(engines("pictures"), wide) as detector:
        for _ in range(3):
            with pytest.raises(native.UsageProblem, match="do not lie as its head says"):
                detector.run({"images": rows_input(0, 1)})
